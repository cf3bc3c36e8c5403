import { assert, it } from "@effect/vitest"
import { acquire } from "@slipway/machine/files/MachineFolder"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(tmpdir(), "slipway-machine-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)
const idIn = (dataDir: string, recover: Effect.Effect<string | null> = Effect.succeed(null)) =>
  Effect.scoped(Effect.map(acquire(dataDir, recover), ({ machine }) => machine))
const fileOf = (dataDir: string) => path.join(dataDir, "machine")
const ours = "0197f1a0-0000-7000-8000-0000000000a1"

it.effect("a machine keeps its id, without a request for it", () =>
  Effect.gen(function*() {
    const dataDir = yield* folder
    const first = yield* idIn(dataDir)
    assert.strictEqual(yield* idIn(dataDir, Effect.die("asked")), first)
    assert.deepStrictEqual(readdirSync(dataDir), ["machine"])
  }))

for (const left of ["", "0197f1a0-0000", "\0".repeat(36), "nonsense\n"]) {
  it.effect(`what a power loss left of the id is not taken for one: ${JSON.stringify(left)}`, () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      writeFileSync(fileOf(dataDir), left)
      assert.strictEqual(yield* idIn(dataDir, Effect.succeed(ours)), ours)
      assert.strictEqual(readFileSync(fileOf(dataDir), "utf8"), ours)
      writeFileSync(fileOf(dataDir), left)
      const drawn = yield* idIn(dataDir, Effect.succeed(""))
      assert.match(drawn, /^[0-9a-f-]{36}$/u)
      assert.strictEqual(yield* idIn(dataDir), drawn)
    }))
}

it.effect("an id whose file is gone is found again", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* idIn(yield* folder, Effect.succeed(ours)), ours)
  }))

it.effect("a folder is one worker's, also while its id is broken", () =>
  Effect.gen(function*() {
    const dataDir = yield* folder
    yield* acquire(dataDir, Effect.succeed(null))
    writeFileSync(fileOf(dataDir), "")
    assert.strictEqual((yield* Effect.flip(acquire(dataDir, Effect.succeed(null))))._tag, "DataFolderInUse")
  }).pipe(Effect.scoped))

const hasStrace = (() => {
  try {
    execFileSync("strace", ["-o", "/dev/null", "true"])
    return true
  } catch {
    return false
  }
})()

it.effect.skipIf(!hasStrace)(
  "the id is on the disk before anybody uses it: the file, its name, its folder (needs strace)",
  () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const trace = path.join(dataDir, "trace")
      const module = path.resolve(import.meta.dirname, "../../../adapters/machine/src/files/MachineFolder.ts")
      const script = `
      import { Effect } from "effect"
      import { acquire } from ${JSON.stringify(module)}
      await Effect.runPromise(Effect.scoped(acquire(${JSON.stringify(path.join(dataDir, "data"))}, Effect.succeed(null))))`
      execFileSync("strace", ["-f", "-y", "-o", trace, "-e", "trace=fsync,rename,renameat,renameat2", process.execPath,
        "--input-type=module", "-e", script], {
        cwd: import.meta.dirname
      })
      const calls = readFileSync(trace, "utf8").split("\n").filter((line) => line.includes(dataDir))
        .map((line) => /(fsync|rename)\w*\([^/]*(\S*?)[>,)"]/u.exec(line)?.slice(1, 3) ?? [])
        .filter(([call]) => call !== undefined)
      const within = (at: string | undefined) => (at ?? "").slice(dataDir.length)
      assert.deepStrictEqual(calls.map(([call, at]) => `${call} ${within(at)}`), ["fsync /data/machine.making",
        "rename /data/machine.making", "fsync /data"])
    })
)
