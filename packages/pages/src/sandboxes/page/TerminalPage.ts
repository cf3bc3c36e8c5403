/**
 * `/sandboxes/:id/terminal`: a shell in the sandbox's box. The page has the connection. The terminal is drawn by a frame without an
 * origin, which may add styles, and can reach nothing: what comes from the box is untrusted.
 */
import { END_REASONS, TERMINAL_PATH } from "@slipway/api/schema/TerminalMessages"
import { principalOf } from "@slipway/domain/access/rules/Session"
import { MAX_TERMINALS, switchedOff, Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { HEADERS } from "@slipway/http/server/reply/PageHeaders"
import { Effect, Option } from "effect"
import { HttpServerResponse } from "effect/http"
import * as Assets from "../../assets/Assets.ts"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { breadcrumb, idOf, noSandbox } from "./SandboxPage.ts"

const notHere = new Refused({ status: 403, title: "No terminal", text: switchedOff().detail })
const onlyMembers = new Refused({
  status: 403,
  title: "Viewers have no terminal",
  text: "You are a viewer of this organization. An owner can give you another role."
})

/** The frame has no origin, so no cookies, and no network. xterm adds styles without a nonce. */
const FRAME_HEADERS = {
  ...HEADERS,
  "content-security-policy": "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
  "x-frame-options": "SAMEORIGIN"
}
const PAGE_HEADERS = {
  "content-security-policy": HEADERS["content-security-policy"].replace("; form-action", "; frame-src 'self'; form-action")
}

/** The document of the frame. */
const frame = () =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Terminal</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="${Assets.addressOf("xterm.css")}">
<link rel="stylesheet" href="${Assets.addressOf("terminal-frame.css")}">
<script defer src="${Assets.addressOf("xterm.js")}"></script>
<script defer src="${Assets.addressOf("xterm-fit.js")}"></script>
<script defer src="${Assets.addressOf("terminal-frame.js")}"></script>
</head>
<body><main id="screen" aria-label="Terminal"></main></body>
</html>
`

const numbers = Array.from({ length: MAX_TERMINALS }, (_, index) => index + 1)

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const isOff = Option.isNone(yield* Effect.serviceOption(Terminals))

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      if (isOff) return yield* notHere
      if (member.visit.place.role === "viewer") return yield* onlyMembers
      const id = yield* idOf(asked)
      const sandbox = yield* sandboxes.get(principalOf(member.visit), id)
      const wanted = Number(asked.url.searchParams.get("terminal") ?? "1")
      const terminal = numbers.includes(wanted) ? wanted : 1
      const choices = numbers.map((number) =>
        html`
<li><a href="/sandboxes/${id}/terminal?terminal=${number}"${number === terminal && html` aria-current="page"`}>Terminal ${number}</a></li>`
      )
      const address = TERMINAL_PATH.replace(":sandboxId", id)
      const body = html`${breadcrumb(sandbox)}
<h1>Terminal</h1>
<nav aria-label="Terminals"><ul class="places">${choices}
</ul></nav>
<p class="fine">A shell with the agent's files and rights. Its files are saved with the next checkpoint. To leave it with the
keyboard, press Ctrl and F6.</p>
<p id="terminal-state" role="status"><noscript>A terminal needs scripts.</noscript></p>
<p class="actions"><button id="terminal-open" type="button" hidden>Connect</button>
<button id="terminal-end" type="button" class="quiet" hidden>End terminal</button></p>
<iframe id="terminal" class="terminal" title="Terminal ${terminal}" sandbox="allow-scripts" src="/sandboxes/${id}/terminal/frame"
data-socket="${address}?terminal=${terminal}" data-reasons="${JSON.stringify(END_REASONS)}"></iframe>`
      return Page.show(
        { title: `Terminal of ${sandbox.title}`, place: "sandboxes", body, scripts: ["terminal.js"] },
        member,
        { headers: PAGE_HEADERS }
      )
    },
    Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox))
  )
  const document = frame()
  const getFrame: Page.Handler<Page.Member> = () =>
    isOff
      ? Effect.fail(notHere)
      : Effect.succeed(HttpServerResponse.text(String(document), { headers: FRAME_HEADERS, contentType: "text/html; charset=utf-8" }))
  return { get, getFrame }
})
