/** The stores of sandboxes in memory, with what their contract suites need to set the stage. */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/sandbox/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Hints } from "@slipway/domain/store/Hints"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const KEPT = Duration.days(RETENTION_DAYS)

export const fixture = (all: SandboxRows.SandboxRows) =>
  Layer.effect(
    StoreFixture,
    Effect.gen(function*() {
      const ids = yield* Ids
      const services = yield* Effect.context<AuditLog | Hints | Ids>()
      const { rows } = all
      return StoreFixture.of({
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
        ageKeys: (_grantId, until) => TestClock.adjust(until === "before" ? KEPT : "1 millis"),
        under: (limits, use) =>
          Effect.scopedWith((scope) =>
            Effect.gen(function*() {
              const other = yield* Layer.buildWithScope(
                SandboxStoreMemory.over(all).pipe(
                  Layer.provide(Layer.succeed(Policy, limits)),
                  Layer.provide(Layer.succeedContext(services))
                ),
                scope
              )
              return yield* Effect.provideContext(use, Context.pick(SandboxStore, Maintenance)(other))
            })
          )
      })
    })
  )

/** Each time that it is built, over rows of its own. */
export const layer = Layer.unwrap(Effect.sync(() => {
  const rows = SandboxRows.make()
  return Layer.merge(SandboxStoreMemory.over(rows), fixture(rows))
})).pipe(
  Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
)
