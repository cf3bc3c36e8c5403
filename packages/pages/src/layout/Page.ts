/**
 * How pages are answered: who asks is known before anything is done, a form comes from a page of the same session and, where
 * it changes something of a grant, of the same grant; whatever goes wrong is a page too. Everything works without scripts.
 */
import { Acting, ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { type Admitted, admitted, type Visit, type VisitRefused } from "@slipway/domain/access/rules/Session"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as SessionCookie from "@slipway/http/server/access/SessionCookie"
import { HEADERS } from "@slipway/http/server/reply/PageHeaders"
import { Routes } from "@slipway/http/server/Routes"
import { basePathOf, rateLimitsOf, Settings } from "@slipway/http/server/Settings"
import { Cause, Data, Effect, Redacted, Result, type Scope, type Types } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { html, type Html } from "../html/Html.ts"
import * as Form from "./Form.ts"
import * as Layout from "./Layout.ts"
import { Refused } from "./Refused.ts"

/** Where a person goes who did not ask for a page. */
export const HOME = "/"

/** Somebody who is signed in. */
export interface Person extends Layout.Reader {
  readonly visit: Visit
  readonly token: Redacted.Redacted
}

/** Somebody who is signed in and may work here. */
export interface Member extends Person {
  readonly visit: Admitted
}

/** The request for a page. */
export interface Asked {
  readonly url: URL
  /** Of the path's `:name` parts. */
  readonly params: Readonly<Record<string, string | undefined>>
  /** Empty, but for a POST. */
  readonly form: Form.Form
}

/** A handler takes the services it needs when its route is made, not per request. */
export type Handler<Who> = (who: Who, asked: Asked) => Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  Refused | StoreUnavailable,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

interface Methods<Who> {
  readonly GET?: Handler<Who>
  readonly POST?: Handler<Who>
  /** What its form has at most, where that is not {@link Form.BYTES}. */
  readonly formBytes?: number
}

/** Nobody is signed in. */
class SignInFirst extends Data.TaggedError("SignInFirst")<{ readonly next: string | null }> {}

export const show = (
  document: Layout.Document,
  reader: Layout.Reader | null,
  { headers = {}, status = 200 }: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(Layout.render(document, reader), { status, headers, contentType: "text/html; charset=utf-8" })

/** What a script of ours puts into a page that is there. */
export const fragment = (content: Html): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(content.toString(), { contentType: "text/html; charset=utf-8" })

/** For people who follow a link that leads nowhere. */
export const notFound: HttpServerResponse.HttpServerResponse = show(
  {
    title: "Not found",
    body: html`<h1>Not found</h1>
<p>There is nothing at this address. <a href="${HOME}">Go on</a></p>`
  },
  null,
  { status: 404, headers: HEADERS }
)

/** `path`: of this server. The browser asks for it by GET. */
export const redirect = (path: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.empty({ status: 303, headers: { location: path } })

/** Longer paths are none of ours. */
const MAX_PATH = 2000

/** The path and query that a text names on this server; `null`: none, or one of another server. */
export const localPath = (text: string): string | null => {
  // Browsers take `\` for `/`, and leave out tabs and line breaks.
  if (!/^\/(?![/\\])[!-~]*$/u.test(text) || text.includes("\\") || text.length > MAX_PATH) return null
  const { pathname, search } = new URL(text, "http://slipway.invalid")
  return pathname.startsWith("//") ? null : pathname + search
}

/** How an administrator names the user on the command line. */
const handleOf = ({ visit: { user } }: Person): string => user.githubLogin ?? user.email ?? user.id

const notAdmitted = (person: Person, { because, message }: VisitRefused): Refused => {
  const command = {
    not_approved: `slipway users approve ${handleOf(person)}`,
    no_grant: `slipway members add ${handleOf(person)}`,
    suspended: `slipway orgs resume ${person.visit.place?.organizationId ?? "<organization>"}`
  }[because]
  return new Refused({
    status: 403,
    title: because === "not_approved"
      ? "You are not approved yet"
      : because === "no_grant"
      ? "You belong to no organization yet"
      : "Your organization is suspended",
    text: `You are signed in as ${person.user.name}. ${message} An administrator can, with this command on the machine of the service:`,
    more: html`<pre tabindex="0"><code>${command}</code></pre>
<p>Then load this page again.${because === "suspended" && html` Or <a href="/grant">choose another grant</a>.`}</p>`
  })
}

/**
 * Whether a browser sent this for a page of another site. Browsers say so with every form; who says nothing is no browser,
 * and carries no cookie that a stranger could use.
 */
const isCrossSite = (request: HttpServerRequest.HttpServerRequest, publicUrl: string): boolean => {
  const { host, origin, "sec-fetch-site": site } = request.headers
  if (site !== undefined) return site !== "same-origin" && site !== "none"
  if (origin === undefined) return false
  return origin !== new URL(publicUrl).origin && !(URL.canParse(origin) && new URL(origin).host === host)
}

const crossSite = new Refused({
  status: 403,
  title: "That came from another site",
  text: "Nothing was done. Open the page here and try again."
})
const outOfDate = new Refused({
  status: 403,
  title: "This form is out of date",
  text: "Nothing was done. You may have signed in again since the page was loaded: go back, load it again, and try once more."
})

const elsewhere = new Refused({
  status: 409,
  title: "You work in another grant now",
  text: "Nothing was done. Since the page was loaded you chose another grant, or your membership ended. " +
    "Load the page again to see where you are."
})

/** As `Form.read` does: no text that a person types has a NUL, and the database takes none. */
const hasNul = ({ search }: URL): boolean => search.includes("%00")
const unreadable = Refused.bad("The address could not be read.")

/** For the stream of a page, which cannot be led anywhere. */
const signedOut = new Refused({ status: 401, title: "Nobody is signed in", text: "The session has ended." })

const VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const

/** Adds pages to the router. */
export const make = Effect.gen(function*() {
  const router = yield* HttpRouter.HttpRouter
  const routes = yield* Routes
  const sessions = yield* Sessions
  const settings = yield* Settings
  const { publicUrl } = settings
  const limits = rateLimitsOf(settings)
  const base = basePathOf(publicUrl)
  const readOfStranger = Form.ofStrangers(settings.refusedKeysPerMinute)

  const personOf = Effect.fnUntraced(
    function*(request: HttpServerRequest.HttpServerRequest): Effect.fn.Return<Person | null, Refused | StoreUnavailable> {
      const token = SessionCookie.tokenOf(request, base)
      const found = token === null ? null : yield* sessions.admit(token, limits)
      if (token === null || found === null) return null
      if (!found.rate.accepted) {
        return yield* new Refused({
          status: 429,
          title: "Too many requests",
          text: `Try again in ${found.rate.resetSeconds} s.`,
          headers: { "retry-after": String(found.rate.resetSeconds) }
        })
      }
      const { place } = found.visit
      const where = place !== null && html`<input type="hidden" name="place" value="${place.grantId}">`
      const csrf = html`<input type="hidden" name="csrf" value="${Redacted.value(sessions.csrfToken(token))}">${where}`
      const grants = yield* sessions.grantsOf(found.visit.user.id)
      return { visit: found.visit, user: found.visit.user, token, csrf, grants }
    }
  )

  /** Everything that is not an answer, as a page. Whatever nobody foresaw is logged and tells nothing. */
  const answer = Effect.fnUntraced(function*(cause: Cause.Cause<unknown>, reader: Layout.Reader | null) {
    // The client left: there is nobody to answer.
    if (Cause.hasInterruptsOnly(cause)) return yield* Effect.failCause(cause as Cause.Cause<Types.unhandled>)
    const error = Cause.squash(cause)
    if (error instanceof SignInFirst) return redirect(error.next === null ? "/sign-in" : `/sign-in?next=${encodeURIComponent(error.next)}`)
    const origin = yield* ActingFrom
    const unavailable = error instanceof StoreUnavailable
    const detail = unavailable ? error.detail : undefined
    if (unavailable) {
      yield* Effect.logWarning(detail === undefined ? "the store is not available" : "files of a sandbox are not available", cause)
    } else if (!(error instanceof Refused)) yield* Effect.logError("a page failed", cause)
    const { headers = {}, more = null, status, text, title } = error instanceof Refused
      ? error
      : unavailable
      ? new Refused({
        status: 503,
        title: "Not now",
        text: detail ?? "The service cannot reach its database. Try again in a moment.",
        headers: { "retry-after": "1" }
      })
      : new Refused({ status: 500, title: "Something went wrong", text: "It went wrong on our side, and is in the log of the service." })
    const body = html`<h1>${title}</h1>
<p>${text}</p>
${more}
${origin !== null && html`<p class="fine">Request ${origin.requestId}</p>`}`
    return show({ title, body }, reader, { status, headers })
  })

  /** Adds the page of a path, for those whom `admit` lets in. */
  const add = <Who extends Person | null>(
    admit: (person: Person | null, next: string | null) => Effect.Effect<Who, Refused | SignInFirst>,
    { checksForm, checksPlace = false }: { readonly checksForm: boolean; readonly checksPlace?: boolean }
  ) =>
    Effect.fnUntraced(function*(path: `/${string}`, methods: Methods<Who>) {
      const handle = (method: "GET" | "POST", handler: Handler<Who>) =>
        Effect.gen(function*() {
          const request = yield* HttpServerRequest.HttpServerRequest
          const params = yield* HttpRouter.params
          const url = new URL(request.url, "http://slipway.invalid")
          let reader: Layout.Reader | null = null
          const answered = Effect.gen(function*() {
            if (method === "POST" && isCrossSite(request, publicUrl)) return yield* crossSite
            if (hasNul(url)) return yield* unreadable
            const person = yield* personOf(request)
            reader = person
            const back = methods.GET === undefined ? null : url.pathname + (method === "GET" ? url.search : "")
            if (person === null && request.headers["accept"] === "text/event-stream") return yield* signedOut
            // Nobody's form need not be read.
            if (person === null) yield* admit(null, back)
            const read = person === null ? readOfStranger : Form.read
            const form = method === "POST" ? yield* read(request, methods.formBytes ?? Form.BYTES) : Form.empty
            if (checksForm && method === "POST" && person !== null) {
              const csrf = form.all("csrf")
              if (csrf.length !== 1 || !sessions.isCsrfToken(person.token, csrf[0] ?? "")) return yield* outOfDate
            }
            const who = yield* admit(person, back)
            if (checksPlace && method === "POST") {
              const places = form.all("place")
              if (places.length !== 1 || places[0] !== who?.visit.place?.grantId) return yield* elsewhere
            }
            const asked = handler(who, { url, params, form })
            return yield* person === null ? asked : Effect.provideService(asked, Acting, { _tag: "User", userId: person.user.id })
          })
          const response = yield* Effect.catchCause(answered, (cause) => answer(cause, reader))
          // What is no page has a policy of its own, which allows less.
          const policy = response.headers["content-security-policy"]
          return HttpServerResponse.setHeaders(response, policy === undefined ? HEADERS : { ...HEADERS, "content-security-policy": policy })
        })
      const { GET, POST } = methods
      if (GET !== undefined) yield* router.add("GET", path, handle("GET", GET))
      if (POST !== undefined) yield* router.add("POST", path, handle("POST", POST))

      const allow = [...(GET === undefined ? [] : ["GET", "HEAD"]), ...(POST === undefined ? [] : ["POST"]), "OPTIONS"]
      routes.declare(path, allow, "pages")
      const otherwise = (method: string) => {
        const headers = { ...HEADERS, allow: allow.join(", ") }
        if (method === "OPTIONS") return HttpServerResponse.empty({ status: 204, headers })
        const title = "That is not how this page is used"
        return show(
          {
            title,
            body: html`<h1>${title}</h1>
<p>It answers to ${allow.join(", ")}.</p>`
          },
          null,
          { status: 405, headers }
        )
      }
      for (const verb of VERBS) {
        if (verb === "OPTIONS" || !allow.includes(verb)) {
          yield* router.add(
            verb,
            path,
            Effect.sync(() => otherwise(verb))
          )
        }
      }
    })

  const signedIn = (person: Person | null, next: string | null) =>
    person === null ? Effect.fail(new SignInFirst({ next })) : Effect.succeed(person)

  return {
    /** A form here is proven by its site alone: there need be no session yet. */
    anybody: add(Effect.succeed, { checksForm: false }),
    /** Whether or not they may work here. Their forms count in whatever grant. */
    people: add(signedIn, { checksForm: true }),
    members: add((person, next) =>
      Effect.flatMap(signedIn(person, next), (person) =>
        Result.match(admitted(person.visit), {
          onFailure: (refused) => Effect.fail(notAdmitted(person, refused)),
          onSuccess: (visit): Effect.Effect<Member> => Effect.succeed({ ...person, visit })
        })), { checksForm: true, checksPlace: true })
  }
})

/** What happened, by the code in an address: never a text of it. `refusals`: the messages by whose codes nothing was done. */
export const told = (asked: Asked, messages: Readonly<Record<string, string>>, refusals: object = {}): Html | null => {
  const code = asked.url.searchParams.get("done")
  const message = code !== null && Object.hasOwn(messages, code) ? messages[code] : undefined
  if (code === null || message === undefined) return null
  return html`<p class="${Object.hasOwn(refusals, code) ? "problem" : "told"}" role="status">${message}</p>`
}
