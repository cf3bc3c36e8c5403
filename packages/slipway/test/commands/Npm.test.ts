/** The commands of the README, through npm as a newcomer runs them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { tmpdir } from "node:os"
import path from "node:path"
import { folder, processesOf, until } from "./SlipwayProcess.ts"

const root = path.resolve(import.meta.dirname, "../../../..")

/** `npm start` as a supervisor runs it: npm is the only process whose id is known. */
const npmStart = (data: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const npm = spawn("npm", ["start"], {
        cwd: root,
        env: { PATH: process.env["PATH"], HOME: data, TMPDIR: tmpdir(), SLIPWAY_DATA_DIR: data, SLIPWAY_PORT: "0" }
      })
      let output = ""
      npm.stdout.on("data", (chunk: Buffer) => output += chunk.toString())
      npm.stderr.on("data", (chunk: Buffer) => output += chunk.toString())
      return { npm, output: () => output }
    }),
    () =>
      Effect.flatMap(processesOf(data), (left) =>
        Effect.sync(() =>
          left.forEach((process_) => {
            try {
              process.kill(Number.parseInt(process_, 10), "SIGKILL")
            } catch {
              // It ended by itself meanwhile.
            }
          })
        ))
  )

describe("npm start", () => {
  it.live("a SIGTERM to npm ends the server and its Postgres", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { npm, output } = yield* npmStart(data)
      yield* until(Effect.sync(output), (said) => /^isolation/mu.test(said))
      const ended = new Promise((resolve) => npm.once("exit", resolve))
      npm.kill("SIGTERM")
      yield* Effect.promise(() => ended)
      // A process that is still there would not be ended: give it the time of a clean end.
      yield* until(processesOf(data), (left) => left.length === 0).pipe(Effect.timeoutOption("20 seconds"))
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped))
})
