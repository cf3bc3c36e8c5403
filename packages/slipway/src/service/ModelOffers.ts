/** Which models creations may name, over all processes: workers tell what they can run, the others ask. */
import { type Catalogue, offeredBy, type Offer } from "@slipway/domain/models/schema/ModelCatalogue"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Effect, Schedule } from "effect"
import type { Models } from "./Models.ts"

const REFRESH = "5 seconds"

/** Trouble with the database is told by those who wait for it. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.ignoreCause(Effect.tapError(self, (error) => Effect.logDebug("the workers' offers", error)))

export const offerOf = ({ catalogue: { models, unusable = [] } }: Models): Offer => ({ usable: models.map(({ id }) => id), unusable })

/** Tells, until the scope closes. */
export const announce = Effect.fn("ModelOffers.announce")(function*(worker: string, models: Models) {
  const offers = yield* WorkerOffers.make
  const publish = surviving(offers.publish(worker, offerOf(models)))
  yield* publish
  yield* Effect.addFinalizer(() => surviving(offers.withdraw(worker)))
  yield* publish.pipe(Effect.repeat(Schedule.spaced(`${WorkerOffers.HEARD_SECONDS} seconds`)), Effect.forkScoped)
})

/**
 * The catalogue as it is now, whenever it is looked at, of `everything` that any process might run. `own`: what this process can run
 * itself, once that is known; `null`: nothing, ever.
 */
export const catalogue = Effect.fn("ModelOffers.catalogue")(function*<E>(everything: Catalogue, own: Effect.Effect<Offer, E> | null) {
  const offers = yield* WorkerOffers.make
  let [ours, others]: [ReadonlyArray<Offer>, ReadonlyArray<Offer>] = [[], []]
  let now = everything
  const refresh = surviving(Effect.map(offers.current, (found) => {
    others = found
    now = offeredBy([...ours, ...others], everything)
  }))
  yield* refresh
  yield* refresh.pipe(Effect.repeat(Schedule.spaced(REFRESH)), Effect.forkScoped)
  if (own !== null) {
    // Whoever waits for it as well says why there is none.
    yield* Effect.ignoreCause(Effect.map(own, (offer) => {
      ours = [offer]
      now = offeredBy([...ours, ...others], everything)
    })).pipe(Effect.forkScoped)
  }
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
