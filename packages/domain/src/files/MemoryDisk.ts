/** Files of one process by absolute path: what the memory layers share instead of a disk. */
import { Context, Layer } from "effect"

export class MemoryDisk extends Context.Service<MemoryDisk, {
  /** Content by absolute path. */
  readonly files: Map<string, string>
}>()("@slipway/domain/MemoryDisk") {
  static readonly layer = Layer.sync(MemoryDisk, () => MemoryDisk.of({ files: new Map() }))
}
