import { assert, it } from "@effect/vitest"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as HintsPostgres from "@slipway/adapters/postgres/HintsPostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/adapters/postgres/SandboxStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import { Ids } from "@slipway/domain/Ids"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { type CommandResult, interrupt, sendMessage } from "@slipway/domain/sandbox/Command"
import { IdempotencyKey, RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import { turnId } from "@slipway/domain/SandboxId"
import * as LeasesContract from "@slipway/domain/testing/LeasesContract"
import { at, drive, keyOf, running, StoreFixture } from "@slipway/domain/testing/SandboxStates"
import { limited, MAX_ACTIVE, suite } from "@slipway/domain/testing/SandboxStoreContract"
import * as UpkeepContract from "@slipway/domain/testing/UpkeepContract"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as LeasesPostgres from "../../src/postgres/LeasesPostgres.ts"
import * as UpkeepPostgres from "../../src/postgres/UpkeepPostgres.ts"

const Fixture = Layer.effect(
  StoreFixture,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const access = yield* Access
    const ids = yield* Ids
    return StoreFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      ageLease: (id, seconds) =>
        Effect.orDie(
          Effect.asVoid(sql`UPDATE sandboxes SET lease_until = lease_until - make_interval(secs => ${seconds}) WHERE id = ${id}`)
        ),
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      ageKeys: (grantId, until) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE idempotency_keys SET created_at = created_at - make_interval(
            days => ${until === "before" ? RETENTION_DAYS : 0}, mins => ${until === "before" ? -1 : 2})
          WHERE grant_id = ${grantId}`))
    })
  })
)

const layer = Layer.mergeAll(SandboxStorePostgres.layer, LeasesPostgres.layer, UpkeepPostgres.layer, Fixture).pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)
LeasesContract.suite("postgres", layer)
UpkeepContract.suite("postgres", layer)
limited("postgres", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE))))

it.live(
  "a message whose receipt a process of an earlier version wrote is answered with its turn, and keeps it",
  () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sql = yield* SqlClient.SqlClient
      const { ids, sandbox, turn } = yield* running
      const key = keyOf(sandbox)
      const send = (n: number) =>
        store.command(key, sendMessage(ids, `${n}`, "user-2"), at, { key: IdempotencyKey.make(`turn-${n}`), fingerprint: `1:${n}` })
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const sent: Array<{ readonly result: CommandResult; readonly turnId: string | null }> = []
      for (const n of [2, 3, 4]) {
        const { result, turnId } = yield* send(n)
        sent.push({ result: { ...result, outcome: "duplicate" }, turnId })
        yield* store.command(key, interrupt(ids), at)
      }
      yield* sql`UPDATE commands SET turn_id = NULL WHERE sandbox_id = ${sandbox.id}`
      const again = Effect.forEach([2, 3, 4], (n) => Effect.map(send(n), ({ result, turnId }) => ({ result, turnId })))
      assert.deepStrictEqual(sent.map(({ turnId }) => turnId), [2, 3, 4].map((n) => turnId(ids, sandbox.id, n)))
      assert.deepStrictEqual(yield* again, sent)
      yield* sql`DELETE FROM sandbox_events WHERE sandbox_id = ${sandbox.id}`
      assert.deepStrictEqual(yield* again, sent)
    }).pipe(Effect.provide(layer)),
  30_000
)

it.live("judges what is due by the database's clock, whatever that of the process says", () =>
  Effect.gen(function*() {
    const upkeep = yield* Upkeep
    const own = yield* Clock.Clock
    for (const days of [-400, 400]) {
      const millis = () => own.currentTimeMillisUnsafe() + days * 86_400_000
      const [{ now: due }, now] = yield* Effect.all([upkeep.due(1), upkeep.now]).pipe(
        Effect.provideService(
          Clock.Clock,
          Object.assign(Object.create(own), { currentTimeMillisUnsafe: millis, currentTimeMillis: Effect.sync(millis) })
        )
      )
      for (const told of [due, now]) assert.isBelow(Math.abs(told.epochMilliseconds - Date.now()), 60_000)
    }
  }).pipe(Effect.provide(layer)), 30_000)
