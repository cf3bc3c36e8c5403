/** Partners lose nothing: `examples/partner-consumer`, against the real service, under what happens to processes and networks. */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/postgres/partner-store/PartnerStorePostgres"
import { Context, Effect, Fiber, Layer, Random, Redacted } from "effect"
import { folder, freePort, serve, until } from "../../../commands/SlipwayProcess.ts"
import { type Fate, make as hostileNetwork } from "./HostileNetwork.ts"
import { make as makeConsumer } from "./PartnerConsumer.ts"

const KILLS = 50
/** `SEED=…` repeats when the consumer is killed and how much happens meanwhile, as far as the machine's own timing lets it. */
const seed = process.env["SEED"] ?? `${Date.now()}`

/** A running service with one grant, a consumer of its feed, and what happens in it. */
const scene = Effect.gen(function*() {
  const databaseUrl = yield* TestPostgres.database(Migrations.layer)
  const service = yield* Layer.build(
    Layer.mergeAll(PartnerStorePostgres.layer, Access.layer).pipe(
      Layer.provideMerge(AccessStorePostgres.layer),
      Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
      Layer.provide(PgClient.layer({ url: Redacted.make(databaseUrl), startupParameters: { TimeZone: "UTC" } }))
    )
  )
  const [access, ids, store] = [Context.get(service, Access), Context.get(service, Ids), Context.get(service, PartnerStore)]
  const { grant, key } = yield* access.createKey({ grant: "partner", label: "consumer", scopes: ["sandboxes", "webhooks"], kind: "live" })
  const { url } = yield* serve(yield* folder, { DATABASE_URL: databaseUrl, SLIPWAY_WEBHOOK_PRIVATE: "true" })
  const consumer = yield* makeConsumer(Redacted.value(key))
  let claims = 0
  /** A lead gets credits: two events. */
  const happen = Effect.gen(function*() {
    const n = claims++
    const offer = { claimId: yield* ids.uuid7, grantId: grant.id, leadId: `lead ${n % 5}`, variant: "a", creditAmount: n + 1 }
    yield* store.createClaim(offer)
    yield* store.claim(offer.claimId, { recipientId: "user", organizationId: grant.organizationId })
  })
  return {
    url,
    key: Redacted.value(key),
    consumer,
    happen: (times: number) => Effect.forEach(Array.from({ length: times }), () => happen, { concurrency: 2, discard: true }),
    /** Every event was processed once, in order; nothing else was; the cursor is at the head. */
    check: Effect.gen(function*() {
      const told = yield* store.feed(grant.id, 0, 1_000_000)
      const { credits, cursor, ids, sequences } = yield* consumer.processed
      const expected: Record<string, number> = {}
      for (const { data, type } of told) {
        expected[data.leadId] = (expected[data.leadId] ?? 0) + (type === "credit_claim.claimed" ? data.creditAmount : 0)
      }
      assert.isAbove(told.length, 0)
      assert.strictEqual(cursor, told.length)
      assert.deepStrictEqual(sequences, told.map(({ sequence }) => sequence))
      assert.deepStrictEqual(ids, told.map(({ id }) => id))
      assert.deepStrictEqual(credits, expected)
      return told.length
    }),
    head: Effect.map(store.feed(grant.id, 0, 1_000_000), ({ length }) => length)
  }
})

