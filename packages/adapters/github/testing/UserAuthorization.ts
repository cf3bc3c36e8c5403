/**
 * GitHub's side of an App's user flow: the page that asks a person, the codes it gives, the tokens they are good for.
 * https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
 */
import { createHash, randomBytes } from "node:crypto"
import { type Answer, refuse, tokenOf } from "./Routes.ts"

interface Person {
  readonly id: number
  readonly login: string
  readonly name: string | null
  /** `null`: hidden, as it is by default. */
  readonly email: string | null
}

interface Code {
  readonly person: Person
  readonly redirectUri: string
  readonly challenge: string | null
  readonly untilMillis: number
}

const CODE_LIFE_MILLIS = 600_000
const TOKEN_LIFE_SECONDS = 28_800
const REFRESH_TOKEN_LIFE_SECONDS = 15_897_600
const TROUBLE = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors/"

const redirect = (to: string, query: Readonly<Record<string, string>>): Answer => {
  const url = new URL(to)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return { status: 302, headers: { location: url.href } }
}

export class UserAuthorization {
  readonly clientId = "Iv23liSlipwayTesting"
  readonly clientSecret = randomBytes(20).toString("hex")
  /** Registered with the App. Empty: any will do, as on no real GitHub. */
  readonly callbackUrls: Array<string> = []
  /** The person at the browser, signed in to GitHub. */
  person: Person = { id: 583_231, login: "ada-l", name: "Ada Lovelace", email: null }
  /** Whether that person lets the App know who they are. */
  agrees = true
  /** Every code and token ever given, so that tests can look for them. */
  readonly issued: Array<string> = []
  readonly #codes = new Map<string, Code>()
  readonly #tokens = new Map<string, Person>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  #issue(prefix: string): string {
    const value = prefix + randomBytes(18).toString("hex")
    this.issued.push(value)
    return value
  }

  /** `GET /login/oauth/authorize`, as it ends for the person's browser. */
  authorize(query: URLSearchParams): Answer {
    if (query.get("client_id") !== this.clientId) return { status: 404, body: Buffer.from("Not Found") }
    const [registered = query.get("redirect_uri") ?? ""] = this.callbackUrls
    const redirectUri = query.get("redirect_uri") ?? registered
    const state = query.has("state") ? { state: query.get("state") ?? "" } : {}
    if (this.callbackUrls.length > 0 && !this.callbackUrls.includes(redirectUri)) {
      return redirect(registered, {
        error: "redirect_uri_mismatch",
        error_description: "The redirect_uri is not associated with this application.",
        ...state
      })
    }
    if (!this.agrees) {
      return redirect(redirectUri, { error: "access_denied", error_description: "The user has denied your application access.", ...state })
    }
    const challenge = query.get("code_challenge")
    if (challenge !== null && query.get("code_challenge_method") !== "S256") {
      return redirect(redirectUri, { error: "invalid_request", ...state })
    }
    const code = this.#issue("")
    this.#codes.set(code, { person: this.person, redirectUri, challenge, untilMillis: this.#now() + CODE_LIFE_MILLIS })
    return redirect(redirectUri, { code, ...state })
  }

  /** `POST /login/oauth/access_token`. Errors have status 200; JSON is for those who ask for it. */
  exchange(body: string, accept: string | undefined): Answer {
    const form = new URLSearchParams(body)
    const answer = (fields: Readonly<Record<string, string | number>>): Answer =>
      accept?.includes("application/json") === true
        ? { status: 200, body: fields }
        : {
          status: 200,
          headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
          body: Buffer.from(new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)])).toString())
        }
    const fail = (error: string, error_description: string) =>
      answer({ error, error_description, error_uri: `${TROUBLE}#${error.replaceAll("_", "-")}` })

    if (form.get("client_id") !== this.clientId) return { status: 404, body: { error: "Not Found" } }
    if (form.get("client_secret") !== this.clientSecret) {
      return fail("incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.")
    }
    const value = form.get("code") ?? ""
    const code = this.#codes.get(value)
    this.#codes.delete(value)
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url")
    if (code === undefined || code.untilMillis <= this.#now() || (code.challenge !== null && code.challenge !== challenge)) {
      return fail("bad_verification_code", "The code passed is incorrect or expired.")
    }
    if (form.has("redirect_uri") && form.get("redirect_uri") !== code.redirectUri) {
      return fail("redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL for this application.")
    }
    const token = this.#issue("ghu_")
    this.#tokens.set(token, code.person)
    return answer({
      access_token: token,
      expires_in: TOKEN_LIFE_SECONDS,
      refresh_token: this.#issue("ghr_"),
      refresh_token_expires_in: REFRESH_TOKEN_LIFE_SECONDS,
      scope: "",
      token_type: "bearer"
    })
  }

  /** `GET /user` of the REST API. */
  profile(authorization: string | undefined): Answer {
    const token = tokenOf(authorization) ?? ""
    const person = this.#tokens.get(token)
    if (person !== undefined) return { status: 200, body: { ...person, type: "User", site_admin: false } }
    return token.startsWith("ghs_")
      ? refuse(403, "Resource not accessible by integration")
      : refuse(401, token === "" ? "Requires authentication" : "Bad credentials")
  }
}
