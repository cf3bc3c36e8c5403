import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as ProcessTable from "../../src/node/ProcessTable.ts"

const VARIABLE = "PROCESS_TABLE_TEST"

/** A process that runs until it is killed, with these variables alone, in that order. */
const started = (env: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<ChildProcess>((resolve) => {
        const child = spawn("/bin/sleep", ["600"], { env, stdio: "ignore", detached: true })
        child.once("spawn", () => resolve(child))
      })
    ),
    (child) => Effect.sync(() => void child.kill("SIGKILL"))
  )

const signalOf = (child: ChildProcess) =>
  Effect.promise(() => new Promise<string | null>((resolve) => child.once("exit", (_, signal) => resolve(signal))))

const killAll = (mark: string) => ProcessTable.killAll({ variable: VARIABLE, matches: (other) => other === mark, within: "5 seconds" })

it.live("finds a mark wherever it is in an environment, however large that is, and no other variable", () =>
  Effect.gen(function*() {
    const mark = randomUUID()
    const large = { A: "a".repeat(100_000), B: "b".repeat(100_000) }
    const marked = yield* Effect.forEach(
      [{ [VARIABLE]: mark }, { ...large, [VARIABLE]: mark }, { [VARIABLE]: mark, ...large }, { X: "x", [VARIABLE]: mark, Y: "y" }],
      started
    )
    const others = yield* Effect.forEach(
      [{}, { [VARIABLE]: `${mark}-other` }, { [`X${VARIABLE}`]: mark }, { X: `${VARIABLE}=${mark}` }],
      started
    )
    const ended = yield* Effect.forkChild(Effect.forEach(marked, signalOf, { concurrency: "unbounded" }), { startImmediately: true })
    const known = yield* ProcessTable.marks(VARIABLE)
    assert.deepStrictEqual([known.has(mark), known.has(`${mark}-other`)], [true, true])
    assert.deepStrictEqual(yield* killAll(mark), [])
    assert.deepStrictEqual(yield* Fiber.join(ended), marked.map(() => "SIGKILL"))
    assert.deepStrictEqual(others.map(({ exitCode, signalCode }) => [exitCode, signalCode]), others.map(() => [null, null]))
  }).pipe(Effect.scoped))