describe("a partner's consumer", () => {
  it.live(
    `that is killed ${KILLS} times while events are recorded has processed each of them exactly once, in order`,
    () =>
      Effect.gen(function*() {
        process.stdout.write(`SEED=${seed}\n`)
        const { check, consumer, happen, url } = yield* scene
        let underWay = false
        let pages = 0
        const way = yield* hostileNetwork(url, () => "page", (events) => {
          pages += 1
          underWay = events > 0
        })
        assert.strictEqual(yield* (yield* consumer.start(way, ["--once"])).ended, 0)
        let within = 0
        for (let life = 0; life < KILLS; life++) {
          const events = yield* Random.nextIntBetween(20, 60)
          const moment = yield* Random.nextBetween(0, 60)
          const wanted = pages + (yield* Random.nextIntBetween(0, 2))
          const recording = yield* Effect.forkChild(happen(events))
          const { ended, kill } = yield* consumer.start(way)
          // Before its first page, while it works on one, or while it waits.
          yield* until(Effect.sync(() => pages), (now) => now >= wanted)
          yield* Effect.sleep(moment)
          kill("SIGKILL")
          assert.strictEqual(yield* ended, "SIGKILL")
          within += underWay ? 1 : 0
          underWay = false
          yield* Fiber.join(recording)
        }
        const last = yield* consumer.start(way, ["--once"])
        assert.deepStrictEqual([yield* last.ended, last.output()], [0, ""])
        const total = yield* check
        process.stdout.write(`${total} events, ${pages} pages, ${within} of ${KILLS} kills while the last page had events\n`)
      }).pipe(Effect.scoped, Random.withSeed(seed))
  )

  it.live("survives a 429, a 503, connections reset within a page, and pages that come again", () =>
    Effect.gen(function*() {
      const { check, consumer, happen, url } = yield* scene
      yield* happen(300)
      const fates: Array<Fate> = ["cut", "page", "again", 429, "page", 503, "cut", "again", "page", "again", "again"]
      const way = yield* hostileNetwork(url, () => fates.shift() ?? "page")
      const { ended, output } = yield* consumer.start(way, ["--once"])
      assert.strictEqual(yield* ended, 0, output())
      assert.deepStrictEqual(fates, [])
      assert.strictEqual(yield* check, 600)
      for (const told of ["429", "503", "ECONNRESET"]) assert.include(output(), told)
    }).pipe(Effect.scoped))

  it.live("ends with its transaction when it is told to, and goes on from there", () =>
    Effect.gen(function*() {
      const { check, consumer, happen, url } = yield* scene
      yield* happen(150)
      let pages = 0
      const way = yield* hostileNetwork(url, () => "page", () => pages++)
      const first = yield* consumer.start(way)
      yield* until(Effect.sync(() => pages), (now) => now > 0)
      first.kill("SIGTERM")
      assert.strictEqual(yield* first.ended, 0, first.output())
      const { cursor, sequences } = yield* consumer.processed
      assert.deepStrictEqual([sequences.length % 100, sequences.at(-1)], [0, cursor])
      const second = yield* consumer.start(way)
      yield* until(consumer.processed, ({ cursor }) => cursor === 300)
      second.kill("SIGTERM")
      assert.strictEqual(yield* second.ended, 0, second.output())
      assert.strictEqual(yield* check, 300)
    }).pipe(Effect.scoped))

  it.live("is woken by webhooks, a day before it would have looked", () =>
    Effect.gen(function*() {
      const { check, consumer, happen, key, url } = yield* scene
      const port = yield* freePort
      const registered = yield* Effect.promise(() =>
        fetch(`${url}/api/internal/v1/webhook-endpoints`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ url: `http://127.0.0.1:${port}/slipway` })
        })
      )
      const { secret } = JSON.parse(yield* Effect.promise(() => registered.text()))
      const { ended, kill, output } = yield* consumer.start(url, [], {
        POLL_SECONDS: "86400",
        WEBHOOK_PORT: `${port}`,
        WEBHOOK_SECRET: secret
      })
      for (const events of [2, 4, 6]) {
        yield* happen(1)
        yield* until(consumer.seen, (cursor) => cursor === events)
      }
      kill("SIGTERM")
      assert.strictEqual(yield* ended, 0, output())
      assert.strictEqual(yield* check, 6)
    }).pipe(Effect.scoped))

  it.live("ends at once, and says why, when its key is not valid", () =>
    Effect.gen(function*() {
      const { happen, url } = yield* scene
      yield* happen(1)
      const stranger = yield* makeConsumer("sbx_live_x")
      const { ended, output } = yield* stranger.start(url)
      assert.strictEqual(yield* ended, 1)
      assert.match(output(), /401 .*unauthorized/u)
      assert.strictEqual((yield* stranger.processed).cursor, 0)
    }).pipe(Effect.scoped))
})
