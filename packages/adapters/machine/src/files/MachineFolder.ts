/** The machine whose disk holds the working trees, and its one worker. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { Effect, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { mkdir, readFile, stat } from "node:fs/promises"
import { createServer } from "node:net"
import path from "node:path"
import * as DurableFile from "../node/DurableFile.ts"
import { OptionNames } from "../options/OptionNames.ts"

/** Another worker already uses this data folder. */
export class DataFolderInUse extends Schema.TaggedError<DataFolderInUse>()("DataFolderInUse", {
  dataDir: Schema.String,
  /** The name of the option: see {@link OptionNames}. */
  option: Schema.String
}) {
  override get message() {
    return `Another worker uses ${this.dataDir}. Stop it, or give this one a folder of its own with ${this.option}.`
  }
}

const isMachineId = Schema.is(Schema.String.check(Schema.isUUID()))

/** `null`: the file is missing, or a power loss has damaged it. */
const read = (file: string): Promise<string | null> =>
  readFile(file, "utf8").then((text) => isMachineId(text.trim()) ? text.trim() : null, ifAbsent(null))

/** Holds the lock until the scope closes. The kernel frees it however its owner ends. */
const lock = (name: string, dataDir: string) =>
  Effect.flatMap(OptionNames, (nameOf) =>
    Effect.acquireRelease(
      Effect.callback<() => void, DataFolderInUse>((resume) => {
        const server = createServer((socket) => socket.destroy())
        server.once("error", () => resume(Effect.fail(new DataFolderInUse({ dataDir, option: nameOf("dataDir") }))))
        server.listen(`\0slipway-${name}`, () => resume(Effect.succeed(() => server.close())))
      }),
      (close) => Effect.sync(close)
    ))

/** Locks the folder against workers and other callers until the scope closes. Only on Linux. */
export const alone = Effect.fnUntraced(function*(dataDir: string) {
  const folder = yield* Effect.promise(() => stat(dataDir))
  if (process.platform === "linux") yield* lock(`data-${folder.dev}-${folder.ino}`, dataDir)
})

/**
 * The machine's id, for this process only until the scope closes. A restarted worker finds its sandboxes by the id, so a lost or
 * damaged id is recovered: `recover` returns the machine of the trees in the folder, or `null`. `alone` is `false` without a lock: the
 * lock is an abstract socket, which only Linux has.
 */
export const acquire = Effect.fnUntraced(function*<E, R>(dataDir: string, recover: Effect.Effect<string | null, E, R>) {
  const file = path.join(dataDir, "machine")
  yield* Effect.promise(() => mkdir(dataDir, { recursive: true }))
  // While the id is chosen, no other process may choose one or take the folder.
  yield* alone(dataDir)
  let machine = yield* Effect.promise(() => read(file))
  if (machine === null) {
    const known = yield* recover
    machine = known !== null && isMachineId(known) ? known : randomUUID()
    if (known === machine) {
      yield* Effect.logWarning(`the id of this machine was lost or broken; the sandboxes in ${dataDir} tell that it is ${machine}`)
    }
    const id = machine
    yield* Effect.sync(() => DurableFile.replace(file, id))
  }
  // Only one of a folder and its copy may be used on this machine.
  const isAlone = process.platform === "linux"
  if (isAlone) yield* lock(`worker-${machine}`, dataDir)
  return { machine, alone: isAlone }
})
