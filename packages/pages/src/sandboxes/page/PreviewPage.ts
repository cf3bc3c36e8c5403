/** `/sandboxes/:id/preview`: leads the person's browser to servers that run in the sandbox. With `?port=5173` it has that port alone. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { PreviewPort } from "@slipway/domain/environment/rules/Environment"
import { AgentDisconnected } from "@slipway/domain/files/ports/RemoteTrees"
import { Files } from "@slipway/domain/files/usecases/Files"
import { previewPortsOf } from "@slipway/domain/files/usecases/PreviewPorts"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Previews } from "@slipway/http/server/preview/Previews"
import { HEADERS } from "@slipway/http/server/reply/PageHeaders"
import { Effect, Redacted } from "effect"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { breadcrumb, idOf, noSandbox } from "./SandboxPage.ts"

const TITLE = "Previews"

const notNow = new Refused({
  status: 503,
  title: "The sandbox cannot be reached",
  text: "Its worker does not answer just now. Load this page again in a moment."
})

const unknownPort = new Refused({
  status: 400,
  title: "This port has no preview",
  text: "List the port under ports in .slipway/environment.json on the branch that sandboxes start from."
})

const nameOf = ({ label, port }: PreviewPort): string => label === null ? `Port ${port}` : `${label} (port ${port})`

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const files = yield* Files
  const previews = yield* Previews

  /** The sandbox and its ports. */
  const found = Effect.fnUntraced(function*(member: Page.Member, asked: Page.Asked) {
    const id = yield* idOf(asked)
    const by = principalOf(member.visit)
    const sandbox = yield* Effect.catchTag(sandboxes.get(by, id), "SandboxNotFound", () => noSandbox)
    const ports = previews.formTarget === null || sandbox.status !== "running"
      ? []
      : yield* Effect.catchIf(previewPortsOf(files, by, sandbox), (error) => error instanceof AgentDisconnected, () => notNow)
    return { sandbox, ports }
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { ports, sandbox } = yield* found(member, asked)
    const { formTarget } = previews
    const advice = formTarget === null
      ? html`<p>Previews are off. The operator of this service turns them on with an address for them.</p>`
      : sandbox.status !== "running"
      ? html`<p>The sandbox is not running.</p>`
      : ports.length === 0
      ? html`<p>No port has a preview. List them under <code>ports</code> in <code>.slipway/environment.json</code>, on the branch that
sandboxes start from.</p>`
      : html`<p>Each opens the server on that port of the sandbox. The agent has to start the server and leave it running.</p>`
    const mayOpen = member.visit.place.role !== "viewer"
    const address = `/sandboxes/${sandbox.id}/preview`
    const wanted = asked.url.searchParams.get("port")
    const chosen = ports.filter(({ port }) => String(port) === wanted)
    const isOne = chosen.length > 0
    const items = (isOne ? chosen : ports).map((one) =>
      html`
<li><form method="post" action="${address}">${member.csrf}
<input type="hidden" name="port" value="${String(one.port)}">
${mayOpen ? html`<button${isOne && html` autofocus`}>Open ${nameOf(one)}</button>` : html`<span>${nameOf(one)}</span>`}
${!isOne && html`<a href="${address}?port=${String(one.port)}">Link to port ${String(one.port)}</a>`}</form></li>`
    )
    const list = ports.length > 0 && html`<ul class="plain">${items}
</ul>`
    const body = html`${breadcrumb(sandbox)}
<h1>${TITLE}</h1>
${wanted !== null && !isOne && ports.length > 0 && html`<p>The port of this link has no preview. These ports have one:</p>`}
${advice}
${list}
${isOne && html`<p><a href="${address}">All previews</a></p>`}`
    // A form may lead to the origins of previews, by the redirect that answers it.
    const policy = HEADERS["content-security-policy"].replace(
      "form-action 'self'",
      `form-action 'self'${formTarget === null ? "" : ` ${formTarget}`}`
    )
    return Page.show({ title: TITLE, body }, member, { headers: { "content-security-policy": policy } })
  })

  const post: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { ports, sandbox } = yield* found(member, asked)
    const port = ports.find((one) => String(one.port) === asked.form.all("port")[0])
    if (port === undefined) return yield* unknownPort
    const { session, place } = member.visit
    const viewer = { userId: session.userId, sessionId: session.id, grantId: place.grantId }
    const address = yield* previews.admit(viewer, { sandboxId: sandbox.id, port: port.port })
    return address === null ? yield* unknownPort : Page.redirect(Redacted.value(address))
  })

  return { GET: get, POST: post }
})
