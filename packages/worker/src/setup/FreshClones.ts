/**
 * A separate box with fresh clones of the commits that a sandbox's trees started from. A setup with secrets runs there when an agent
 * has written to the sandbox's trees or home (docs/decisions/17).
 */
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Context, Effect, Option, Schedule } from "effect"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import { removeHere } from "../shared/ReleaseSandbox.ts"

/** The ids of this process's clones. The store knows no sandbox with these ids, and the reaper must not remove them as orphans. */
export const FreshCloneIds = Context.Reference<Set<SandboxId>>("@slipway/worker/FreshCloneIds", { defaultValue: () => new Set() })

/** No other work uses the id. If the removal fails, the reaper removes the clones later. */
const remove = Effect.fnUntraced(function*(id: SandboxId) {
  const ids = yield* FreshCloneIds
  yield* removeHere(id).pipe(
    Effect.retry({ times: 3, schedule: Schedule.spaced("1 second") }),
    Effect.catchTag("HostError", (error) => Effect.logError("a box of a setup is left", error)),
    Effect.ensuring(Effect.sync(() => ids.delete(id)))
  )
})

/** The clones are removed when the scope closes, or by the reaper after a crash. */
export const make = Effect.fn("FreshClones.make")(function*(leased: LeasedSandbox) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const source = Option.getOrUndefined(yield* Effect.serviceOption(SourceHost))
  if (source === undefined) {
    return yield* new SourceHostError({ operation: "clone", detail: "There is no source host.", retryable: false })
  }
  const known = yield* FreshCloneIds
  const ids = yield* Ids
  const { sandbox: { repos } } = yield* leased.view
  const names = repos.map(({ fullName }) => fullName)
  const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
  yield* Effect.acquireRelease(Effect.sync(() => known.add(id)), () => remove(id))
  const clone = Effect.fnUntraced(function*(repo: TreeKey["repo"]) {
    const remote = yield* source.remote(repo, "read")
    const { baseSha } = yield* trees.findBaseRef({ sandboxId: leased.id, repo }, { remote, refs: [] })
    yield* trees.prepare({ sandboxId: id, repo }, { remote, ref: baseSha, defaultBranch: baseSha, repos: names })
  })
  const [box] = yield* Effect.all([
    host.provision({ sandboxId: id, fence: leased.lease.fence }),
    Effect.forEach(names, clone, { concurrency: "unbounded", discard: true })
  ], { concurrency: 2 })
  return box
})
