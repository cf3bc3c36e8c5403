/**
 * Everything of one machine that a worker needs, as one layer. It is here and not in `@slipway/machine`, because working trees need git,
 * and this package builds on that one.
 */
import { MAX_CACHE_BYTES } from "@slipway/domain/environment/ports/SetupCaches"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Leases, ThisMachine } from "@slipway/domain/sandbox/ports/Leases"
import { type HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import * as MachineFolder from "@slipway/machine/files/MachineFolder"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as GvisorProbe from "@slipway/machine/gvisor/Probe"
import * as SandboxHostGvisor from "@slipway/machine/gvisor/SandboxHostGvisor"
import { defaults, type Limits } from "@slipway/machine/host/Limits"
import type { NotIsolated } from "@slipway/machine/host/NotIsolated"
import * as Spawner from "@slipway/machine/node/spawner/Spawner"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as CacheImages from "@slipway/machine/overlay/CacheImages"
import * as SetupCachesFolder from "@slipway/machine/setup-caches/SetupCachesFolder"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import * as WorkingTreesGit from "../working-trees/WorkingTreesGit.ts"

/** Options of the machine. */
export interface Options {
  /** The folder of boxes, trees, caches and the machine's id. Only one worker at a time may use it. Default: `.slipway`. */
  readonly folder?: string
  /**
   * The isolation of boxes. `none` runs their programs as this user, and a worker then runs only models that are marked offline. The
   * layer fails with `NotIsolated` if the machine lacks something. Default: `bubblewrap`.
   */
  readonly isolation?: "bubblewrap" | "gvisor" | "none"
  /** The hosts that boxes may reach, as in SLIPWAY_EGRESS_ALLOW; also for `AllowedEgress` of the worker. Default: none. */
  readonly egress?: Egress.Options["allow"]
  /** Limits of a box, over those of `defaults`. */
  readonly limits?: Partial<Limits>
  /** Files and folders of this machine that boxes can read, such as an agent's programs. */
  readonly readOnly?: ReadonlyArray<string>
  /** Folders of programs for repositories, which boxes can read. */
  readonly toolchains?: ReadonlyArray<string>
  /** Limits of clones and trees. */
  readonly trees?: Omit<WorkingTreesGit.Options, "directory" | "folders">
  /** Bytes of all setup caches. Default: a tenth of the disk, at most 20 GiB. */
  readonly cacheBytes?: number
}

/** The setup caches below the folder. `bytes`: `null` for the default. */
export const setupCaches = (folder: string, { lackingOverlays }: SizedFolders.SizedFolders, bytes: number | null) =>
  Layer.unwrap(Effect.map(
    bytes === null ? SetupCachesFolder.defaultBytes(folder) : Effect.succeed(bytes),
    (maximumBytes) =>
      SetupCachesFolder.layer({
        directory: join(folder, "caches"),
        maximumBytes,
        ...lackingOverlays === null ? { makeImage: (file, bytes) => CacheImages.make(file, bytes, { bytes: MAX_CACHE_BYTES }) } : {}
      })
  ))

/** The identity of the machine with this folder, which no other process can have meanwhile. */
const thisMachine = (folder: string, folders: SizedFolders.SizedFolders) =>
  Layer.effect(
    ThisMachine,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const leases = yield* Leases
      const { alone, machine } = yield* MachineFolder.acquire(folder, Effect.flatMap(trees.sandboxes, leases.machineOf))
      // From here on no other process uses the mounted folders.
      yield* folders.letGo
      return { id: machine, isAlone: alone }
    })
  )

const boxes = (directory: string, folders: SizedFolders.SizedFolders, options: Options) => {
  const { isolation = "bubblewrap", limits = {}, readOnly = [], toolchains = [] } = options
  const workspaceOf = workspacesIn(join(directory, "trees"))
  const places = { directory: join(directory, "boxes"), workspaceOf, toolchains }
  const isolated = { ...places, readOnly, limits, folders }
  const host: Layer.Layer<SandboxHost, HostError | NotIsolated, Egress.Egress> = isolation === "none"
    ? SandboxHostNone.layer(places)
    : isolation === "bubblewrap"
    ? SandboxHostBubblewrap.layer(isolated)
    : Layer.effect(SandboxHost, Effect.map(Effect.tap(SandboxHostGvisor.make(isolated), GvisorProbe.run), ({ host }) => host))
  return host
}

/**
 * Boxes and homes, working trees, setup caches, the redaction of secrets in output and the machine's id. It needs stores, because a
 * lost id is recovered from the leases of the machine's sandboxes.
 */
export const layer = (options: Options = {}) => {
  const { cacheBytes = null, egress = new Set(), folder = ".slipway", isolation = "bubblewrap", limits = {}, trees = {} } = options
  const directory = join(folder, "trees")
  const folders = SizedFolders.make({
    directory,
    limits: { ...defaults, ...limits },
    overlays: isolation === "bubblewrap",
    ...isolation === "none" ? { lacking: "agents are not isolated" } : {}
  })
  return Layer.unwrap(
    Effect.map(
      folders,
      (folders) =>
        Layer.mergeAll(thisMachine(folder, folders), setupCaches(folder, folders, cacheBytes), OutputRedactor.layer).pipe(
          Layer.provideMerge(WorkingTreesGit.layer({ ...trees, directory, folders })),
          Layer.provideMerge(boxes(folder, folders, options))
        )
    )
  ).pipe(Layer.provideMerge(Egress.layer({ allow: egress })), Layer.provideMerge(Spawner.layer))
}
