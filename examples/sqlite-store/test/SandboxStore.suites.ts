import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import * as AuditLogContract from "@slipway/testing/contracts/access/AuditLogContract"
import { limited, MAX_ACTIVE, suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import { assert } from "@slipway/testing/suite/Assert"
import { define } from "@slipway/testing/suite/Suite"
import { Effect, Layer } from "effect"
import { MaxOpsBeforeYield } from "effect/Scheduler"
import { Database } from "../src/Database.ts"
import * as Durability from "./Durability.suites.ts"
import { layer } from "./Fixture.ts"

const transactions = () =>
  define(
    "Transactions (sqlite)",
    Layer.empty,
    (it) =>
      it.effect("all of a transaction is stored, or nothing of it, while other fibers write", () =>
        Effect.gen(function*() {
          const database = yield* Database.open(":memory:")
          const append = (at: number) => database.save("audit", [{ at, entry: "" }])
          const [refused] = yield* Effect.all([
            Effect.flip(database.transaction(Effect.andThen(append(1), Effect.fail("refused")))),
            database.transaction(Effect.andThen(append(2), append(3)))
          ], { concurrency: 2 })
          assert.strictEqual(refused, "refused")
          const rows = yield* database.all<{ readonly at: number }>("SELECT at FROM audit ORDER BY seq", {})
          assert.deepStrictEqual(rows.map(({ at }) => at), [2, 3])
          // Each fiber makes room for the others as often as it can.
        }).pipe(Effect.provideService(MaxOpsBeforeYield, 3)))
  )

export const suites = () => [
  suite("sqlite", layer),
  limited("sqlite", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE)))),
  AuditLogContract.suite("sqlite", layer),
  transactions(),
  ...Durability.suites()
]
