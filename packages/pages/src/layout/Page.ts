/**
 * How pages are answered: who asks is known before anything is done, a form comes from a page of the same session and, where
 * it changes something of a grant, of the same grant; whatever goes wrong is a page too. Everything works without scripts.
 */
import { Acting, ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { type Admitted, admitted, principalOf, type Visit, type VisitRefused } from "@slipway/domain/access/rules/Session"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as SessionCookie from "@slipway/http/server/access/SessionCookie"
import * as BasePath from "@slipway/http/server/edge/BasePath"
import { HEADERS } from "@slipway/http/server/reply/PageHeaders"
import { Routes } from "@slipway/http/server/Routes"
import { basePathOf, rateLimitsOf, Settings } from "@slipway/http/server/Settings"
import { Cause, Data, Duration, Effect, Exit, Fiber, Option, Redacted, Result, type Scope, Stream, type Types } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { html, type Html, type Part } from "../html/Html.ts"
import * as Render from "../html/Render.ts"
import { Rail } from "../shared/Rail.ts"
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
  /** Values of the path's `:name` parts. */
  readonly params: Readonly<Record<string, string | undefined>>
  /** Empty, but for a POST. */
  readonly form: Form.Form
}

/** A handler takes the services it needs when its route is made, not per request. */
export type Handler<Who> = (who: Who, asked: Asked) => Effect.Effect<
  HttpServerResponse.HttpServerResponse | Shown,
  Refused | StoreUnavailable,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

interface Methods<Who> {
  readonly GET?: Handler<Who>
  readonly POST?: Handler<Who>
  /** Bytes that its form may have, if not {@link Form.BYTES}. */
  readonly formBytes?: number
  /** Viewers may send its form, which changes nothing but what is their own. */
  readonly takesViewers?: true
  /** Its form may have files. */
  readonly takesFiles?: true
}

/** The page needs a signed-in person. */
class SignInFirst extends Data.TaggedError("SignInFirst")<{ readonly next: string | null }> {}

interface Options {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** The part of a page that waits for a slow place, such as git in a box. */
interface Late {
  readonly part: Effect.Effect<Part, Refused | StoreUnavailable>
  /** Stands in its place until it is there. */
  readonly meanwhile: Html
}

/** A page, or HTML that a script puts into an open page. It is written when it is answered, with pauses. */
class Shown {
  /** Its reader; `null`: it gets no rail. */
  readonly reader: Layout.Reader | null
  readonly content: (rail: Html | null) => Html
  readonly options: Options
  readonly late: Late | null
  constructor(reader: Layout.Reader | null, content: (rail: Html | null) => Html, options: Options, late: Late | null = null) {
    this.reader = reader
    this.content = content
    this.options = options
    this.late = late
  }
}

/** A page with the rail of its reader, if it has no rail of its own. */
const shownWithRail = (document: Layout.Document, reader: Layout.Reader | null, options: Options, late: Late | null): Shown =>
  new Shown(
    document.rail === undefined ? reader : null,
    (rail) => Layout.render(rail === null ? document : { ...document, rail }, reader),
    options,
    late
  )

export const show = (document: Layout.Document, reader: Layout.Reader | null, options: Options = {}): Shown =>
  shownWithRail(document, reader, options, null)

/** The place of the late part in the body of a page. No text becomes this, because its `<` is escaped. */
const PLACE = "<!--late-->"
export const latePlace: Html = html`<!--late-->`

/**
 * A page whose body has {@link latePlace}. If `part` takes longer than a page may, the page is sent up to there with `meanwhile`, which is
 * hidden when the rest follows.
 */
export const showWithLate = (
  document: Layout.Document,
  reader: Layout.Reader,
  part: Late["part"],
  meanwhile: string,
  options: Options = {}
): Shown => shownWithRail(document, reader, options, { part, meanwhile: html`<p class="loading" role="status">${meanwhile}</p>` })

/** HTML that a script puts into an open page. */
export const fragment = (content: Html): Shown => new Shown(null, () => content, {})

const answerOf = (text: string, options: Options): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(text, { ...options, contentType: "text/html; charset=utf-8" })

/** How long a page waits for its rail. It is sent without a rail that takes longer. */
const RAIL_PATIENCE = Duration.millis(500)

/** The rail of a person who may work in the grant. A rail that cannot be read fails no page. */
const railOf = ({ rail }: Services, reader: Layout.Reader | null): Effect.Effect<Html | null> => {
  const visit = reader === null ? null : Option.getOrNull(Result.getSuccess(admitted(reader.visit)))
  if (visit === null) return Effect.succeed(null)
  return rail.of(principalOf(visit), null).pipe(
    Effect.timeoutOption(RAIL_PATIENCE),
    Effect.map(Option.getOrNull),
    Effect.catchCause((cause) => Effect.as(Effect.logWarning("a page is sent without its rail", cause), null))
  )
}

const write = ({ content, options }: Shown, rail: Html | null): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.map(Render.text(content(rail)), (text) => answerOf(text, options))

/** How long a page waits for its late part, of the 100 ms in which it is answered. */
const PATIENCE = Duration.millis(60)

const STREAMED = {
  "content-type": "text/html; charset=utf-8",
  // nginx must not wait for the rest.
  "x-accel-buffering": "no"
}

/** The whole page if its late part comes soon, or else what there is of it, and then the rest. */
const writeWithLate = Effect.fnUntraced(function*(shown: Shown, rail: Html | null, late: Late, base: string) {
  const [before = "", after = ""] = (yield* Render.text(shown.content(rail))).split(PLACE)
  const part = yield* Effect.forkScoped(Effect.flatMap(late.part, Render.text))
  const soon = yield* Effect.timeoutOption(Fiber.await(part), PATIENCE)
  if (Option.isSome(soon)) return answerOf(before + (yield* soon.value) + after, shown.options)
  // The status is sent: a failure stands where the part would.
  const rest = Fiber.await(part).pipe(
    Effect.flatMap((made) => Exit.isSuccess(made) ? Effect.succeed(made.value) : Effect.map(problemOf(made.cause), (text) => String(text))),
    Effect.map((text) => BasePath.beneath(base, text + after))
  )
  const beginning = BasePath.page(base, `${before}${late.meanwhile}`)
  return HttpServerResponse.stream(
    Stream.encodeText(Stream.rechunk(Stream.concat(Stream.succeed(beginning), Stream.fromEffect(rest)), 1)),
    { ...shown.options, headers: { ...STREAMED, ...shown.options.headers } }
  )
})

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
  title: "Request from another site blocked",
  text: "Nothing changed. Open the page here and try again."
})
const onlyViews = new Refused({
  status: 403,
  title: "Viewers change nothing",
  text: "Nothing changed. You are a viewer of this organization. An owner can give you another role."
})
const outOfDate = new Refused({
  status: 403,
  title: "This page expired",
  text: "Nothing changed: go back, reload the page and try again."
})

