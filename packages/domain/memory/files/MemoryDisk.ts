/** Files of one process by absolute path, shared by the memory layers in place of a disk. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SandboxId } from "../../src/ids/SandboxId.ts"

/** The folder of a sandbox's trees. */
export const workspaceOf = (sandboxId: SandboxId): string => `/memory/work/${sandboxId}`

/** Directories are only names: a directory exists while a file is below it. */
export class MemoryDisk extends Context.Service<MemoryDisk, {
  /** Content by absolute path, always text. */
  readonly files: Map<string, string>
  /** The executable ones among the files. */
  readonly executables: Set<string>
  /** The time of the last write, in milliseconds since the epoch. */
  writtenAtMillis(path: string): number
}>()("@slipway/domain/MemoryDisk") {
  static readonly layer = Layer.effect(
    MemoryDisk,
    Effect.map(Clock.Clock, (clock) => {
      const files = new WrittenFiles(clock)
      return MemoryDisk.of({ files, executables: files.executables, writtenAtMillis: (path) => files.writtenAt.get(path) ?? 0 })
    })
  )
}

/** A file that is deleted and made again loses its earlier attributes. */
class WrittenFiles extends Map<string, string> {
  readonly executables = new Set<string>()
  readonly writtenAt = new Map<string, number>()
  readonly #clock: Clock.Clock

  constructor(clock: Clock.Clock) {
    super()
    this.#clock = clock
  }

  override set(path: string, content: string): this {
    this.writtenAt.set(path, Math.floor(this.#clock.currentTimeMillisUnsafe()))
    return super.set(path, content)
  }

  override delete(path: string): boolean {
    this.executables.delete(path)
    this.writtenAt.delete(path)
    return super.delete(path)
  }

  override clear(): void {
    this.executables.clear()
    this.writtenAt.clear()
    super.clear()
  }
}
