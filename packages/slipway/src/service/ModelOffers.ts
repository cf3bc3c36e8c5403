/**
 * The models that creations may choose, over all processes. Workers report the models that they can run, and other processes read the
 * reports.
 */
import { type Catalogue, offeredBy, type Offer } from "@slipway/domain/models/schema/ModelCatalogue"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Effect, Schedule } from "effect"
import type { Models } from "./Models.ts"

const REFRESH = "5 seconds"

/** Callers that wait for the database report its failures. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.ignoreCause(Effect.tapError(self, (error) => Effect.logDebug("the workers' offers", error)))

export const offerOf = ({ catalogue: { models, unusable = [] } }: Models): Offer => ({ usable: models.map(({ id }) => id), unusable })

/** Reports this worker's models until the scope closes. */
export const announce = Effect.fn("ModelOffers.announce")(function*(worker: string, models: Models) {
  const offers = yield* WorkerOffers.make
  const publish = surviving(offers.publish(worker, offerOf(models)))
  yield* publish
  yield* Effect.addFinalizer(() => surviving(offers.withdraw(worker)))
  yield* publish.pipe(Effect.repeat(Schedule.spaced(`${WorkerOffers.HEARD_SECONDS} seconds`)), Effect.forkScoped)
})

/**
 * The present catalogue: the models of `everything` that some process can run. `own`: the models of this process, when they are known;
 * `null`: it never runs any.
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
    // Other waiting code reports the failure.
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
