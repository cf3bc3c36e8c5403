/** `WorkingTrees` of a process that has none, because it only answers requests. Its readers are `ReachableTreesLink`'s. */
import { FileNotFound, PushFailed, WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { Effect, Layer } from "effect"

const onlyWorkers = (): never => {
  throw new Error("only workers make working trees")
}
const nothing = () => Effect.fail(new FileNotFound())

export const layer = Layer.succeed(
  WorkingTrees,
  WorkingTrees.of({
    workspace: onlyWorkers,
    folder: onlyWorkers,
    prepare: () => Effect.sync(onlyWorkers),
    list: nothing,
    changes: nothing,
    open: nothing,
    compare: nothing,
    snapshot: nothing,
    push: ({ repo }) => Effect.fail(new PushFailed({ repo, detail: "The sandbox has no working tree here.", retryable: false })),
    has: () => Effect.succeed(false),
    remove: () => Effect.void,
    sandboxes: Effect.succeed([]),
    makeRoom: Effect.void
  })
)
