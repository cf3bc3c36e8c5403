/** Restores the folders that an earlier setup with the same key filled, or runs the setup and keeps the folders for the next one. */
import { type CachePlace, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { Duration, Effect, Exit, Option, Scope } from "effect"
import * as CacheFiles from "./CacheFiles.ts"

interface Wanted {
  readonly folders: CacheFiles.Folders
  readonly place: CachePlace
  /** Whether the folders that this setup fills may be kept for other sandboxes. */
  readonly mayFill: boolean
  /** How long to wait for another sandbox that fills the cache: as long as its setup may take. */
  readonly patience: Duration.Input
  /** Runs before the folders are restored. */
  readonly clear: Effect.Effect<void>
  /** The time left for packing or unpacking. */
  readonly left: Effect.Effect<Duration.Duration>
}

/** `hit`: the setup did not run. `none`: this machine has no caches, or the cache could not be restored. */
type Done<A> = { readonly cache: "hit" } | { readonly cache: "miss" | "none"; readonly result: A }

/** The most time for packing or unpacking. */
const WITHIN = Duration.minutes(5)

const tooSlow = Effect.suspend(() => new CacheFiles.CacheFilesFailed({ detail: "they take too long." }))

/** Looks without waiting. On a miss the turn passes to the next sandbox in line, because this one may not fill the cache. */
const look = Effect.fnUntraced(function*(caches: SetupCaches["Service"], place: CachePlace) {
  const turn = yield* Scope.fork(yield* Effect.scope)
  const found = yield* Scope.provide(caches.find(place, 0), turn)
  if (found._tag === "Miss") yield* Scope.close(turn, Exit.interrupt())
  return found
})

/**
 * Runs `setup` unless a cache has its folders. Of many sandboxes with the same place one runs it and the others wait. The folders
 * are kept if `wentWell`. A cache that cannot be kept is logged and costs only the next sandbox's time.
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
