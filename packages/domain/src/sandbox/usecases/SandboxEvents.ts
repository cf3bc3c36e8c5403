/** Reading a sandbox's log: pages for gaps, and a live stream that never skips or repeats (docs/decisions/5). */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as RcMap from "effect/RcMap"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Principal } from "../../access/schema/Principal.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { Hints } from "../../store/Hints.ts"
import { mayBeCut, readPage } from "../../store/Page.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { Counter } from "../../text/Text.ts"
import { Appended, bytesOf, type LogEntry, type SandboxNotFound, SandboxStore } from "../ports/SandboxStore.ts"
import { isSettled, type Sandbox } from "../rules/Sandbox.ts"
import type { SandboxStatus } from "../rules/SandboxEvent.ts"
import { fromWire } from "../schema/SandboxEvent.ts"

/** The cursor is beyond the newest event. */
export class CursorAhead extends Schema.TaggedError<CursorAhead>()("CursorAhead", {}) {
  override get message() {
    return "The cursor is ahead of the newest event."
  }
}
/** Events after the cursor are deleted. Start again from a snapshot. */
export class CursorExpired extends Schema.TaggedError<CursorExpired>()("CursorExpired", {}) {
  override get message() {
    return "Events at this cursor are no longer kept."
  }
}

const readCursor = reader(Schema.NullOr(Counter), "after")

/** The most events of one read (docs/decisions/12). */
export const PAGE = 100

/**
 * Characters of the log that one reader may hold while its consumer is slow, except for a single larger event. Pages of large events
 * are shorter. A character may take two bytes here, two in its frame, and two in the socket's buffer.
 */
const PAGE_CHARACTERS = 128 * 1024
/** Events of the first page, before their size is known. */
const FIRST_PAGE = 4

/** Concurrent page reads. Without a limit, readers that reconnect at the same time would take all database connections. */
const PAGES_AT_ONCE = 4

/** Readers that get new events before other work may run: a write to a socket takes about 20 µs. */
const TOLD_AT_ONCE = 256

/** A non-empty page. */
export interface Entries {
  readonly _tag: "Entries"
  readonly entries: ReadonlyArray<LogEntry>
  /** All readers that have caught up get the same array. */
  readonly isShared: boolean
}

/** The news of a reader, in order. */
export type News =
  /** The first frame of a new connection: everything up to and including `sandbox.lastSeq`. */
  | { readonly _tag: "Snapshot"; readonly sandbox: Sandbox }
  /** The present status, after the reader has caught up. Not part of the log. */
  | { readonly _tag: "Status"; readonly status: SandboxStatus }
  | Entries

/** A frame of a stream. */
export type Frame =
  | News
  /** No news, but the consumer asked to be woken. */
  | { readonly _tag: "Idle" }

/** A position in a sandbox's log. It holds at most {@link PAGE} events that were not taken yet. */
export interface Reading {
  /**
   * Takes the next news if it is in memory. `unread`: call `read` for more. `waiting`: everything was taken; `onChange` says when to
   * ask again. `over`: the last event of an ended sandbox was taken.
   */
  next(): News | "unread" | "waiting" | "over"
  /** Reads the next page of the log. */
  readonly read: Effect.Effect<void, StoreUnavailable>
  /**
   * Calls the listener whenever the log may have grown, until the scope closes. Other readers wait until it returns, so it must be fast
   * and must not throw. It replaces the previous listener.
   */
  onChange(listener: () => void): void
}

/** One reader of a sandbox's log. */
export interface Following {
  /** The sandbox when the stream was opened. */
  readonly sandbox: Sandbox
  /** The sandbox has ended and the reader has all events, so there is nothing to read. */
  readonly nothingLeft: boolean
  /** For writers to many readers, without a fiber for each. */
  readonly reading: Reading
  /** The same as a stream, for other callers. It takes over `onChange` of `reading`. */
  readonly frames: Stream.Stream<Frame, StoreUnavailable>
  /** Makes the next frame come at once: an `Idle` frame if there is no news. */
  readonly wake: () => void
}

