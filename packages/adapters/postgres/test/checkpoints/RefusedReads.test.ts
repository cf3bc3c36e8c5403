/** Checkpoints where the system refuses to read. */
import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as RefusedReads from "@slipway/machine/testing/RefusedReads"
import { Cause, Effect, Exit, Stream } from "effect"
import * as CheckpointFolder from "../../src/checkpoints/CheckpointFolder.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

it.live("a checkpoint that is there is never said to be gone", () =>
  Effect.gen(function*() {
    const folder = yield* RefusedReads.temporary
    const contents = CheckpointFolder.make(folder)
    const key = { id: 1, sandboxId, checkpoint: 1, fence: 1 }
    yield* contents.write(key, Stream.make(new TextEncoder().encode("whole")))
    const reads = yield* RefusedReads.refusals((name) => name.startsWith(folder))
    const exits: Array<Exit.Exit<unknown, unknown>> = []
    const act = Effect.tap(Effect.exit(Stream.runCollect(contents.read(key))), (exit) => Effect.sync(() => exits.push(exit)))
    const count = yield* RefusedReads.oneByOne(reads, act, (which) =>
      Effect.sync(() => {
        for (const exit of exits.splice(0)) {
          if (Exit.isFailure(exit)) assert.strictEqual((Cause.squash(exit.cause) as { _tag?: string })._tag, "StoreUnavailable", which)
        }
      }))
    assert.isAtLeast(count, 1)
  }))
