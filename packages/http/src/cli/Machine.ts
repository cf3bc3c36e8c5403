/** The machine whose disk holds the working trees, and the one worker that may use it. */
import { randomUUID } from "node:crypto"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import path from "node:path"
import { Effect, Schema } from "effect"

/** Another worker already uses this data folder. */
export class DataFolderInUse extends Schema.TaggedError<DataFolderInUse>()("DataFolderInUse", { dataDir: Schema.String }) {
  override get message() {
    return `Another worker uses ${this.dataDir}. Stop it, or give this one a folder of its own with SLIPWAY_DATA_DIR.`
  }
}

/** Drawn once per data folder; a worker that comes back finds its sandboxes by it. */
const idOf = (dataDir: string) =>
  Effect.promise(async () => {
    const file = path.join(dataDir, "machine")
    await mkdir(dataDir, { recursive: true })
    await writeFile(file, randomUUID(), { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error
    })
    return (await readFile(file, "utf8")).trim()
  })

/**
 * The machine's id, for this process alone until the scope closes. `alone` is `false` where that cannot be made sure:
 * the lock is an abstract socket, which the kernel frees however its owner ends, and only Linux has those.
 */
export const acquire = Effect.fnUntraced(function*(dataDir: string) {
  const machine = yield* idOf(dataDir)
  if (process.platform !== "linux") return { machine, alone: false }
  yield* Effect.acquireRelease(
    Effect.callback<() => void, DataFolderInUse>((resume) => {
      const server = createServer((socket) => socket.destroy())
      server.once("error", () => resume(Effect.fail(new DataFolderInUse({ dataDir }))))
      server.listen(`\0slipway-worker-${machine}`, () => resume(Effect.succeed(() => server.close())))
    }),
    (close) => Effect.sync(close)
  )
  return { machine, alone: true }
})
