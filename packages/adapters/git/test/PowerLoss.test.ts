/** Trees of a machine that lost its power: the restarted process has another kernel than the process that wrote them. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect } from "effect"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PowerLoss from "../src/local/PowerLoss.ts"

const [a, b] = [SandboxId.make("c_aaaaaaaaaaaa"), SandboxId.make("c_bbbbbbbbbbbb")]

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "slipway-power-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** A process that ends at once, and leaves the file as if it was killed: the file is restored to its state while the process ran. */
const killed = (path: string, boot: string, there: ReadonlyArray<SandboxId>, settled: ReadonlyArray<SandboxId> = []) =>
  Effect.gen(function*() {
    const left = yield* Effect.scoped(Effect.gen(function*() {
      const power = yield* PowerLoss.watch(path, there, boot)
      for (const id of settled) yield* power.settle(id)
      return yield* Effect.promise(() => readFile(join(path, "machine")))
    }))
    yield* Effect.promise(() => writeFile(join(path, "machine"), left))
  })
const wholeOf = (path: string, boot: string) =>
  Effect.scoped(Effect.map(PowerLoss.watch(path, [a, b], boot), ({ isWhole }) => [isWhole(a), isWhole(b)]))

describe("PowerLoss", () => {
  it.effect("trees that are there when the kernel is another one may lack something, until they are settled", () =>
    Effect.gen(function*() {
      const path = yield* folder
      yield* killed(path, "one", [])
      yield* killed(path, "two", [a, b], [a])
      assert.deepStrictEqual(yield* wholeOf(path, "two"), [true, false])
      // A process that ended in order does not make them whole.
      assert.deepStrictEqual(yield* wholeOf(path, "two"), [true, false])
    }))

  it.effect("trees are whole where a process was killed and its kernel goes on", () =>
    Effect.gen(function*() {
      const path = yield* folder
      yield* killed(path, "one", [a, b])
      assert.deepStrictEqual(yield* wholeOf(path, "one"), [true, true])
    }))

  it.effect("trees are whole if the process ended in order before another kernel was started, and if no state was recorded", () =>
    Effect.gen(function*() {
      const path = yield* folder
      assert.deepStrictEqual(yield* wholeOf(path, "one"), [true, true])
      assert.deepStrictEqual(yield* wholeOf(path, "two"), [true, true])
      yield* Effect.promise(() => writeFile(join(path, "machine"), "{"))
      assert.deepStrictEqual(yield* wholeOf(path, "three"), [true, true])
    }))
})
