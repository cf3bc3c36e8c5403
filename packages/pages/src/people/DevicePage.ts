/** Where a person says whether a command on some machine gets a key: compares the code, picks the grant, approves or denies. */
import type { Grant } from "@slipway/domain/access/ports/AccessStore"
import {
  DEVICE_KEY_LIFE,
  type DeviceLogin,
  deviceLoginExpiresAt,
  shownUserCode,
  userCodeOf
} from "@slipway/domain/access/rules/DeviceLogin"
import { DeviceLogins } from "@slipway/domain/access/usecases/DeviceLogins"
import { failures } from "@slipway/http/server/access/Authenticate"
import { Clock, Duration, Effect } from "effect"
import { HttpRouter } from "effect/http"
import { html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

/** The address that the command shows. */
export const DEVICE_PAGE = "/device"

/** Codes that one person may try in any 60 s: with 34 bits a code, a pending one cannot be guessed. */
const TRIED_PER_MINUTE = 20

const MESSAGES = {
  approved: "The machine is signed in. You can close this page and go on in its terminal.",
  denied: "Denied. The machine gets no key."
}

const nobodyWaits = new Refused({
  status: 404,
  title: "Code not found or expired",
  text: "A code works for 10 minutes and once. Begin again in the terminal: slipway auth login",
  more: html`<p><a class="button" href="${DEVICE_PAGE}">Enter another code</a></p>`
})

const codeForm = html`<form method="get" action="${DEVICE_PAGE}" class="panel">
<div class="field">
<label for="user-code">Code</label>
<input id="user-code" name="user_code" required autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="64"
aria-describedby="user-code-hint">
<p class="hint" id="user-code-hint"><code>slipway auth login</code> shows it: eight letters.</p>
</div>
<button>Continue</button>
</form>`

const grantField = (grants: ReadonlyArray<Pick<Grant, "id" | "name">>, current: string): Html => {
  const options = grants.map(({ id, name }) =>
    html`<option value="${id}"${id === current && html` selected`}>${name}</option>
`
  )
  return html`<div class="field">
<label for="grant">Grant the key works in</label>
<select id="grant" name="grant">
${options}</select>
</div>`
}

const question = ({ csrf, grants, visit }: Page.Member, login: DeviceLogin, code: string): Html => {
  const shown = shownUserCode(code)
  const days = Duration.toDays(DEVICE_KEY_LIFE)
  return html`<p><strong>${login.machine}</strong> asks for a key, to work with sandboxes in your name.</p>
<p class="device-code"><span class="hint">Its terminal shows this code:</span> <code>${shown}</code></p>
<p class="warning">If you did not start this, someone is trying to act as you: choose Deny.</p>
<dl class="facts">
<dt>Machine</dt><dd>${login.machine}</dd>
<dt>Asked from</dt><dd>${login.address === "" ? "an unknown address" : login.address}</dd>
<dt>Asked</dt><dd>${moment(login.createdAt)}, waits until ${moment(deviceLoginExpiresAt(login))}</dd>
<dt>The key</dt><dd>works for ${days} days, and is among your <a href="/keys">keys</a>, where you can revoke it</dd>
</dl>
<form method="post" action="${DEVICE_PAGE}" class="panel" aria-label="Approve">
${csrf}<input type="hidden" name="user_code" value="${code}">
${grantField(grants, visit.place.grantId)}
<div class="choice">
<input type="checkbox" id="compared" name="compared" value="yes" required>
<label for="compared">The terminal shows <code>${shown}</code></label>
</div>
<button name="decision" value="approve">Approve</button>
</form>
<form method="post" action="${DEVICE_PAGE}">
${csrf}<input type="hidden" name="user_code" value="${code}">
<button class="quiet" name="decision" value="deny">Deny</button>
</form>`
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const logins = yield* DeviceLogins
  const tried = failures(TRIED_PER_MINUTE)

  /** The code that a person named, within what one person may try. */
  const codeFrom = Effect.fnUntraced(function*({ user }: Page.Member, typed: string) {
    const wait = tried(user.id, yield* Clock.currentTimeMillis)
    if (wait > 0) {
      return yield* new Refused({
        status: 429,
        title: "Too many codes",
        text: `Try again in ${wait} s.`,
        headers: { "retry-after": String(wait) }
      })
    }
    return userCodeOf(typed) ?? (yield* nobodyWaits)
  })

  const show = (member: Page.Member, body: Html) =>
    Page.show(
      {
        title: "Sign in a machine",
        body: html`<h1>Sign in a machine</h1>
${body}`
      },
      member
    )

  yield* pages.members(DEVICE_PAGE, {
    takesViewers: true,
    GET: Effect.fnUntraced(function*(member, asked) {
      const done = Page.told(asked, MESSAGES)
      if (done !== null) return show(member, done)
      const typed = asked.url.searchParams.get("user_code")
      if (typed === null) return show(member, codeForm)
      const code = yield* codeFrom(member, typed)
      const login = yield* Effect.catchTag(logins.find(code), "DeviceLoginNotFound", () => nobodyWaits)
      return show(member, question(member, login, code))
    }),
    POST: Effect.fnUntraced(function*(member, { form }) {
      const code = yield* codeFrom(member, yield* form.one("user_code"))
      const { id: userId } = member.user
      const decision = yield* form.one("decision")
      if (decision === "deny") {
        yield* Effect.catchTag(logins.deny(code, { userId }), "DeviceLoginNotFound", () => nobodyWaits)
        return Page.redirect(`${DEVICE_PAGE}?done=denied`)
      }
      if (decision !== "approve") return yield* Refused.bad("Choose Approve or Deny.")
      if ((yield* form.maybe("compared")) !== "yes") {
        return yield* Refused.bad("Compare the code with the one in the terminal first, and say that it is the same.")
      }
      const chosen = yield* form.one("grant")
      // The store would look any other text up as an id.
      const grant = member.grants.find(({ id }) => id === chosen)
      const noGrant = Refused.notFound("Grant not found.")
      if (grant === undefined) return yield* noGrant
      yield* Effect.catchTags(logins.approve(code, { userId, grantId: grant.id }), {
        DeviceLoginNotFound: () => nobodyWaits,
        GrantNotFound: () => noGrant,
        MintRefused: ({ message }) => new Refused({ status: 403, title: "Denied", text: message })
      })
      return Page.redirect(`${DEVICE_PAGE}?done=approved`)
    })
  })
}))
