/**
 * The models that creations may choose, over all processes. Workers report the models that they can run, and other processes read the
 * reports.
 */
import { type AgentIsolation, type Catalogue, type ModelSetup, offeredBy, type Offer } from "@slipway/domain/models/schema/ModelCatalogue"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Clock, Duration, Effect, Schedule } from "effect"
import { type LiveModels, readAnew, remembered } from "./Models.ts"

const REFRESH = "5 seconds"

/** How soon other processes read of a change here. */
const LOOK = "1 second"

/** Callers that wait for the database report its failures. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.ignoreCause(Effect.tapError(self, (error) => Effect.logDebug("the workers' offers", error)))

const offerOf = ({ models, unusable = [] }: Catalogue): Offer => ({ usable: models.map(({ id }) => id), unusable })

/** Reports this worker's models and isolation until the scope closes: each change, and from time to time that the worker is there. */
export const announce = Effect.fn("ModelOffers.announce")(function*(
  worker: string,
  catalogue: () => Catalogue,
  { kind, problem }: AgentIsolation
) {
  const offers = yield* WorkerOffers.make
  let [told, toldAt] = ["", 0]
  const publish = surviving(Effect.gen(function*() {
    const offer: Offer = { ...offerOf(catalogue()), isolation: { kind, problem } }
    const now = yield* Clock.currentTimeMillis
    const text = JSON.stringify(offer)
    if (text === told && now - toldAt < Duration.toMillis(Duration.seconds(WorkerOffers.HEARD_SECONDS))) return
    yield* offers.publish(worker, offer)
    told = text
    toldAt = now
  }))
  yield* publish
  yield* Effect.addFinalizer(() => surviving(offers.withdraw(worker)))
  yield* publish.pipe(Effect.repeat(Schedule.spaced(LOOK)), Effect.forkScoped)
})

/**
 * The present catalogue: the models that some process can run. `own`: the models of this process, when they are known; `null`: it never
 * runs any. `setup`: the facts about this process.
 */
export const catalogue = Effect.fn("ModelOffers.catalogue")(function*<E>(
  { everything }: LiveModels,
  own: Effect.Effect<() => Catalogue, E> | null,
  setup: () => ModelSetup
) {
  const offers = yield* WorkerOffers.make
  let ours: (() => Catalogue) | null = null
  let others: ReadonlyArray<Offer> = []
  const refresh = surviving(Effect.map(offers.current, (found) => {
    others = found
  }))
  yield* refresh
  yield* refresh.pipe(Effect.repeat(Schedule.spaced(REFRESH)), Effect.forkScoped)
  // Other waiting code reports the failure.
  if (own !== null) {
    yield* Effect.ignoreCause(Effect.map(own, (now) => {
      ours = now
    })).pipe(Effect.forkScoped)
  }
  const present = remembered((mine: Catalogue | null, theirs: ReadonlyArray<Offer>, all: Catalogue) =>
    offeredBy([...mine === null ? [] : [offerOf(mine)], ...theirs], all)
  )
  return readAnew(() => ({ ...present(ours === null ? null : ours(), others, everything()), setup: setup() }))
})
