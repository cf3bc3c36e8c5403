/**
 * Many writers, some rolled back, and readers that follow by their cursor. `FEED_WRITES=33600` makes
 * 30,000 events.
 * One of the readers is `examples/partner-consumer`, to whom its network and its database are unkind.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { faultOf, reader } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { Deferred, Effect, Fiber, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { Page } from "../../../../examples/partner-consumer/src/Feed.ts"
import { makeLedger } from "../../../../examples/partner-consumer/src/Ledger.ts"
import { recover } from "../../../../examples/partner-consumer/src/Recovery.ts"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as PartnerStorePostgres from "../src/partner-store/PartnerStorePostgres.ts"
import { database } from "./Stores.ts"

/** Writes of each of 16 writers; nine of ten are kept. */
const EACH = Number(process.env["FEED_WRITES"] ?? 1920) / 16
const PAGE = 100

const layer = Layer.mergeAll(PartnerStorePostgres.layer, Access.layer).pipe(
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

/** Up to 20 ms on the server, now and then. */
const linger = (sql: SqlClient.SqlClient, n: number) => Effect.when(sql`SELECT pg_sleep(random() * 0.02)`, Effect.succeed(n % 10 === 7))

/** `write` in a transaction that takes a moment to end, and is rolled back unless it is to be kept. */
const ending = <A, E, R>(sql: SqlClient.SqlClient, write: Effect.Effect<A, E, R>, n: number, kept: boolean) =>
  write.pipe(
    Effect.andThen(linger(sql, n)),
    Effect.andThen(kept ? Effect.void : Effect.fail("rolled back" as const)),
    sql.withTransaction,
    Effect.catchIf((error) => error === "rolled back", () => Effect.void)
  )

class Crash extends Error {}

/**
 * The consumer's own loop on a database of its own. Of every ten pages one never comes, one is an old one, one crashes it
 * in the middle, and one when it was just committed: then it is started again. A page's `leadId` is the fact.
 */
const consumer = <E>(read: (after: number) => Effect.Effect<Page, E>) =>
  Effect.gen(function*() {
    const url = yield* TestPostgres.database(Layer.empty)
    const ledger = yield* Effect.acquireRelease(Effect.promise(() => makeLedger(url, () => {})), (ledger) =>
      Effect.promise(() => ledger.close()))
    const facts = new Map<string, number>()
    let old: Page | null = null
    let pages = 0
    const readPage = async (after: number) => {
      pages++
      if (pages % 10 === 2) {
        throw new Crash("the network")
      }
      if (pages % 10 === 4 && old !== null) {
        return old
      }
      const page = await Effect.runPromise(read(after))
      for (const { data, id } of page.data) {
        facts.set(id, Number(data.leadId))
      }
      if (page.data.length > 0) {
        old = page
      }
      return page
    }
    const process = async (page: Page) => {
      if (pages % 10 === 6) {
        const half = page.data.slice(0, Math.ceil(page.data.length / 2))
        await ledger.process({
          ...page,
          data: half.map((event, i) =>
            i < half.length - 1 ? event : { ...event, id: "no UUID" }
          )
        }).catch(
          () => {}
        )
        throw new Crash("within a page")
      }
      await ledger.process(page)
      if (pages % 10 === 8) throw new Crash("after the commit")
    }
    const life = Effect.promise(() =>
      recover(readPage, { cursor: ledger.cursor, process }, new AbortController().signal).then(() => true, (error: unknown) => {
        if (error instanceof Crash) return false
        throw error
      })
    )
    return Effect.fnUntraced(function*(isOver: Effect.Effect<boolean>) {
      for (;;) {
        const last = yield* isOver
        const sawAll = yield* life
        if (last && sawAll) break
      }
      const processed = yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const events = yield* sql<
          { readonly id: string; readonly sequence: bigint }
        >`SELECT id, sequence FROM slipway_events ORDER BY place`
        const cursors = yield* sql<{ readonly cursor: bigint }>`SELECT cursor FROM slipway_cursor`
        assert.strictEqual(cursors[0]?.cursor, events.at(-1)?.sequence)
        return events
      }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })), Effect.orDie)
      return processed.map(({ id, sequence }) => ({ sequence: Number(sequence), n: facts.get(id) ?? NaN }))
    })
  })

const onWire = Schema.encodeSync(Schema.Array(PartnerEvent))

it.layer(layer)("a feed under fire", (it) => {
  it.effect("nothing is missed, nothing comes twice, the order is kept and the numbers are 1 to n", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PartnerStore
      const ids = yield* Ids
      const { grant } = yield* (yield* Access).createGrant("fire")
      const read = (after: number) => store.feed(grant.id, after, PAGE)
      const plain = reader((after) =>
        Effect.map(read(after), (events) => events.map(({ data: { leadId }, sequence }) => ({ sequence, n: Number(leadId) })))
      )
      const partner = yield* consumer((after) =>
        Effect.map(read(after), (events) => ({ data: onWire(events), nextCursor: events.at(-1)?.sequence ?? after }))
      )
      const fault = yield* faultOf({
        write: (n, kept) =>
          Effect.flatMap(ids.uuid7, (claimId) =>
            ending(sql, store.createClaim({ claimId, grantId: grant.id, leadId: `${n}`, variant: "a", creditAmount: 1 }), n, kept)),
        readers: [partner, plain, plain, plain]
      }, EACH)
      assert.isNull(fault)
    }), 600_000)

  it.effect(
    "the same consumer misses an event whose number was taken from a sequence before that of one committed earlier",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        CREATE TABLE naive (
          sequence integer GENERATED ALWAYS AS IDENTITY, id uuid NOT NULL DEFAULT gen_random_uuid(), n integer NOT NULL
        )`
        const partner = yield* consumer((after) =>
          Effect.map(
            sql<{ readonly id: string; readonly sequence: number; readonly n: number }>`
            SELECT id, sequence, n FROM naive WHERE sequence > ${after} ORDER BY sequence`,
            (rows) => ({
              data: rows.map(({ id, n, sequence }) => ({ id, sequence, type: "task.started", data: { leadId: `${n}` }, createdAt: "" })),
              nextCursor: rows.at(-1)?.sequence ?? after
            })
          )
        )
        const add = (n: number) => sql`INSERT INTO naive (n) VALUES (${n})`
        const isAdded = yield* Deferred.make<void>()
        const isRead = yield* Deferred.make<void>()
        const late = yield* Effect.forkChild(
          sql.withTransaction(Effect.all([add(1), Deferred.succeed(isAdded, undefined), Deferred.await(isRead)]))
        )
        yield* Deferred.await(isAdded)
        yield* add(2)
        assert.deepStrictEqual((yield* partner(Effect.succeed(true))).map(({ n }) => n), [2])
        yield* Deferred.succeed(isRead, undefined)
        yield* Fiber.join(late)
        assert.deepStrictEqual((yield* partner(Effect.succeed(true))).map(({ n }) => n), [2])
      }),
    600_000
  )
})
