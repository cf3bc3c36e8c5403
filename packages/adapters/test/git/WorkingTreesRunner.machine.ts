/** The same trees in machines that are some: with a user, a kernel's walls and folders of their own, made by the worked example. */
import * as WorkingTreesRunner from "@slipway/adapters/git/WorkingTreesRunner"
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { describe } from "vitest"
import * as Machine from "../hosts/Machine.ts"
import * as Machines from "../hosts/runner/Machines.fixture.ts"
import { agent, source } from "./Repositories.ts"

/** With a machine from the moment that trees are to be in it. */
const layer = (kind: Machines.Kind) =>
  Layer.unwrap(Effect.map(Machine.temporaryFolder, (folder) =>
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
          prepare: (key, source) => Effect.andThen(once(key.sandboxId), trees.prepare(key, source)),
          restore: (sandboxId, ...rest) => Effect.andThen(once(sandboxId), trees.restore(sandboxId, ...rest)),
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
    )))

for (const kind of ["bubblewrap", "gvisor", "docker"] as const) {
  const absent = Machines.absent(kind)
  describe.skipIf(absent !== undefined)(`machines of ${kind}${absent === undefined ? "" : ` (${absent})`}`, () => {
    register(
      WorkingTreesContract.suite(`git in machines of ${kind}`, layer(kind), {
        agent,
        source,
        workspace: (sandboxId) => Effect.orDie(Effect.scoped(Machines.fixture(kind).workspace(sandboxId)))
      })
    )
  })
}