/** The logs of sandboxes, for callers who may see them. */
export class SandboxEvents extends Context.Service<SandboxEvents, {
  /** Durable events after `after`, ascending. */
  list(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<LogEntry>,
    CursorAhead | CursorExpired | InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** Follows the log from `after`, or from a new snapshot, until the scope closes. */
  follow(by: Principal, id: SandboxId, after: number | null): Effect.Effect<
    Following,
    CursorAhead | CursorExpired | InvalidRequest | SandboxNotFound | StoreUnavailable,
    Scope.Scope
  >
  /** The events after `after` (default: 0, all), as they come, one by one. Ends after the last event of an ended sandbox. */
  entries(by: Principal, id: SandboxId, after?: number): Stream.Stream<
    LogEntry,
    CursorAhead | CursorExpired | InvalidRequest | SandboxNotFound | StoreUnavailable
  >
}>()("@slipway/domain/SandboxEvents") {
  static readonly layer = Layer.effect(
    SandboxEvents,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const pages = Semaphore.makeUnsafe(PAGES_AT_ONCE)
      const tails = yield* RcMap.make({
        lookup: Effect.fnUntraced(function*(id: SandboxId) {
          const tail = new Tail((after, limit) => store.log(id, after, limit))
          yield* hints.listen(id, (note) => tail.hint(note))
          yield* Effect.forkScoped(Effect.forever(tail.advance))
          return tail
        })
      })

      const find = Effect.fnUntraced(function*(by: Principal, id: SandboxId, after: number | null) {
        const sandbox = yield* store.find({ grantId: by.grantId, id })
        return after !== null && after > sandbox.lastSeq ? yield* new CursorAhead() : sandbox
      })

      /**
       * The position where reading after the cursor begins; 0: before the oldest stored event. Call it after the log was read, so that
       * a purge in between is noticed.
       */
      const begin = Effect.fnUntraced(function*({ completedAt, id, lastSeq }: Sandbox, after: number) {
        // Only logs of ended sandboxes are purged, and a reader that has everything misses nothing.
        if (completedAt === null || after === lastSeq) return after
        const purged = yield* store.purged(id)
        return after > 0 && after < purged ? yield* new CursorExpired() : Math.max(after, purged)
      })

      const events = SandboxEvents.of({
        list: Effect.fn("SandboxEvents.list")(function*(by, id, page) {
          const { after, limit } = yield* Effect.fromResult(readPage(page))
          const sandbox = yield* find(by, id, after)
          const entries = yield* store.log(id, after, limit)
          yield* begin(sandbox, after)
          return entries
        }),
        follow: Effect.fn("SandboxEvents.follow")(function*(by, id, asked) {
          const after = yield* Effect.fromResult(readCursor(asked))
          const tail = yield* RcMap.get(tails, id)
          // Listen before reading, so that no hint is missed between the two.
          const bell = yield* tail.bell
          const sandbox = yield* find(by, id, after)
          tail.knows(sandbox.lastSeq)
          const from = after === null ? sandbox.lastSeq : yield* begin(sandbox, after)
          const reading = new Reader(tail, bell, pages, sandbox, from, after === null)
          return {
            sandbox,
            nothingLeft: after !== null && from === sandbox.lastSeq && isSettled(sandbox.status),
            reading,
            ...streamOf(reading)
          }
        }),
        entries: (by, id, after = 0) =>
          Stream.unwrap(Effect.map(events.follow(by, id, after), ({ frames }) => frames)).pipe(
            Stream.flatMap((frame) => Stream.fromIterable(frame._tag === "Entries" ? frame.entries : []))
          )
      })
      return events
    })
  )
}

