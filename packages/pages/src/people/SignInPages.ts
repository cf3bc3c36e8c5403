/** Signing in, by a one-time code or at an identity provider, and signing out. */
import { type IdentityProvider, IdentityProviders } from "@slipway/domain/access/ports/IdentityProvider"
import type { ProviderId } from "@slipway/domain/access/rules/Identity"
import { SessionLifetimes, type Visit } from "@slipway/domain/access/rules/Session"
import { Sessions, type SignedIn } from "@slipway/domain/access/usecases/Sessions"
import { failures } from "@slipway/http/server/access/Authenticate"
import * as SessionCookie from "@slipway/http/server/access/SessionCookie"
import { basePathOf, Settings } from "@slipway/http/server/Settings"
import { Clock, Duration, Effect, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash, timingSafeEqual } from "node:crypto"
import { html, type Html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

/** Where the browser comes back from the identity provider. */
export const callbackOf = (id: ProviderId) => `/sign-in/${id}/callback` as const

const BEGUN_LIFE = Duration.minutes(10)
/** Characters of its value as it travels. Browsers drop a cookie of more than 4096 bytes (RFC 6265bis, section 5.6). */
const MAX_BEGUN = 3800

/** The form of a code. Anything else needs no query. */
const CODE = /^[0-9A-Za-z]{43}$/u

/** Whether browsers keep our cookies, which are for TLS only, at this address. They trust their own machine without it. */
export const keepsSessions = (publicUrl: string): boolean => {
  const { hostname, protocol } = new URL(publicUrl)
  return protocol === "https:" || /^(?:localhost|.+\.localhost|127\.0\.0\.1|\[::1\])$/u.test(hostname)
}

const isSame = (one: string, other: string): boolean => {
  const digest = (text: string) => createHash("sha256").update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}

const notSignedIn = (status: 400 | 403 | 429 | 502, text: string, headers: Readonly<Record<string, string>>) =>
  new Refused({
    status,
    headers,
    title: "You are not signed in",
    text,
    more: html`<p><a class="button" href="/sign-in">Begin again</a></p>`
  })

type Provider = IdentityProvider["Service"]

const nextOf = (text: string | null): string | null => text === null ? null : Page.localPath(text)

/** The cookies of this service: of a session, and of a sign-in that is under way at the identity provider. */
interface Cookies {
  readonly session: string
  /**
   * Its value has the state, the verifier, and where to go after the sign-in. Each provider has its own, so that no answer of one is
   * taken for an answer of the other.
   */
  readonly begun: Readonly<Record<ProviderId, string>>
  readonly attributes: ReturnType<typeof SessionCookie.attributes>
  readonly maxAge: Duration.Duration
}

const cookiesAt = (base: string, maxAge: Duration.Duration): Cookies => ({
  session: SessionCookie.named("session", base),
  begun: { github: SessionCookie.named("oauth", base), oidc: SessionCookie.named("oidc", base) },
  attributes: SessionCookie.attributes(base),
  maxAge
})

/** Begins the session in this browser. */
const enter = ({ attributes, maxAge, session }: Cookies, { token }: SignedIn, next: string | null) =>
  HttpServerResponse.setCookieUnsafe(Page.redirect(next ?? Page.HOME), session, Redacted.value(token), { ...attributes, maxAge })

const withProvider = ({ id, name }: Provider, next: string | null): Html => {
  const address = `/sign-in/${id}${next === null ? "" : `?next=${encodeURIComponent(next)}`}`
  return html`<section class="panel" aria-labelledby="with-${id}">
<h2 id="with-${id}">With ${name}</h2>
<p><a class="button" href="${address}">Sign in with ${name}</a></p>
</section>`
}

/** The session at the provider, which outlives ours. */
const leaving = ({ name }: Provider, address: string): Html =>
  html`<section class="panel" aria-labelledby="leave">
<h2 id="leave">You are signed out here</h2>
<p>Your session at ${name} goes on: who uses this browser can sign in again without a password.</p>
<p><a class="button" href="${address}">Sign out of ${name}</a></p>
</section>`

const page = (
  { providers, publicUrl }: { readonly providers: ReadonlyArray<Provider>; readonly publicUrl: string },
  person: Page.Person | null,
  next: string | null,
  problem: string | null,
  left: Html | null = null
) => {
  const warning = !keepsSessions(publicUrl) &&
    html`<p class="warning">You cannot stay signed in at ${publicUrl}: browsers keep a session only at an https address, or on
the service's own machine. An administrator can put Slipway behind TLS and tell it its public address: the log of its start says how.</p>`
  const invalid = problem !== null && html` aria-invalid="true" aria-errormessage="problem"`
  return Page.show(
    {
      title: "Sign in",
      body: html`<h1>Sign in</h1>
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
${warning}
${left}
${person !== null && html`<p>You are signed in as ${person.user.name}. <a href="${next ?? Page.HOME}">Continue</a></p>`}
${providers.map((provider) => withProvider(provider, next))}
<section class="panel" aria-labelledby="by-code">
<h2 id="by-code">With a one-time code</h2>
<form method="post" action="/sign-in">
<div class="field">
<label for="code">Code</label>
<input id="code" name="code" required autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="1000"
aria-describedby="code-hint"${invalid}>
<p class="hint" id="code-hint"><code>slipway sign-in-link</code> on the machine of the service prints a link.
Paste the link, or the part after #.</p>
</div>
${next !== null && html`<input type="hidden" name="next" value="${next}">`}
<button id="sign-in">Sign in</button>
</form>
</section>`
    },
    person,
    { status: problem === null ? 200 : 400 }
  )
}

/** Everything that the identity provider's pages need. */
interface AtProvider {
  readonly provider: Provider
  readonly sessions: typeof Sessions.Service
  readonly cookies: Cookies
  readonly redirectUri: string
  /** Counts the sign-ins of an address; returns the seconds it has to wait. */
  readonly tried: ReturnType<typeof failures>
}

/** A failure of the provider. Its details are for the log. */
const failureOf = ({ name }: Provider, retryable: boolean): string =>
  retryable
    ? `${name} did not answer as it should. Try again in a moment.`
    : `${name} refuses the service. An administrator has to look at its log.`

const begin = ({ cookies, provider, redirectUri }: AtProvider): Page.Handler<Page.Person | null> =>
  Effect.fnUntraced(function*(_, { url }) {
    // The error of the provider is in the log already.
    const { state, url: away, verifier } = yield* Effect.catchTag(
      provider.begin(redirectUri),
      "IdentityProviderError",
      ({ retryable }) => notSignedIn(502, failureOf(provider, retryable), {})
    )
    const proof = `${Redacted.value(state)} ${Redacted.value(verifier)} `
    const whole = proof + (nextOf(url.searchParams.get("next")) ?? "")
    const begun = encodeURIComponent(whole).length > MAX_BEGUN ? proof : whole
    return HttpServerResponse.setCookieUnsafe(Page.redirect(away), cookies.begun[provider.id], begun, {
      ...cookies.attributes,
      maxAge: BEGUN_LIFE
    })
  })

const comeBack = ({ cookies, provider, redirectUri, sessions, tried }: AtProvider): Page.Handler<Page.Person | null> => {
  const { attributes } = cookies
  const begun = cookies.begun[provider.id]
  const forgotten = `${begun}=; Max-Age=0; Path=${attributes.path}; HttpOnly; Secure; SameSite=Lax`
  /** Ends the sign-in that began in this browser without a session. */
  const over = (status: 403 | 502, text: string) => notSignedIn(status, text, { "set-cookie": forgotten })
  return Effect.fnUntraced(function*(person, { url }) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const [state = "", verifier = "", next = ""] = (request.cookies[begun] ?? "").split(" ")
    const [answered, code] = [url.searchParams.get("state"), url.searchParams.get("code")]
    if (state === "" || answered === null || !isSame(state, answered)) {
      // The cookie stays: the sign-in that this browser began may be under way in another tab.
      return yield* notSignedIn(400, "This sign-in began in another browser or tab, or more than 10 minutes ago.", {})
    }
    if (code === null) {
      const error = url.searchParams.get("error") ?? ""
      if (error === "access_denied") return yield* over(403, `${provider.name} says that you did not agree.`)
      yield* Effect.logWarning("the identity provider refuses the service", { error: /^\w{1,100}$/u.test(error) ? error : "" })
      return yield* over(502, failureOf(provider, false))
    }
    // Anybody can make up a cookie, a state and a code: the provider is not asked about them without end.
    const wait = tried(Option.getOrElse(request.remoteAddress, () => ""), yield* Clock.currentTimeMillis)
    if (wait > 0) {
      return yield* notSignedIn(429, `Too many sign-ins were tried from your address. Try again in ${wait} s.`, {
        "retry-after": String(wait)
      })
    }
    // Errors of the provider are in the log already.
    const identity = yield* Effect.catchTags(
      provider.identify({ code, issuer: url.searchParams.get("iss"), verifier: Redacted.make(verifier), redirectUri }),
      {
        SignInRefused: ({ message }) => over(403, message),
        IdentityProviderError: ({ retryable }) => over(502, failureOf(provider, retryable))
      }
    )
    const signedIn = yield* Effect.catchTag(
      sessions.signInByIdentity(identity, person?.token ?? null),
      "SignInRefused",
      ({ message }) => over(403, message)
    )
    return HttpServerResponse.expireCookieUnsafe(enter(cookies, signedIn, nextOf(next)), begun, attributes)
  })
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const sessions = yield* Sessions
  const { absolute } = yield* SessionLifetimes
  const { publicUrl, refusedKeysPerMinute } = yield* Settings
  const cookies = cookiesAt(basePathOf(publicUrl), absolute)
  const providers = yield* IdentityProviders
  const about = { providers, publicUrl }
  const left = (from: Visit["session"]) =>
    HttpServerResponse.expireCookieUnsafe(
      Page.redirect(providers.some(({ id }) => id === from.provider) ? `/sign-in?left=${from.provider}` : "/sign-in"),
      cookies.session,
      cookies.attributes
    )
  /** Offers to sign out at the provider, too, if it has an address for that. A form may not lead there itself. */
  const leave = Effect.fnUntraced(function*(id: string | null) {
    const provider = providers.find((one) => one.id === id)
    const address = provider === undefined ? null : yield* provider.signOutUrl(`${publicUrl}/sign-in`)
    return provider === undefined || address === null ? null : leaving(provider, address)
  })

  yield* pages.anybody("/sign-in", {
    GET: Effect.fnUntraced(function*(person, { url }) {
      const offer = person === null ? yield* leave(url.searchParams.get("left")) : null
      return page(about, person, nextOf(url.searchParams.get("next")), null, offer)
    }),
    POST: Effect.fnUntraced(function*(person, { form }) {
      const given = (yield* form.one("code")).trim()
      const next = nextOf(yield* form.maybe("next"))
      // People paste the whole link, too.
      const code = given.slice(given.indexOf("#") + 1)
      const signedIn = CODE.test(code) ? yield* sessions.signInByLink(Redacted.make(code), person?.token ?? null) : null
      return signedIn === null
        ? page(about, person, next, "Code expired or already used. Run slipway sign-in-link for a new one.")
        : enter(cookies, signedIn, next)
    })
  })
  yield* pages.people("/sign-out", {
    POST: ({ token, visit }) => Effect.as(sessions.signOut(token), left(visit.session))
  })
  yield* pages.people("/sign-out/everywhere", {
    POST: ({ user, visit }) => Effect.as(sessions.signOutEverywhere(user.id), left(visit.session))
  })

  const tried = failures(refusedKeysPerMinute)
  for (const provider of providers) {
    const callback = callbackOf(provider.id)
    const atProvider = { provider, sessions, cookies, redirectUri: `${publicUrl}${callback}`, tried }
    yield* pages.anybody(`/sign-in/${provider.id}`, { GET: begin(atProvider) })
    yield* pages.anybody(callback, { GET: comeBack(atProvider) })
  }
}))
