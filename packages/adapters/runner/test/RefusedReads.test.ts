/** Records of machines and processes where the system refuses to read. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as RefusedReads from "@slipway/machine/testing/RefusedReads"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync } from "node:fs"
import path from "node:path"
import * as MachineRegistry from "../src/host/MachineRegistry.ts"
import { ProcessRecords } from "../src/program/ProcessRecords.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

it.live("the machine of a sandbox stays known", () =>
  Effect.gen(function*() {
    const folder = yield* RefusedReads.temporary
    MachineRegistry.make(folder).set(sandboxId, MachineRegistry.fresh(1))
    yield* RefusedReads.answersTheTruth(folder, () => {
      const known = MachineRegistry.make(folder)
      return [known.list(), known.get(sandboxId)?.fence]
    }, 2)
  }))

describe.skipIf(process.platform !== "linux")("where the system refuses to tell of processes", () => {
  it.live("those that a runner left stay noted until they are ended", () =>
    Effect.gen(function*() {
      const state = yield* RefusedReads.temporary
      const child = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sleep", ["600"], { stdio: "ignore" })),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      yield* Effect.promise(() => once(child, "spawn"))
      // Its own group, as a runner starts it: `endOld` would end the group of the tests else.
      new ProcessRecords(state).add(child.pid ?? 0)
      const reads = yield* RefusedReads.refusals((name) => name.startsWith(state))
      for (const code of RefusedReads.CODES) {
        reads.refuse("all", code)
        assert.throws(() => new ProcessRecords(state).endOld())
        reads.refuse(null, "")
        assert.deepStrictEqual(readdirSync(path.join(state, "processes")), [`${child.pid}`])
      }
    }))
})
