/** `/sandboxes/terminate`: ends several sandboxes at once, after asking. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Schema } from "effect"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"

/** As many as a page of the list has. */
const MAX = 50

const isId = Schema.is(SandboxId)

const idsOf = (given: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<SandboxId>, Refused> => {
  const ids = [...new Set(given)]
  const good = ids.filter((id) => isId(id))
  return good.length !== ids.length
    ? Effect.fail(Refused.bad("One of these sandboxes doesn't exist."))
    : good.length === 0
    ? Effect.fail(Refused.bad("Select sandboxes first."))
    : good.length > MAX
    ? Effect.fail(Refused.bad(`You can end up to ${MAX} at once.`))
    : Effect.succeed(good)
}

export const make = Effect.map(Sandboxes, (sandboxes) => {
  const ask: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    const ids = yield* idsOf(url.searchParams.getAll("id"))
    const by = principalOf(member.visit)
    const found = yield* Effect.forEach(ids, (id) => sandboxes.get(by, id), { concurrency: 4 })
    const title = found.length === 1 ? "End this sandbox?" : `End these ${found.length} sandboxes?`
    const list = found.map(({ id, title }) =>
      html`<li>${title}<input type="hidden" name="id" value="${id}"></li>
`
    )
    const body = html`<h1>${title}</h1>
<p>This ends them permanently. Unpublished changes are lost; conversations are kept.</p>
<form method="post" action="/sandboxes/terminate">${member.csrf}
<ul>${list}</ul>
<div class="actions"><button class="danger">End</button> <a class="button quiet" href="/sandboxes">Cancel</a></div>
</form>`
    return Page.show({ title, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", () => Effect.fail(Refused.notFound("One of these sandboxes doesn't exist."))))

  const terminate: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { form }) {
    const ids = yield* idsOf(form.all("id"))
    const by = principalOf(member.visit)
    // If one id is unknown, none of the sandboxes is terminated.
    yield* Effect.forEach(ids, (id) => sandboxes.get(by, id), { concurrency: 4, discard: true })
    yield* Effect.forEach(ids, (id) => sandboxes.terminate(by, id), { concurrency: 4, discard: true })
    return Page.redirect("/sandboxes?done=terminated")
  }, Effect.catchTag("SandboxNotFound", () => Effect.fail(Refused.notFound("One of these sandboxes doesn't exist."))))

  return { ask, terminate }
})
