/** The stores of sandboxes in memory, with what their contract suites need to set the stage. */
import { Ids } from "@slipway/domain/Ids"
import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { StoreFixture } from "@slipway/domain/testing/SandboxStates"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const KEPT = Duration.days(RETENTION_DAYS)

export const fixture = ({ rows }: SandboxRows.SandboxRows) =>
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

/** Each time that it is built, over rows of its own. */
export const layer = Layer.unwrap(Effect.sync(() => {
  const rows = SandboxRows.make()
  return Layer.merge(SandboxStoreMemory.over(rows), fixture(rows))
})).pipe(
  Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
)