const elsewhere = new Refused({
  status: 409,
  title: "You switched to another grant",
  text: "Nothing changed. You chose another grant after this page was loaded, or your membership ended. " +
    "Load the page again to see where you are."
})

/** As `Form.read` does: no text that a person types has a NUL, and the database takes none. */
const hasNul = ({ search }: URL): boolean => search.includes("%00")
const unreadable = Refused.bad("The address could not be read.")

/** For the stream of a page, which cannot be led anywhere. */
const signedOut = new Refused({ status: 401, title: "You are not signed in", text: "The session has ended." })

const VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const

interface Services {
  readonly rail: typeof Rail.Service
  readonly sessions: typeof Sessions.Service
  readonly publicUrl: string
  readonly base: string
  readonly limits: ReturnType<typeof rateLimitsOf>
  /** Reads a form of a caller without a session, of which an address may send so many. */
  readonly readOfStranger: ReturnType<typeof Form.ofStrangers>
}

/** The rules of access to a page: the people it admits, and the proofs that its forms need. */
interface Access<Who extends Person | null> {
  /** `next`: where to go after signing in. */
  admit(person: Person | null, next: string | null): Effect.Effect<Who, Refused | SignInFirst>
  readonly checksForm: boolean
  readonly checksPlace: boolean
}

