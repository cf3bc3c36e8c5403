/** Two ways to test a store: the rules of its port, and any life of a sandbox at all. */
import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId, ID_ALPHABET } from "@slipway/domain/ids/SandboxId"
import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/sandbox/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as LeasesContract from "@slipway/testing/contracts/sandbox/LeasesContract"
import * as MaintenanceContract from "@slipway/testing/contracts/sandbox/MaintenanceContract"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import { createdAt, hostile, legal, play, type Plan } from "@slipway/testing/histories/Histories"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Effect, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import * as CachedStore from "../src/CachedStore.ts"

const storeOver = (memory: typeof SandboxStoreMemory.layer) =>
  CachedStore.layer.pipe(
    Layer.provideMerge(memory),
    Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
  )
const Store = storeOver(SandboxStoreMemory.layer)

// 1. The contract suite. The fixture says what only this technology can do: here, time is the test clock's.

/** Its leases are of the memory beneath it: `rows` lets one of them age alone. */
const fixture = (all: SandboxRows.SandboxRows) =>
  Layer.effect(
    StoreFixture,
    Effect.gen(function*() {
      const ids = yield* Ids
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
        ageKeys: (_grantId, until) => TestClock.adjust(until === "before" ? `${RETENTION_DAYS} days` : "1 millis"),
        // What a process with other limits does to the same rows.
        under: (limits, use) =>
          Effect.scopedWith((scope) =>
            Effect.gen(function*() {
              const other = storeOver(SandboxStoreMemory.over(all)).pipe(Layer.provide(Layer.succeed(Policy, limits)))
              return yield* Effect.provideContext(use, Context.pick(SandboxStore, Maintenance)(yield* Layer.buildWithScope(other, scope)))
            })
          )
      })
    })
  )
const layer = Layer.unwrap(Effect.sync(() => {
  const rows = SandboxRows.make()
  return fixture(rows).pipe(Layer.provideMerge(storeOver(SandboxStoreMemory.over(rows))))
}))
register(suite("cached", layer))
register(LeasesContract.suite("cached", layer))
register(MaintenanceContract.suite("cached", layer))

// 2. Arbitrary histories: whatever is done to a sandbox, the store knows what the pure rules make of it.
it.layer(Store)("every history", (it) => {
  const agrees = Effect.fnUntraced(function*(plan: Plan) {
    const store = yield* SandboxStore
    const ids = yield* Ids
    const history = play(plan)
    // The store has no checkpoint that a fork could start from.
    if (history.creation.origin !== null) return
    const key = { id: SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`), grantId: history.creation.grantId }
    yield* store.create({ creation: { ...history.creation, id: key.id }, keyed: null })
    for (const { after, events, now } of history.moments) {
      yield* store.change(key.id, "policy", () => Result.succeed(events), now)
      const { id: _, ...found } = yield* store.find(key)
      const { id: __, ...expected } = after
      assert.deepStrictEqual(found, expected)
    }
    const log = (yield* store.log(key.id, 0, 100_000)).map(({ wire }) => fromWire(wire))
    assert.deepStrictEqual(log.map(({ event }) => event.type), history.log.map(({ event }) => event.type))
    assert.deepStrictEqual(log[0]?.at, createdAt)
  })

  it.effect.prop("of sensible people is kept as the rules have it", [legal], ([plan]) => agrees(plan), { arbitrary: { runs: 200 } })
  it.effect.prop("of hostile people is kept as the rules have it", [hostile], ([plan]) => agrees(plan), { arbitrary: { runs: 200 } })
})
