/** `/sandboxes/terminate`, `archive`, `unarchive` and `delete`: what is done to several sandboxes at once, after asking. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxNotFinished } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Schema } from "effect"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"

/** As many as a page of the list has. */
const MAX = 50

const isId = Schema.is(SandboxId)

/** The action. */
interface Kind {
  /** The last part of the address, `/sandboxes/NAME`. */
  readonly name: string
  readonly verb: string
  readonly explained: string
  /** Message of the list afterwards. */
  readonly done: string
  readonly isDangerous: boolean
  /** Whether this person may do it. */
  readonly isFor: (by: Principal) => boolean
  readonly run: (by: Principal, ids: ReadonlyArray<SandboxId>) => Effect.Effect<
    unknown,
    SandboxNotFinished | SandboxNotFound | StoreUnavailable
  >
}

/** Whether this person may delete sandboxes: owners may. */
export const mayDelete = (by: Principal): boolean => by.scopes.has("sandboxes:delete")

const idsOf = (given: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<SandboxId>, Refused> => {
  const ids = [...new Set(given)]
  const good = ids.filter((id) => isId(id))
  return good.length !== ids.length
    ? Effect.fail(Refused.bad("One of these sandboxes doesn't exist."))
    : good.length === 0
    ? Effect.fail(Refused.bad("Select sandboxes first."))
    : good.length > MAX
    ? Effect.fail(Refused.bad(`You can select up to ${MAX} at once.`))
    : Effect.succeed(good)
}

const gone = () => Effect.fail(Refused.notFound("One of these sandboxes doesn't exist."))
const unfinished = () =>
  Effect.fail(
    new Refused({ status: 409, title: "Not possible right now", text: "One of these sandboxes has not finished. End it first." })
  )
const notTheirs = new Refused({ status: 403, title: "Not allowed", text: "Only owners can delete sandboxes." })

const handlers = (sandboxes: typeof Sandboxes.Service, { done, explained, isDangerous, isFor, name, run, verb }: Kind) => {
  const allowed = (member: Page.Member) => {
    const by = principalOf(member.visit)
    return isFor(by) ? Effect.succeed(by) : Effect.fail(notTheirs)
  }

  const ask: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    const by = yield* allowed(member)
    const ids = yield* idsOf(url.searchParams.getAll("id"))
    const found = yield* Effect.forEach(ids, (id) => sandboxes.get(by, id), { concurrency: 4 })
    const title = `${verb} ${found.length === 1 ? "this sandbox" : `these ${found.length} sandboxes`}?`
    const list = found.map(({ id, title }) =>
      html`<li>${title}<input type="hidden" name="id" value="${id}"></li>
`
    )
    const look = isDangerous && html` class="danger"`
    const body = html`<h1>${title}</h1>
<p>${explained}</p>
<form method="post" action="/sandboxes/${name}">${member.csrf}
<ul>${list}</ul>
<div class="actions"><button${look}>${verb}</button> <a class="button quiet" href="/sandboxes">Cancel</a></div>
</form>`
    return Page.show({ title, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", gone))

  const act: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { form }) {
    const by = yield* allowed(member)
    const ids = yield* idsOf(form.all("id"))
    // If one id is unknown, nothing is done to any sandbox.
    yield* Effect.forEach(ids, (id) => sandboxes.get(by, id), { concurrency: 4, discard: true })
    yield* run(by, ids)
    return Page.redirect(`/sandboxes?done=${done}`)
  }, Effect.catchTags({ SandboxNotFound: gone, SandboxNotFinished: unfinished }))

  return { GET: ask, POST: act }
}

/** The addresses with their handlers. */
export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const dashboard = yield* SandboxDashboard
  const each = (run: (by: Principal, id: SandboxId) => ReturnType<Kind["run"]>): Kind["run"] => (by, ids) =>
    Effect.forEach(ids, (id) => run(by, id), { concurrency: 4, discard: true })
  const archiving = (isArchived: boolean): Kind["run"] => (by, ids) =>
    Effect.flatMap(DateTime.now, (now) => dashboard.archive(by.grantId, ids, isArchived, now))
  const kinds: ReadonlyArray<Kind> = [
    {
      name: "terminate",
      verb: "End",
      explained: "This ends them permanently. Unpublished changes are lost; conversations are kept.",
      done: "terminated",
      isDangerous: true,
      isFor: () => true,
      run: each((by, id) => sandboxes.terminate(by, id))
    },
    {
      name: "archive",
      verb: "Archive",
      explained: "Archived sandboxes are left out of this list and of its counts. Nothing else changes.",
      done: "archived",
      isDangerous: false,
      isFor: () => true,
      run: archiving(true)
    },
    {
      name: "unarchive",
      verb: "Unarchive",
      explained: "The list shows them again.",
      done: "unarchived",
      isDangerous: false,
      isFor: () => true,
      run: archiving(false)
    },
    {
      name: "delete",
      verb: "Delete",
      explained:
        "This deletes their prompts, messages, events, files and checkpoints for good. Forks keep the checkpoint that they need; " +
        "pull requests stay.",
      done: "deleted",
      isDangerous: true,
      isFor: mayDelete,
      run: each((by, id) => sandboxes.delete(by, id))
    }
  ]
  return kinds.map((kind) => ({ path: `/sandboxes/${kind.name}` as const, handlers: handlers(sandboxes, kind) }))
})
