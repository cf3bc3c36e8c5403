/** A real provider of OpenID Connect (`oidc-provider`) whose every prompt is agreed to, and a browser that visits it. */
import { Effect, type Scope } from "effect"
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:http"
import Provider from "oidc-provider"

type Json = Record<string, unknown>

export interface Behaviour {
  readonly redirectUri: string
  /** Whether the ID token has only what it must have, and the userinfo endpoint the rest. */
  readonly bare?: boolean
  /** Whether it has an address to sign out. Default true. */
  readonly signsOut?: boolean
}

export interface OidcServer {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The claims of the person who signs in; `null`: the account was removed. */
  person: Json | null
  /** Whether the person agrees. */
  agrees: boolean
  /** Changes the ID token that is given. */
  forge: ((token: Token) => string) | null
  /** Changes the metadata that are given. */
  metadata: Json
  /** The paths that were asked for. */
  readonly got: Array<string>
  /** When set, every request gets this answer. */
  failing: { readonly status: number; readonly body?: string; readonly location?: string } | null
}

/** An ID token, and how to sign another one. */
export interface Token {
  readonly header: Json
  readonly claims: Json
  /** Signs with the provider's key. */
  readonly signed: (claims: Json, header?: Json) => string
}

const coded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

/** A token of this content, signed with this key. */
export const signedWith = (key: KeyObject, claims: unknown, header: unknown): string => {
  const content = `${coded(header)}.${coded(claims)}`
  return `${content}.${sign("sha256", Buffer.from(content), key).toString("base64url")}`
}

const CLIENT = { id: "slipway", secret: "s3cret-s3cret-s3cret-s3cret-s3cret" }

const configuration = ({ bare = false, redirectUri, signsOut = true }: Behaviour, key: KeyObject, made: () => OidcServer) => ({
  clients: [{
    client_id: CLIENT.id,
    client_secret: CLIENT.secret,
    redirect_uris: [redirectUri],
    post_logout_redirect_uris: [new URL("/sign-in", redirectUri).href],
    grant_types: ["authorization_code"],
    response_types: ["code"]
  }],
  jwks: { keys: [{ ...key.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "test" }] },
  scopes: ["openid", "email", "profile", "groups"],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups", "preferred_username"] },
  conformIdTokenClaims: bare,
  ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: signsOut } },
  pkce: { required: () => true },
  cookies: { keys: ["test-only"] },
  interactions: { url: (_context: unknown, { uid }: { readonly uid: string }) => `/login/${uid}` },
  findAccount: (_context: unknown, id: string) => {
    const { person } = made()
    return person === null ? undefined : { accountId: id, claims: () => ({ ...person, sub: id }) }
  }
})

const tokenOf = (key: KeyObject, token: string): Token => {
  const [header = {}, claims = {}] = token.split(".").slice(0, 2).map((part): Json => JSON.parse(Buffer.from(part, "base64url").toString()))
  return { header, claims, signed: (claims, changed = header) => signedWith(key, claims, changed) }
}

/** Answers prompts, and forges what the test wants forged. */
const acting = (provider: Provider, key: KeyObject, made: () => OidcServer) => {
  provider.use(async (context, next) => {
    const server = made()
    if (!context.path.startsWith("/login/")) {
      await next()
      const body: unknown = Reflect.get(context, "body")
      if (body === null || typeof body !== "object") return
      if (context.path === "/token" && "id_token" in body && server.forge !== null) {
        Object.assign(context, { body: { ...body, id_token: server.forge(tokenOf(key, String(body.id_token))) } })
      }
      if (context.path.endsWith("/openid-configuration")) Object.assign(context, { body: { ...body, ...server.metadata } })
      return
    }
    const { params, prompt } = await provider.interactionDetails(context.req, context.res)
    if (!server.agrees) {
      return await provider.interactionFinished(context.req, context.res, { error: "access_denied" })
    }
    const accountId = String(server.person?.["sub"])
    if (prompt.name === "login") return await provider.interactionFinished(context.req, context.res, { login: { accountId } })
    const grant = new provider.Grant({ accountId, clientId: String(params["client_id"]) })
    grant.addOIDCScope("openid email profile groups")
    return await provider.interactionFinished(context.req, context.res, { consent: { grantId: await grant.save() } })
  })
}

export const start = (behaviour: Behaviour): Effect.Effect<OidcServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
    let answer: ReturnType<Provider["callback"]> | null = null
    /** Exchanges run one after the other: this provider's memory knows no transactions. */
    let last: Promise<unknown> = Promise.resolve()
    const server = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? "/", "http://x")
      made.got.push(pathname)
      if (made.failing !== null) {
        const { body = "", location, status } = made.failing
        response.writeHead(status, { "content-type": "application/json", ...(location === undefined ? {} : { location }) }).end(body)
        return
      }
      const ended = once(response, "close")
      if (pathname !== "/token") return void answer?.(request, response)
      last = last.then(() => {
        void answer?.(request, response)
        return ended
      })
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const issuer = `http://localhost:${address !== null && typeof address === "object" ? address.port : 0}`
    const made: OidcServer = {
      issuer,
      clientId: CLIENT.id,
      clientSecret: CLIENT.secret,
      person: { sub: "4711", name: "Ada Lovelace", email: "ada@example.com", email_verified: true, groups: ["staff"] },
      agrees: true,
      forge: null,
      metadata: {},
      got: [],
      failing: null
    }
    const provider = new Provider(issuer, configuration(behaviour, privateKey, () => made))
    acting(provider, privateKey, () => made)
    answer = provider.callback()
    return made
  })

/** Visits the address as a browser does, until it comes back to `redirectUri`. Returns where it is then. */
export const visit = (address: string, redirectUri: string) =>
  Effect.promise(async () => {
    const cookies = new Map<string, string>()
    let at = address
    for (let steps = 0; steps < 20; steps++) {
      const response = await fetch(at, { redirect: "manual", headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") } })
      const location = response.headers.get("location")
      const text = await response.text()
      if (location === null) throw new Error(`no redirect at ${at}: ${response.status} ${text.slice(0, 500)}`)
      for (const cookie of response.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/u.exec(cookie) ?? []
        cookies.set(name, value)
      }
      at = new URL(location, at).href
      if (at.startsWith(redirectUri)) return at
    }
    throw new Error("too many redirects")
  })
