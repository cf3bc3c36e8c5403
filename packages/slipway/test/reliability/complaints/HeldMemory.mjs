/**
 * In the process that is looked at, by `--import`: on SIGUSR2 it collects its garbage and writes the bytes that it holds to the file
 * `HELD_MEMORY`. What it has of the machine says little: after a burst the runtime keeps what it had, and collects when it likes.
 */
import { renameSync, writeFileSync } from "node:fs"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose_gc")
const collect = runInNewContext("gc")
const file = process.env["HELD_MEMORY"]

// Workers of its own have the same environment, and no signals.
if (file !== undefined) {
  process.on("SIGUSR2", () => {
    collect()
    const { external, heapUsed } = process.memoryUsage()
    writeFileSync(`${file}.new`, `${heapUsed + external}`)
    renameSync(`${file}.new`, file)
  })
}
