import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/Ids"
import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { terminate } from "@slipway/domain/sandbox/Command"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import * as BoardContract from "@slipway/domain/testing/BoardContract"
import * as CheckpointsContract from "@slipway/domain/testing/CheckpointsContract"
import * as ForksContract from "@slipway/domain/testing/ForksContract"
import { creation } from "@slipway/domain/testing/Histories"
import * as LeasesContract from "@slipway/domain/testing/LeasesContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { StoreFixture } from "@slipway/domain/testing/SandboxStates"
import { limited, MAX_ACTIVE, suite } from "@slipway/domain/testing/SandboxStoreContract"
import * as SetupsContract from "@slipway/domain/testing/SetupsContract"
import * as UpkeepContract from "@slipway/domain/testing/UpkeepContract"
import * as WorkersContract from "@slipway/domain/testing/WorkersContract"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scheduler from "effect/Scheduler"
import { TestClock } from "effect/testing"

const KEPT = Duration.days(RETENTION_DAYS)

const fixture = ({ rows }: SandboxRows.SandboxRows) =>
  Layer.effect(
    StoreFixture,
    Effect.map(Ids, (ids) =>
      StoreFixture.of({
        grant: ids.uuid7,
        ageLease: (id, seconds) =>
          Effect.sync(() => {
            const row = rows.get(id)
            if (row?.leaseUntil) row.leaseUntil = DateTime.subtract(row.leaseUntil, { seconds })
          }),
        ageWork: (ids, seconds) =>
          Effect.map(DateTime.now, (now) => {
            for (const row of rows.values()) {
              if (row.workSince !== null && ids.includes(row.sandbox.id)) row.workSince = DateTime.subtract(now, { seconds })
            }
          }),
        ageKeys: (_grantId, until) => TestClock.adjust(until === "before" ? Duration.subtract(KEPT, Duration.minutes(1)) : "2 minutes")
      }))
  )

const layer = Layer.unwrap(Effect.sync(() => {
  const rows = SandboxRows.make()
  return Layer.merge(SandboxStoreMemory.over(rows), fixture(rows))
})).pipe(
  Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
)

register(suite("memory", layer))
register(LeasesContract.suite("memory", layer))
register(UpkeepContract.suite("memory", layer))
register(BoardContract.suite("memory", layer))
register(WorkersContract.suite(
  "memory",
  Layer.merge(layer, Layer.succeed(WorkersContract.WorkersFixture, { age: (seconds) => TestClock.adjust(Duration.seconds(seconds)) }))
))
register(CheckpointsContract.suite("memory", layer))
register(SetupsContract.suite("memory", layer))
register(ForksContract.suite("memory", layer))
register(limited("memory", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE)))))

it.effect("memory: no other fiber runs between what a transaction reads and what it writes", () =>
  Effect.gen(function*() {
    const store = yield* SandboxStore
    const ids = yield* Ids
    yield* store.create({ creation, keyed: null, organizationId: null })
    const now = yield* DateTime.now
    const twice = Array.from({ length: 2 }, () => store.command({ grantId: creation.grantId, id: creation.id }, terminate(ids), now))
    const answers = yield* Effect.all(twice, { concurrency: 2 })
    assert.deepStrictEqual(answers.map(({ result: { outcome } }) => outcome).toSorted(), ["applied", "duplicate"])
  }).pipe(
    // Each fiber makes room for the others as often as it can.
    Effect.provideService(Scheduler.MaxOpsBeforeYield, 3),
    Effect.provide(layer)
  ))
