/** Port: the partner feeds (decisions, section 11.3). Checked by `testing/PartnerStoreContract`. */
import { Context, type DateTime, Effect, Layer } from "effect"
import { Ids } from "../Ids.ts"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import { naturalId, type PartnerEvent, type PartnerFact } from "./PartnerEvent.ts"

/** A fact and the grant whose feed tells it. */
export interface Telling {
  readonly grantId: string
  readonly fact: PartnerFact
}

/** Checked by `testing/PartnerStoreContract`. */
export class PartnerStore extends Context.Service<PartnerStore, {
  /**
   * Events with a `sequence` greater than `after`, ascending. Numbers become visible in their order: whoever read up to
   * N finds every later event after N.
   */
  feed(grantId: string, after: number, limit: number): Effect.Effect<ReadonlyArray<PartnerEvent>, StoreUnavailable>
  /**
   * Carries out `decide` and adds to the feeds what it tells: one transaction, of which the feeds are the last part, so
   * that what holds them up is only the commit. Nothing is kept when it fails. A feed that has told a fact of this type
   * and natural id already does not tell it again. `at` is when the events are recorded.
   */
  record<A, E>(
    decide: Effect.Effect<{ readonly result: A; readonly tell: ReadonlyArray<Telling> }, E>,
    at: DateTime.Utc
  ): Effect.Effect<A, E | StoreUnavailable>
}>()("@slipway/domain/PartnerStore") {
  /** Process-local, for tests and for embedding without a database. What `decide` wrote elsewhere is not rolled back. */
  static readonly layerMemory = Layer.effect(
    PartnerStore,
    Effect.gen(function*() {
      const ids = yield* Ids
      const feeds = new Map<string, Array<PartnerEvent>>()
      return PartnerStore.of({
        feed: (grantId, after, limit) => Effect.sync(() => (feeds.get(grantId) ?? []).slice(after, after + limit)),
        record: Effect.fn("PartnerStore.record")(function*(decide, at) {
          const { result, tell } = yield* decide
          const drawn = yield* Effect.forEach(tell, (telling) => Effect.map(ids.uuid7, (id) => ({ ...telling, id })))
          for (const { fact, grantId, id } of drawn) {
            const feed = feeds.get(grantId) ?? []
            feeds.set(grantId, feed)
            if (feed.some((told) => told.type === fact.type && naturalId(told) === naturalId(fact))) continue
            feed.push({ ...fact, id, sequence: feed.length + 1, createdAt: at })
          }
          return result
        })
      })
    })
  )
}
