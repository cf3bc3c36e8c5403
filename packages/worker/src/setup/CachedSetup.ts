/** Brings back the folders that an earlier setup of the same key filled, or lets this one fill them and keeps them for the next. */
import { type CachePlace, SetupCaches } from "@slipway/domain/environment/SetupCaches"
import { Duration, Effect, Exit, Option, Scope } from "effect"
import * as CacheFiles from "./CacheFiles.ts"

export interface Wanted {
  readonly folders: CacheFiles.Folders
  readonly place: CachePlace
  /** Whether what this setup fills may be kept for others. */
  readonly mayFill: boolean
  /** How long to wait for another sandbox that fills the cache: as long as its setup may take. */
  readonly patience: Duration.Input
  /** Before anything is brought back. */
  readonly clear: Effect.Effect<void>
  /** What packing or unpacking may take from now on. */
  readonly left: Effect.Effect<Duration.Duration>
}

/** `hit`: there was no need of setup. `none`: there is no cache here, or none that could be brought back. */
export type Done<A> = { readonly cache: "hit" } | { readonly cache: "miss" | "none"; readonly result: A }

/** What packing or unpacking takes, at most. */
const WITHIN = Duration.minutes(5)

const tooSlow = Effect.suspend(() => new CacheFiles.CacheFilesFailed({ detail: "they take too long." }))

/** Nobody waits for one who will not fill: the next in the line does. */
const look = Effect.fnUntraced(function*(caches: SetupCaches["Service"], place: CachePlace) {
  const turn = yield* Scope.fork(yield* Effect.scope)
  const found = yield* Scope.provide(caches.find(place, 0), turn)
  if (found._tag === "Miss") yield* Scope.close(turn, Exit.interrupt())
  return found
})

/**
 * Runs `setup` unless a cache has what it fills. Of many at once with the same place one runs it, and the others wait. What it
 * filled is kept if it went well; where it cannot be, that is logged and costs nothing but the next sandbox's time.
 */
export const run = <A, E, R>(
  { clear, folders, left, mayFill, patience, place }: Wanted,
  setup: Effect.Effect<A, E, R>,
  wentWell: (result: A) => boolean
): Effect.Effect<Done<A>, E, R> => {
  const without = Effect.map(setup, (result): Done<A> => ({ cache: "none", result }))
  const withinTime = <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.flatMap(left, (time) => Effect.timeoutOrElse(self, { duration: Duration.min(WITHIN, time), orElse: () => tooSlow }))

  const fill = Effect.fnUntraced(function*(caches: SetupCaches["Service"], isAgain: boolean): Effect.fn.Return<Done<A>, E, R> {
    const found = yield* Effect.scoped(Effect.gen(function*() {
      const found = yield* (mayFill ? caches.find(place, patience) : look(caches, place))
      if (found._tag === "Miss") {
        const result = yield* setup
        if (mayFill && wentWell(result)) {
          yield* withinTime(found.fill(CacheFiles.pack(folders))).pipe(
            Effect.catch((error) => Effect.logWarning("what a setup filled is not kept", { reason: error.message }))
          )
        }
        return { cache: "miss" as const, result }
      }
      yield* clear
      const isShown = found.image === null ? Effect.succeed(false) : CacheFiles.overlay(folders, found.image)
      const bringBack = Effect.flatMap(isShown, (isShown) => isShown ? Effect.void : CacheFiles.unpack(folders, found.bytes))
      return yield* withinTime(bringBack).pipe(
        Effect.as({ cache: "hit" as const }),
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning("what a setup filled could not be brought back", { reason: error.message }),
            error._tag === "CacheDamaged" ? "damaged" as const : "refused" as const
          )
        )
      )
    }))
    if (typeof found !== "string") return found
    return found === "damaged" && !isAgain ? yield* fill(caches, true) : yield* without
  })

  return Effect.flatMap(
    Effect.serviceOption(SetupCaches),
    (caches) => Option.isNone(caches) || folders.paths.length === 0 ? without : fill(caches.value, false)
  )
}
