/** Which models creations may name, over all processes: workers tell what they can run, the others ask. */
import * as WorkerOffers from "@slipway/adapters/postgres/WorkerOffers"
import { type Catalogue, offeredBy, type Offer } from "@slipway/domain/models/ModelCatalogue"
import { Effect, Schedule } from "effect"
import type { Models } from "./Models.ts"

const REFRESH = "5 seconds"

/** Trouble with the database is told by those who wait for it. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.ignoreCause(Effect.tapError(self, (error) => Effect.logDebug("the workers' offers", error)))

export const offerOf = ({ catalogue: { models, unusable = [] } }: Models): Offer => ({ usable: models.map(({ id }) => id), unusable })

/** Tells, until the scope closes. */
export const announce = Effect.fn("Offers.announce")(function*(worker: string, models: Models) {
  const offers = yield* WorkerOffers.make
  const publish = surviving(offers.publish(worker, offerOf(models)))
  yield* publish
  yield* Effect.addFinalizer(() => surviving(offers.withdraw(worker)))
  yield* publish.pipe(Effect.repeat(Schedule.spaced(`${WorkerOffers.HEARD_SECONDS} seconds`)), Effect.forkScoped)
})

/** The catalogue as it is now, whenever it is looked at. `own`: what this process can run itself. */
export const catalogue = Effect.fn("Offers.catalogue")(function*(models: Models, own: Offer | null) {
  const offers = yield* WorkerOffers.make
  const merged = (others: ReadonlyArray<Offer>) => offeredBy(own === null ? others : [own, ...others], models.everything)
  let now = merged([])
  const refresh = surviving(Effect.map(offers.current, (others) => {
    now = merged(others)
  }))
  yield* refresh
  yield* refresh.pipe(Effect.repeat(Schedule.spaced(REFRESH)), Effect.forkScoped)
  const live: Catalogue = {
    get default() {
      return now.default
    },
    get models() {
      return now.models
    },
    get unusable() {
      return now.unusable ?? []
    }
  }
  return live
})