const streamOf = (reading: Reading): Pick<Following, "frames" | "wake"> => {
  let woken = false
  let changed: Latch.Latch | null = null
  const next = Effect.gen(function*(): Effect.fn.Return<readonly [Frame, void] | undefined, StoreUnavailable> {
    if (changed === null) {
      const latch = changed = Latch.makeUnsafe(false)
      reading.onChange(() => latch.openUnsafe())
    }
    for (;;) {
      const next = reading.next()
      if (next === "over") return undefined
      if (next === "unread") yield* reading.read
      else if (next !== "waiting") return [next, undefined]
      else if (woken) {
        woken = false
        return [{ _tag: "Idle" }, undefined]
      } else {
        yield* changed.await
        changed.closeUnsafe()
      }
    }
  })
  return {
    frames: Stream.unfold(undefined, () => next),
    wake: () => {
      woken = true
      changed?.openUnsafe()
    }
  }
}

/** Records that the log may have grown. */
class Bell {
  /** Since the last check. */
  rung = false
  listener = () => {}
  ring() {
    this.rung = true
    this.listener()
  }
}

class Reader implements Reading {
  readonly #tail: Tail
  readonly #bell: Bell
  readonly #pages: Semaphore.Semaphore
  #cursor: number
  #status: SandboxStatus
  /** Events of the next page. */
  #page = FIRST_PAGE
  #read: ReadonlyArray<LogEntry> | null = null
  #isUnread: boolean
  /** The snapshot for a new reader, until it is taken. */
  #snapshot: Sandbox | null
  #showsStatus = true

  constructor(tail: Tail, bell: Bell, pages: Semaphore.Semaphore, sandbox: Sandbox, from: number, isFresh: boolean) {
    this.#tail = tail
    this.#bell = bell
    this.#pages = pages
    this.#cursor = from
    this.#status = sandbox.status
    this.#isUnread = from !== sandbox.lastSeq
    this.#snapshot = isFresh ? sandbox : null
  }

  onChange(listener: () => void) {
    this.#bell.listener = listener
  }

