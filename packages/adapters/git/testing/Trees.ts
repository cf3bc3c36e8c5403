/** Trees whose sandboxes have a box from the moment they are prepared, as a worker sees to. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Context, Effect, Layer } from "effect"
import { join } from "node:path"
import * as WorkingTreesGit from "../src/working-trees/WorkingTreesGit.ts"

export type Options = WorkingTreesGit.Options

/** Where they are. */
class Workspaces extends Context.Service<Workspaces, (sandboxId: SandboxId) => string>()("@slipway/git/Workspaces") {}

/** Operations for the contract suites. */
export const workspace = (sandboxId: SandboxId) => Effect.map(Workspaces, (workspaceOf) => workspaceOf(sandboxId))

/** `host` has the trees of `options.directory` as its workspaces. */
export const layerOn = <E, R>(host: Layer.Layer<SandboxHost, E, R>, options: Options) =>
  Layer.effect(
    WorkingTrees,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const { provision, stop } = yield* SandboxHost
      const boxed = (sandboxId: SandboxId) => Effect.orDie(provision({ sandboxId, fence: 1 }))
      return WorkingTrees.of({
        ...trees,
        prepare: (key, source) => Effect.tap(trees.prepare(key, source), boxed(key.sandboxId)),
        // The trees may have been prepared by a worker before this one.
        snapshot: (key, options) => Effect.andThen(boxed(key.sandboxId), trees.snapshot(key, options)),
        restore: (sandboxId, ...rest) => Effect.tap(trees.restore(sandboxId, ...rest), boxed(sandboxId)),
        remove: (sandboxId) => Effect.andThen(Effect.orDie(stop(sandboxId)), trees.remove(sandboxId))
      })
    })
  ).pipe(
    Layer.provide(WorkingTreesGit.layer(options)),
    Layer.provideMerge(host),
    Layer.merge(Layer.succeed(Workspaces, workspacesIn(options.directory)))
  )

/** Without isolation: what is tested is git. */
export const layer = (options: Options) =>
  layerOn(
    Layer.orDie(SandboxHostNone.layer({ directory: join(options.directory, "boxes"), workspaceOf: workspacesIn(options.directory) })),
    options
  )

/** The service alone. */
export const make = (options: Options) => Effect.map(Layer.build(layer(options)), (services) => Context.get(services, WorkingTrees))