const personOf = Effect.fnUntraced(
  function*(
    { base, limits, sessions }: Services,
    request: HttpServerRequest.HttpServerRequest
  ): Effect.fn.Return<Person | null, Refused | StoreUnavailable> {
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

/** A failure as a refusal. An unexpected one is logged, and nothing is said of it. */
const refusedOf = Effect.fnUntraced(function*(cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  if (error instanceof Refused) return error
  if (error instanceof StoreUnavailable) {
    const { detail } = error
    yield* Effect.logWarning(detail === undefined ? "the store is not available" : "files of a sandbox are not available", cause)
    return new Refused({
      status: 503,
      title: "Not now",
      text: detail ?? "The service cannot reach its database. Try again in a moment.",
      headers: { "retry-after": "1" }
    })
  }
  yield* Effect.logError("a page failed", cause)
  return new Refused({
    status: 500,
    title: "Something went wrong",
    text: "The server could not finish the request; the error is in its log."
  })
})

/** A failure in place of a part of a page. */
const problemOf = (cause: Cause.Cause<unknown>): Effect.Effect<Html> =>
  Effect.map(refusedOf(cause), ({ more = null, text }) => html`<p class="problem">${text}</p>${more}`)

/** A failure as a page. */
const answer = Effect.fnUntraced(function*(services: Services, cause: Cause.Cause<unknown>, reader: Layout.Reader | null) {
  // The client left, and needs no answer.
  if (Cause.hasInterruptsOnly(cause)) return yield* Effect.failCause(cause as Cause.Cause<Types.unhandled>)
  const error = Cause.squash(cause)
  if (error instanceof SignInFirst) return redirect(error.next === null ? "/sign-in" : `/sign-in?next=${encodeURIComponent(error.next)}`)
  const origin = yield* ActingFrom
  const { headers = {}, more = null, status, text, title } = yield* refusedOf(cause)
  const body = html`<h1>${title}</h1>
<p>${text}</p>
${more}
${origin !== null && html`<p class="fine">Request ${origin.requestId}</p>`}`
  // Not asked again: a store that is away may take long to say so.
  const rail = error instanceof StoreUnavailable ? null : yield* railOf(services, reader)
  return yield* write(show({ title, body }, reader, { status, headers }), rail)
})

interface Received extends Pick<Asked, "params" | "url"> {
  readonly request: HttpServerRequest.HttpServerRequest
}

/**
 * Checks a request before its handler, in this order: site, address, session, access, form, grant. `known` is called with the person
 * as soon as the session is read.
 */
const answered = Effect.fnUntraced(function*<Who extends Person | null>(
  services: Services,
  { admit, checksForm, checksPlace }: Access<Who>,
  method: "GET" | "POST",
  methods: Methods<Who>,
  handler: Handler<Who>,
  { params, request, url }: Received,
  known: (person: Person | null) => void
) {
  const { base, publicUrl, readOfStranger, sessions } = services
  if (method === "POST" && isCrossSite(request, publicUrl)) return yield* crossSite
  if (hasNul(url)) return yield* unreadable
  const person = yield* personOf(services, request)
  known(person)
  const back = methods.GET === undefined ? null : url.pathname + (method === "GET" ? url.search : "")
  if (person === null && request.headers["accept"] === "text/event-stream") return yield* signedOut
  // Before the form is read: a caller without a session may not be admitted.
  if (person === null) yield* admit(null, back)
  const read = person === null ? readOfStranger : methods.takesFiles === true ? Form.readWithFiles : Form.read
  const form = method === "POST" ? yield* read(request, methods.formBytes ?? Form.BYTES) : Form.empty
  if (checksForm && method === "POST" && person !== null) {
    const csrf = form.all("csrf")
    if (csrf.length !== 1 || !sessions.isCsrfToken(person.token, csrf[0] ?? "")) return yield* outOfDate
  }
  const who = yield* admit(person, back)
  // The forms of people who may not work in the grant count for viewers too: they change their own sessions.
  if (checksPlace && method === "POST" && methods.takesViewers !== true && who?.visit.place?.role === "viewer") return yield* onlyViews
  if (checksPlace && method === "POST") {
    const places = form.all("place")
    if (places.length !== 1 || places[0] !== who?.visit.place?.grantId) return yield* elsewhere
  }
  const asked = handler(who, { url, params, form })
  const reply = yield* person === null ? asked : Effect.provideService(asked, Acting, { _tag: "User", userId: person.user.id })
  if (!(reply instanceof Shown)) return reply
  const rail = yield* railOf(services, reply.reader)
  return reply.late === null ? yield* write(reply, rail) : yield* writeWithLate(reply, rail, reply.late, base)
})

const handle = <Who extends Person | null>(
  services: Services,
  access: Access<Who>,
  method: "GET" | "POST",
  methods: Methods<Who>,
  handler: Handler<Who>
) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const params = yield* HttpRouter.params
    const received: Received = { request, params, url: new URL(request.url, "http://slipway.invalid") }
    let reader: Layout.Reader | null = null
    const response = yield* Effect.catchCause(
      answered(services, access, method, methods, handler, received, (person) => {
        reader = person
      }),
      (cause) => answer(services, cause, reader)
    )
    // Downloads and the frame of a terminal have policies of their own.
    const { "content-security-policy": policy, "x-frame-options": framing } = response.headers
    return HttpServerResponse.setHeaders(response, {
      ...HEADERS,
      ...(policy === undefined ? {} : { "content-security-policy": policy }),
      ...(framing === undefined ? {} : { "x-frame-options": framing })
    })
  })

