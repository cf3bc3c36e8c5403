/** Ends what a sandbox runs, and gives back what it holds. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Exit, Scope } from "effect"
import { join } from "node:path"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import { endAll, type HostState } from "./HostState.ts"

export const end = Effect.fnUntraced(function*(
  { kind, lives, starting, still }: HostState,
  operation: HostError["operation"],
  sandboxId: SandboxId
) {
  yield* endAll(lives.get(sandboxId)?.running ?? new Set())
  if (operation === "provision" && still.has(sandboxId)) return
  // Before the search: a start from now on takes it back.
  if (!starting.has(sandboxId)) still.add(sandboxId)
  yield* Effect.onError(kind.end(operation, sandboxId), () => Effect.sync(() => still.delete(sandboxId)))
})

/** Ends all that runs, and gives back what only running processes need. */
export const giveBack = Effect.fnUntraced(function*(host: HostState, operation: HostError["operation"], sandboxId: SandboxId) {
  const { kind, lives, processors, visits } = host
  yield* end(host, operation, sandboxId)
  const live = lives.get(sandboxId)
  lives.delete(sandboxId)
  const looking = visits.get(sandboxId)
  if (looking !== undefined) looking.own = null
  if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
  yield* kind.discard(operation, sandboxId)
  processors.release(sandboxId)
})

export const stop = Effect.fn("SandboxHost.stop")(function*(host: HostState, sandboxId: SandboxId) {
  const { directory, folders, still, uids } = host
  yield* giveBack(host, "stop", sandboxId)
  still.delete(sandboxId)
  if (folders !== undefined) yield* folders.uncover(sandboxId)
  for (
    const path of [join(directory, sandboxId),
      ...folders === undefined ? [] : [SandboxFolder.writableIn(join(folders.directory, sandboxId))]]
  ) {
    yield* Effect.catchDefect(
      deleteTree(path),
      (error) => Effect.fail(new HostError({ operation: "stop", detail: `${path} cannot be removed (${reason(error)}).`, retryable: true }))
    )
  }
  // Last: the next sandbox with this number must find nothing of it.
  if (uids !== null) yield* attempt("stop", "The sandbox's user cannot be given back.", () => uids.release(sandboxId))
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))
