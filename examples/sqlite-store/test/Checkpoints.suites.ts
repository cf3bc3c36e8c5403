import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import * as CheckpointsContract from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import * as DeletionContract from "@slipway/testing/contracts/sandbox/DeletionContract"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import { drive } from "@slipway/testing/contracts/sandbox/SandboxStates"
import * as SetupsContract from "@slipway/testing/contracts/sandbox/SetupsContract"
import { assert } from "@slipway/testing/suite/Assert"
import { define } from "@slipway/testing/suite/Suite"
import { DateTime, Effect } from "effect"
import { DatabaseSync } from "node:sqlite"
import { layer, over } from "./Fixture.ts"

/** The port does not show what pruning leaves in the file. */
const leftovers = () => {
  let connection: DatabaseSync | undefined
  const rowsOf = (table: string) => connection?.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"]
  const { putText, take, takenOver, worked } = CheckpointsContract
  const pruned = Effect.gen(function*() {
    const checkpoints = yield* Checkpoints
    yield* checkpoints.prune(DateTime.makeUnsafe(0), 100)
    const rows = [rowsOf("contents"), rowsOf("pieces")]
    connection?.exec("DELETE FROM pieces; DELETE FROM contents")
    return rows
  })
  return define(
    "Leftovers of checkpoints (sqlite)",
    over(":memory:", (file) => connection = new DatabaseSync(file)),
    (it) =>
      it.effect("what no record can make visible any more is deleted from the file", () =>
        Effect.gen(function*() {
          const lost = yield* worked()
          yield* putText(lost.lease, 1, "content")
          assert.deepStrictEqual([rowsOf("contents"), rowsOf("pieces")], [1, 1])
          yield* takenOver(lost.sandbox.id)
          assert.deepStrictEqual(yield* pruned, [0, 0], "the lease is lost")

          const over = yield* worked()
          yield* putText(over.lease, 1, "content")
          yield* drive(over.sandbox, [{ _tag: "Fail", reason: "agent_lost", error: "It is gone.", retryable: false }])
          assert.deepStrictEqual(yield* pruned, [0, 0], "the sandbox is over")

          const recorded = yield* worked()
          yield* take(recorded.sandbox, recorded.lease, [1])
          yield* putText(recorded.lease, 1, "again")
          assert.deepStrictEqual(yield* pruned, [1, 1], "the checkpoint is recorded")

          const repeated = yield* worked()
          yield* putText(repeated.lease, 1, "first")
          yield* putText(repeated.lease, 1, "second")
          assert.deepStrictEqual(yield* pruned, [1, 1], "a later put replaced it")
        }))
  )
}

export const suites = () => [
  CheckpointsContract.suite("sqlite", layer),
  ForksContract.suite("sqlite", layer),
  DeletionContract.suite("sqlite", layer),
  SetupsContract.suite("sqlite", layer),
  leftovers()
]
