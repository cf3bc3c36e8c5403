/** Trees in machines that are some: with a user, walls and folders of their own, made by the worked example. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import * as WorkingTreesRunner from "../src/trees/WorkingTreesRunner.ts"
import * as Machines from "./Machines.fixture.ts"

/** Boxes and trees are made side by side, as a worker makes them; trees that are restored come first. */
export const layerIn = (folder: string, kind: Machines.Kind) =>
  Layer.effect(
    WorkingTrees,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const { provision, stop } = yield* SandboxHost
      const boxed = (sandboxId: SandboxId) => Effect.orDie(provision({ sandboxId, fence: 1 }))
      const there = new Map<SandboxId, Effect.Effect<unknown>>()
      const once = Effect.fnUntraced(function*(sandboxId: SandboxId) {
        const making = there.get(sandboxId) ?? (yield* Effect.cached(boxed(sandboxId)))
        there.set(sandboxId, making)
        yield* making
      })
      return WorkingTrees.of({
        ...trees,
        prepare: (key, source) =>
          Effect.map(Effect.all([trees.prepare(key, source), once(key.sandboxId)], { concurrency: 2 }), ([base]) => base),
        restore: (sandboxId, ...rest) => Effect.tap(trees.restore(sandboxId, ...rest), once(sandboxId)),
        remove: (sandboxId) =>
          Effect.andThen(
            Effect.andThen(Effect.orDie(stop(sandboxId)), Effect.sync(() => there.delete(sandboxId))),
            trees.remove(sandboxId)
          )
      })
    })
  ).pipe(
    Layer.provide(WorkingTreesRunner.layer({ directory: join(folder, "trees") })),
    Layer.provideMerge(Machines.layerIn(folder, kind))
  )
