/** The parts of a worker's machine in memory, as one layer: for tests and for embedding. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as OutputRedactor from "../src/environment/redaction/OutputRedactor.ts"
import { ThisMachine } from "../src/sandbox/ports/Leases.ts"
import type { RepoName } from "../src/source/schema/RepoRef.ts"
import * as SetupCachesMemory from "./environment/SetupCachesMemory.ts"
import { MemoryDisk } from "./files/MemoryDisk.ts"
import { MemoryRepositories } from "./files/MemoryRepositories.ts"
import * as WorkingTreesMemory from "./files/WorkingTreesMemory.ts"
import * as SandboxHostMemory from "./sandbox/SandboxHostMemory.ts"
import * as SourceHostMemory from "./source/SourceHostMemory.ts"

/** The content of the machine at the start. */
export interface Options {
  /** Repositories of the source host by full name, with the files of the first commit by path. More: `MemoryRepositories`. */
  readonly repositories?: Readonly<Record<RepoName, Readonly<Record<string, string>>>>
}

/**
 * Boxes, working trees, setup caches and the source host, over one disk (`MemoryDisk`) and its repositories (`MemoryRepositories`).
 * A worker also needs an `AgentRuntime`, such as `AgentRuntimeMemory.layer`, and stores.
 */
export const layer = ({ repositories = {} }: Options = {}) => {
  const disk = Layer.merge(MemoryDisk.layer, MemoryRepositories.layer)
  const filled = Layer.effectDiscard(
    Effect.map(MemoryRepositories, ({ add }) => {
      for (const [name, files] of Object.entries(repositories)) add(name, files)
    })
  )
  return Layer.mergeAll(
    WorkingTreesMemory.layer,
    SandboxHostMemory.layer,
    SourceHostMemory.layer,
    SetupCachesMemory.layer(),
    OutputRedactor.layer,
    Layer.succeed(ThisMachine, { id: "memory", isAlone: true }),
    filled
  ).pipe(Layer.provideMerge(disk))
}
