/** The commands of the README, through npm as a newcomer runs them. */
import { assert, describe, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { tmpdir } from "node:os"
import path from "node:path"
import { folder, processesOf, until } from "./SlipwayProcess.ts"

const root = path.resolve(import.meta.dirname, "../../../..")

/** `npm start` as a supervisor runs it: npm is the only process whose id is known. */
const npmStart = (data: string) =>
  SpawnedProgram.scoped("npm", ["start"], {
    cwd: root,
    env: { PATH: process.env["PATH"], HOME: data, TMPDIR: tmpdir(), SLIPWAY_DATA_DIR: data, SLIPWAY_PORT: "0" }
  })

describe("npm start", () => {
  it.live("a SIGTERM to npm ends the server and its Postgres", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const npm = yield* npmStart(data)
      yield* Effect.promise(() => npm.says((said) => /^isolation/mu.exec(said)))
      yield* Effect.promise(() => npm.stop("SIGTERM"))
      // A process that is still there would not be ended: give it the time of a clean end.
      yield* until(processesOf(data), (left) => left.length === 0).pipe(Effect.timeoutOption("20 seconds"))
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped))
})