  next() {
    if (this.#snapshot !== null) {
      const sandbox = this.#snapshot
      this.#snapshot = null
      return { _tag: "Snapshot", sandbox } as const
    }
    if (this.#read !== null) {
      const entries = this.#read
      this.#read = null
      return this.#taken(entries, false)
    }
    if (this.#isUnread) return "unread"
    if (this.#showsStatus) {
      this.#showsStatus = false
      return { _tag: "Status", status: this.#status } as const
    }
    if (isSettled(this.#status)) return "over"
    if (!this.#bell.rung) return "waiting"
    this.#bell.rung = false
    const entries = this.#tail.after(this.#cursor)
    if (entries !== undefined) return entries.length === 0 ? "waiting" : this.#taken(entries, true)
    this.#isUnread = true
    return "unread"
  }

  get read() {
    return Effect.map(this.#pages.withPermits(1)(this.#tail.read(this.#cursor, this.#page)), (found) => {
      const entries = bounded(found)
      this.#isUnread = entries.length < found.length || mayFollow(found, this.#page)
      if (entries.length === 0) return
      this.#read = entries
      this.#page = Math.max(1, Math.min(PAGE, Math.floor(PAGE_CHARACTERS * entries.length / charactersOf(entries))))
    })
  }

  #taken(entries: ReadonlyArray<LogEntry>, isShared: boolean): Entries {
    for (const entry of entries) {
      this.#cursor = entry.seq
      if (entry.type === "sandbox.status") this.#status = statusIn(entry) ?? this.#status
    }
    return { _tag: "Entries", entries, isShared }
  }
}

const statusIn = ({ wire }: LogEntry): SandboxStatus | undefined => {
  const { event } = fromWire(wire)
  return event.type === "sandbox.status" ? event.data.status : undefined
}

const charactersOf = (entries: ReadonlyArray<LogEntry>) => entries.reduce((characters, { wire }) => characters + wire.length, 0)

/** The first entries: one, and as many more as a reader may hold. */
const bounded = (entries: ReadonlyArray<LogEntry>): ReadonlyArray<LogEntry> => {
  let characters = 0
  const end = entries.findIndex(({ wire }, i) => (characters += wire.length) > PAGE_CHARACTERS && i > 0)
  return end === -1 ? entries : entries.slice(0, end)
}

/** Whether the log may have had more entries after the page when it was read. */
const mayFollow = (entries: ReadonlyArray<LogEntry>, limit: number) => entries.length >= limit || mayBeCut(entries, bytesOf.entry)

/**
 * The end of one sandbox's log, shared by all readers that have caught up. Events that this process commits come with the hint and are
 * passed on if they follow directly. After other hints, the log is read.
 */
class Tail {
  readonly #bells = new Set<Bell>()
  readonly read: (after: number, limit: number) => Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /** The last known event. */
  #head: number | undefined
  /** Committed entries that are not passed on yet: at most {@link PAGE} entries and {@link PAGE_CHARACTERS}. */
  #told: ReadonlyArray<LogEntry> = []
  /** The log may have more entries than the hints had. */
  #isUnread = false
  readonly #hinted = Latch.makeUnsafe(false)
  /** The newest page; `undefined`: readers must read the log themselves. */
  #page: { readonly after: number; readonly entries: ReadonlyArray<LogEntry> } | undefined

  constructor(read: (after: number, limit: number) => Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>) {
    this.read = read
  }

  /** A bell that rings whenever the log may have grown, until the scope closes. */
  readonly bell = Effect.uninterruptible(Effect.gen({ self: this }, function*() {
    const bell = new Bell()
    this.#bells.add(bell)
    // `acquireRelease` would keep the caller's context as long as the scope.
    yield* Scope.addFinalizer(yield* Effect.scope, Effect.sync(() => this.#bells.delete(bell)))
    return bell
  }))

  knows(seq: number) {
    this.#head ??= seq
  }

  /** Rings a few readers at a time, so that other work can run in between. */
  #ring() {
    return Effect.gen({ self: this }, function*() {
      let told = 0
      for (const bell of this.#bells) {
        bell.ring()
        if (++told % TOLD_AT_ONCE === 0) yield* Effect.yieldNow
      }
    })
  }

  /** Handles a hint. `note`: the note of the hint. */
  hint(note: unknown) {
    const told = note instanceof Appended && !this.#isUnread ? this.#told.concat(note.entries) : null
    const fits = told !== null && told.length <= PAGE && charactersOf(told) <= PAGE_CHARACTERS
    this.#told = fits ? told : []
    this.#isUnread = !fits
    this.#hinted.openUnsafe()
  }

  /** Waits for hints and tells the readers of a page. In case of a store failure the readers get the error themselves. */
  readonly advance = Effect.gen({ self: this }, function*() {
    yield* this.#hinted.await
    this.#hinted.closeUnsafe()
    // The commit does not wait for readers, and later commits go out together with it.
    yield* Effect.yieldNow
    const after = this.#head
    const told = after === undefined ? [] : this.#told.filter(({ seq }) => seq > after)
    const follows = after !== undefined && told.every(({ seq }, i) => seq === after + 1 + i)
    const isUnread = this.#isUnread || !follows
    this.#told = []
    this.#isUnread = false
    if (isUnread) {
      const read = after === undefined ? undefined : yield* Effect.exit(this.read(after, PAGE))
      const entries = read !== undefined && Exit.isSuccess(read) ? read.value : undefined
      if (entries !== undefined && mayFollow(entries, PAGE)) this.hint(undefined)
      this.#page = after === undefined || entries === undefined ? undefined : { after, entries }
    } else if (told.length > 0) this.#page = { after, entries: told }
    else return
    this.#head = this.#page?.entries.at(-1)?.seq ?? after
    yield* this.#ring()
  })

  /** The entries of the newest page after the cursor; `undefined`: not known here. */
  after(cursor: number): ReadonlyArray<LogEntry> | undefined {
    const page = this.#page
    if (page === undefined || cursor < page.after) return undefined
    return cursor === page.after ? page.entries : page.entries.filter(({ seq }) => seq > cursor)
  }
}