/** A page that says that nothing is done here, with the navigation of the person who asks. */
const nothingHere = Effect.fnUntraced(function*(
  services: Services,
  request: HttpServerRequest.HttpServerRequest,
  document: Layout.Document,
  options: Options
) {
  const person = yield* Effect.catchCause(personOf(services, request), () => Effect.succeed(null))
  const rail = yield* railOf(services, person)
  return yield* write(show(document, person, { ...options, headers: { ...HEADERS, ...options.headers } }), rail)
})

/** The answer to a method that the page does not have. */
const otherwise = (services: Services, method: string, allow: ReadonlyArray<string>) => {
  const headers = { allow: allow.join(", ") }
  if (method === "OPTIONS") return Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { ...HEADERS, ...headers } }))
  const title = "This address only accepts a form"
  const body = html`<h1>${title}</h1>
<p>It accepts ${allow.join(", ")}. <a href="${HOME}">Back to the start</a></p>`
  return Effect.flatMap(
    HttpServerRequest.HttpServerRequest,
    (request) => nothingHere(services, request, { title, body }, { status: 405, headers })
  )
}

/** Returns a function that adds the page of a path. */
const adding = <Who extends Person | null>(
  router: HttpRouter.HttpRouter,
  routes: typeof Routes.Service,
  services: Services,
  access: Access<Who>
) =>
  Effect.fnUntraced(function*(path: `/${string}`, methods: Methods<Who>) {
    const { GET, POST } = methods
    if (GET !== undefined) yield* router.add("GET", path, handle(services, access, "GET", methods, GET))
    if (POST !== undefined) yield* router.add("POST", path, handle(services, access, "POST", methods, POST))
    const allow = [...(GET === undefined ? [] : ["GET", "HEAD"]), ...(POST === undefined ? [] : ["POST"]), "OPTIONS"]
    routes.declare(path, allow, "pages")
    for (const verb of VERBS) {
      if (verb === "OPTIONS" || !allow.includes(verb)) {
        yield* router.add(verb, path, Effect.suspend(() => otherwise(services, verb, allow)))
      }
    }
  })

const signedIn = (person: Person | null, next: string | null) =>
  person === null ? Effect.fail(new SignInFirst({ next })) : Effect.succeed(person)

const member = (person: Person | null, next: string | null): Effect.Effect<Member, Refused | SignInFirst> =>
  Effect.flatMap(signedIn(person, next), (person) =>
    Result.match(admitted(person.visit), {
      onFailure: (refused) => Effect.fail(notAdmitted(person, refused)),
      onSuccess: (visit): Effect.Effect<Member> => Effect.succeed({ ...person, visit })
    }))

const servicesOfPages = Effect.gen(function*() {
  const settings = yield* Settings
  return {
    rail: yield* Rail,
    sessions: yield* Sessions,
    publicUrl: settings.publicUrl,
    base: basePathOf(settings.publicUrl),
    limits: rateLimitsOf(settings),
    readOfStranger: Form.ofStrangers(settings.refusedKeysPerMinute)
  }
})

/** For people who follow a link that leads nowhere. */
export const notFound = Effect.map(
  servicesOfPages,
  (services) => (request: HttpServerRequest.HttpServerRequest) =>
    nothingHere(services, request, {
      title: "Page not found",
      body: html`<h1>Page not found</h1>
<p><a href="${HOME}">Back to the start</a></p>`
    }, { status: 404 })
)

/** Adds pages to the router. */
export const make = Effect.gen(function*() {
  const router = yield* HttpRouter.HttpRouter
  const routes = yield* Routes
  const services: Services = yield* servicesOfPages
  return {
    /** For everybody. Its form is proven by its site alone: there may be no session yet. */
    anybody: adding<Person | null>(router, routes, services, { admit: Effect.succeed, checksForm: false, checksPlace: false }),
    /** For signed-in people, also those who may not work in the grant. Their forms count in any grant. */
    people: adding<Person>(router, routes, services, { admit: signedIn, checksForm: true, checksPlace: false }),
    members: adding<Member>(router, routes, services, { admit: member, checksForm: true, checksPlace: true })
  }
})

/** The message for the code in an address; the address never holds its text. `refusals`: codes for which nothing was done. */
export const told = (asked: Asked, messages: Readonly<Record<string, Html | string>>, refusals: object = {}): Html | null => {
  const code = asked.url.searchParams.get("done")
  const message = code !== null && Object.hasOwn(messages, code) ? messages[code] : undefined
  if (code === null || message === undefined) return null
  return html`<p class="${Object.hasOwn(refusals, code) ? "problem" : "told"}" role="status">${message}</p>`
}
