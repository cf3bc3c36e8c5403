/** `SetupCaches` over an adapter that stores bytes. Coordinates filling and waiting, and counts results. */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { counters } from "../../observability/Metrics.ts"
import { type CacheDamaged, CacheNotKept, type CachePlace, type FoundCache, MAX_CACHE_BYTES, SetupCaches } from "../ports/SetupCaches.ts"

/** A stored cache as an adapter opens it. */
export interface KeptCache {
  readonly bytes: Stream.Stream<Uint8Array, CacheDamaged>
  readonly image: string | null
}

/** The storage of an adapter. Two calls for one place may run at the same time. */
export interface KeptCaches {
  /** Opens the complete cache and keeps it until the scope closes. */
  open(place: CachePlace): Effect.Effect<Option.Option<KeptCache>, never, Scope.Scope>
  /** Replaces the cache, or changes nothing if it fails. */
  write<E, R>(place: CachePlace, bytes: Stream.Stream<Uint8Array, E, R>): Effect.Effect<void, E | CacheNotKept, R>
  readonly makeRoom: Effect.Effect<void>
}

interface Options {
  /** The largest size of one cache, in bytes before storage. */
  readonly largest?: number
}

/** `free`: the caller neither waits nor blocks others. */
interface Ticket {
  readonly place: string
  readonly turn: Deferred.Deferred<void>
  state: "waiting" | "filling" | "look" | "free"
}

/** A name for a place, equal for equal places. Digest it for a file name. */
export const nameOf = ({ grantId, key, repo }: CachePlace): string => JSON.stringify([grantId, repo.toLowerCase(), key])

const found = counters("slipway_setup_caches_total", "Caches of setups that this worker looked for, filled and removed.", "what", [
  "hit",
  "miss",
  "fill",
  "removal",
  "damaged"
])

/** Counts an event of an adapter. */
export const count = (what: "removal" | "damaged") => found.add(what)

/** Makes `SetupCaches` from an adapter's storage. */
export const make = (kept: KeptCaches, { largest = MAX_CACHE_BYTES }: Options = {}) =>
  Effect.gen(function*() {
    yield* found.declare
    /** The queue of each place. The first caller in it fills the cache. */
    const lines = new Map<string, Array<Ticket>>()

    const enter = (place: string): Ticket => {
      const line = lines.get(place)
      const ticket: Ticket = { place, turn: Deferred.makeUnsafe(), state: line === undefined ? "filling" : "waiting" }
      if (line === undefined) lines.set(place, [ticket])
      else line.push(ticket)
      return ticket
    }
    const tell = (ticket: Ticket, state: Ticket["state"]) => {
      ticket.state = state
      Deferred.doneUnsafe(ticket.turn, Exit.void)
    }
    /** Ends the queue of a place. */
    const dismiss = (place: string, state: "look" | "free") => {
      const line = lines.get(place) ?? []
      lines.delete(place)
      for (const ticket of line) tell(ticket, ticket.state === "filling" ? "free" : state)
    }
    const leave = (ticket: Ticket) => {
      const line = lines.get(ticket.place)
      const at = line?.indexOf(ticket) ?? -1
      if (line === undefined || at === -1) return
      line.splice(at, 1)
      const [next] = line
      if (next === undefined) lines.delete(ticket.place)
      else if (ticket.state === "filling") tell(next, "filling")
      ticket.state = "free"
    }
    const isCutOff = (exit: Exit.Exit<unknown, unknown>) => Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

    const miss = (place: CachePlace, ticket: Ticket): FoundCache => ({
      _tag: "Miss",
      fill: (bytes) => {
        const bounded = Stream.mapAccumEffect(bytes, () => 0, (size, chunk) => {
          const next = size + chunk.length
          const excess = new CacheNotKept({ reason: "too_large", detail: `It has more than ${largest} bytes.` })
          return next > largest ? Effect.fail(excess) : Effect.succeed([next, [chunk]] as const)
        })
        return kept.write(place, bounded).pipe(
          Effect.tap(found.add("fill")),
          Effect.onExit((exit) =>
            Effect.sync(() => {
              if (Exit.isSuccess(exit)) dismiss(ticket.place, "look")
              else if (!isCutOff(exit) && ticket.state === "filling") dismiss(ticket.place, "free")
            })
          )
        )
      }
    })

    const take = Effect.fnUntraced(function*(place: string) {
      const ticket = enter(place)
      yield* Effect.addFinalizer((exit) =>
        Effect.sync(() => {
          if (ticket.state === "filling" && !isCutOff(exit)) dismiss(place, "free")
          else leave(ticket)
        })
      )
      return ticket
    }, Effect.uninterruptible)

    return SetupCaches.of({
      find: Effect.fn("SetupCaches.find")(function*(place, patience) {
        const name = nameOf(place)
        const look = Effect.map(kept.open(place), Option.map((cache): FoundCache => ({ _tag: "Hit", ...cache })))
        const result = yield* Effect.gen(function*() {
          for (;;) {
            const there = yield* look
            if (Option.isSome(there)) return there.value
            const ticket = yield* take(name)
            if (ticket.state === "waiting") {
              yield* Effect.timeoutOption(Effect.onInterrupt(Deferred.await(ticket.turn), () => Effect.sync(() => leave(ticket))), patience)
            }
            if (ticket.state === "look") continue
            // Looks again: another caller may have filled the cache in between.
            const filled = ticket.state === "filling" ? yield* look : Option.none()
            if (Option.isNone(filled)) return miss(place, ticket)
            dismiss(name, "look")
            return filled.value
          }
        })
        yield* found.add(result._tag === "Hit" ? "hit" : "miss")
        return result
      }),
      makeRoom: kept.makeRoom
    })
  })
