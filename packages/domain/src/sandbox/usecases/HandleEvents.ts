/**
 * Calls a handler of the embedder for the events of all sandboxes, after their commit. It reads the logs of the `SandboxStore`: hints
 * say where to read, and `Maintenance.heads` finds what no hint told of.
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { SandboxId } from "../../ids/SandboxId.ts"
import { EVERY, Hints, type Topic } from "../../store/Hints.ts"
import { type LogHead, Maintenance } from "../ports/Maintenance.ts"
import { SandboxStore } from "../ports/SandboxStore.ts"
import type { WireEvent } from "../schema/SandboxEvent.ts"

/** The position in each sandbox's log up to which events are handled. The embedder stores it, so that a restart continues there. */
export interface EventCursor<R = never> {
  /**
   * The saved position of each of these sandboxes. Without a position, handling begins with the sandbox's first stored event. The map
   * may have other sandboxes too.
   */
  load(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyMap<string, number>, unknown, R>
  /** Saves a position, after every handled event. */
  save(id: SandboxId, position: number): Effect.Effect<unknown, unknown, R>
}

/** A handler with its cursor. */
export interface EventHandler<R = never> {
  readonly cursor: EventCursor<R>
  /**
   * Handles an event. Within a sandbox, events come in the order of their `id`, one at a time; the next one comes after success. An
   * event comes again until it is handled and its position is saved, so handling must be safe to repeat. It must end: while it runs, its
   * sandbox waits. Events that were deleted before they could be handled are skipped.
   */
  readonly handle: (event: WireEvent) => Effect.Effect<unknown, unknown, R>
}

/** Events of one read. */
const PAGE = 100
/** Sandboxes whose events are read and handled at the same time: at most this many pages are in memory. */
const AT_ONCE = 16
/** Sandboxes with unhandled events that are in memory. The next look finds the others. */
const MAX_BEHIND = 1000
/** Those of them that wait after a failure. Others are given up until the next look, so that failures never take all places. */
const MAX_FAILING = MAX_BEHIND / 2
/** Heads of one read. */
const HEADS = 1000
/** A change of another process whose hint was lost is found after this time at the latest. */
const LOOK_AGAIN = Duration.seconds(30)
/** A look takes at most a tenth of the time, however many sandboxes there are. */
const REST_PER_LOOK = 9
const AFTER_FAILED_LOOK = Duration.seconds(5)

/** The wait after the nth failure in a row: from 1 s, doubled up to a minute. */
const waitAfter = (failures: number) => Duration.seconds(Math.min(60, 2 ** (failures - 1)))

/** A sandbox with unhandled events. */
interface Behind {
  /** Its log may have grown since it was read. */
  again: boolean
  /** `null`: not loaded yet. */
  position: number | null
  /** How many events were handled. */
  handled: number
}

const isSandbox = Schema.is(SandboxId)

/** The failure of the effect, also a defect; `null`: none. */
const failureOf = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<Cause.Cause<E> | null, never, R> =>
  Effect.matchCause(self, { onFailure: (cause) => cause, onSuccess: () => null })

/** The sandboxes with unhandled events, each handled by a fiber of its own. */
const makeHandling = Effect.fnUntraced(function*<R>({ cursor, handle }: EventHandler<R>) {
  const store = yield* SandboxStore
  const scope = yield* Effect.scope
  const behind = new Map<SandboxId, Behind>()
  const places = Semaphore.makeUnsafe(MAX_BEHIND)
  const slots = Semaphore.makeUnsafe(AT_ONCE)
  let failing = 0

  /** Handles the next page of the log; `false`: there was none. */
  const handlePage = Effect.fnUntraced(function*(id: SandboxId, state: Behind) {
    state.position ??= (yield* cursor.load([id])).get(id) ?? 0
    const page = yield* store.log(id, state.position, PAGE)
    for (const { seq, wire } of page) {
      yield* handle(JSON.parse(wire))
      yield* cursor.save(id, seq)
      state.position = seq
      state.handled++
    }
    return page.length > 0
  })

  const catchUp = Effect.fnUntraced(function*(id: SandboxId, state: Behind) {
    let failures = 0
    let isUnread = true
    while (isUnread || state.again) {
      state.again = false
      const before = state.handled
      const failure = yield* failureOf(
        Effect.tap(slots.withPermits(1)(handlePage(id, state)), (found) => Effect.sync(() => isUnread = found))
      )
      if (failure === null) {
        failures = 0
        continue
      }
      isUnread = true
      // After progress it is another event that fails.
      failures = state.handled === before ? failures + 1 : 1
      yield* Effect.logWarning(`Events of ${id} could not be handled. The first of them is handled again.`, failure)
      if (failing >= MAX_FAILING) break
      failing++
      yield* Effect.ensuring(Effect.sleep(waitAfter(failures)), Effect.sync(() => failing--))
    }
    // In the same step as the last check of `again`, so no hint comes between the two.
    behind.delete(id)
  })

  /** Begins to handle the sandbox's events, once there is a place for it. */
  const begin = Effect.fnUntraced(function*(id: SandboxId) {
    yield* places.take(1)
    const known = behind.get(id)
    if (known !== undefined) {
      known.again = true
      return yield* Effect.asVoid(places.release(1))
    }
    const state: Behind = { again: false, position: null, handled: 0 }
    behind.set(id, state)
    yield* Effect.forkIn(Effect.ensuring(catchUp(id, state), places.release(1)), scope)
  })
  return begin
})

/**
 * Calls the handler until the scope closes. A failure is logged and retried, after 1 s and then with growing waits up to a minute. It
 * delays only its own sandbox.
 */
const run = Effect.fnUntraced(function*<R>(handler: EventHandler<R>) {
  const maintenance = yield* Maintenance
  const hints = yield* Hints
  const begin = yield* makeHandling(handler)
  /** Sandboxes of hints that were not begun yet. */
  const hinted = new Set<SandboxId>()
  const isHinted = Latch.makeUnsafe(false)
  const looksNow = Latch.makeUnsafe(false)

  yield* hints.listen(EVERY, (_note, topic: Topic) => {
    if (topic === EVERY) return looksNow.openUnsafe()
    if (!isSandbox(topic)) return
    if (hinted.size >= MAX_BEHIND) return looksNow.openUnsafe()
    hinted.add(topic)
    isHinted.openUnsafe()
  })

  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    yield* isHinted.await
    isHinted.closeUnsafe()
    for (const id of hinted) {
      hinted.delete(id)
      yield* begin(id)
    }
  })))

  const look = Effect.gen(function*() {
    for (let after: SandboxId | null = null;;) {
      const heads: ReadonlyArray<LogHead> = yield* maintenance.heads(after, HEADS)
      const last = heads.at(-1)
      if (last === undefined) return
      const saved = yield* handler.cursor.load(heads.map(({ id }) => id))
      for (const { id, seq } of heads) if ((saved.get(id) ?? 0) < seq) yield* begin(id)
      after = last.id
    }
  })

  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    looksNow.closeUnsafe()
    const [took, failure] = yield* Effect.timed(failureOf(look))
    if (failure !== null) {
      yield* Effect.logWarning("Sandboxes with new events could not be listed. It is tried again.", failure)
      yield* Effect.sleep(AFTER_FAILED_LOOK)
    } else {
      yield* Effect.sleep(Duration.times(took, REST_PER_LOOK))
      yield* Effect.timeoutOption(looksNow.await, LOOK_AGAIN)
    }
  })))
})

/** Handles events as long as the layer lives. One process of a service should do it: in several, each event is handled in each. */
export const layer = <R = never>(handler: EventHandler<R>): Layer.Layer<never, never, Hints | Maintenance | SandboxStore | R> =>
  Layer.effectDiscard(run(handler))
