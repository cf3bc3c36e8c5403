/** One lock per key, within this process. An unused key takes no memory. */
import { Effect, RcMap, Semaphore } from "effect"

export const make = Effect.map(
  RcMap.make({ lookup: (_key: string) => Semaphore.make(1) }),
  (locks) => (key: string) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    RcMap.get(locks, key).pipe(
      Effect.flatMap((lock) => lock.withPermits(1)(self)),
      Effect.scoped
    )
)
