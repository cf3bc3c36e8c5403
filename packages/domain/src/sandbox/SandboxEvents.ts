/** Reading a sandbox's log: pages for gaps, and a live stream that never skips or repeats (docs/decisions.md 5). */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as RcMap from "effect/RcMap"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Principal } from "../access/Principal.ts"
import { Hints } from "../Hints.ts"
import { type InvalidRequest, reader } from "../InvalidRequest.ts"
import { mayBeCut, readPage } from "../Page.ts"
import type { SandboxId } from "../SandboxId.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import { Counter } from "../Text.ts"
import { isSettled, type Sandbox } from "./Sandbox.ts"
import type { SandboxStatus } from "./SandboxEvent.ts"
import { bytesOf, type LogEntry, type SandboxNotFound, SandboxStore } from "./SandboxStore.ts"
import { fromWire } from "./schema/SandboxEvent.ts"

/** The cursor lies beyond the newest event. */
export class CursorAhead extends Schema.TaggedError<CursorAhead>()("CursorAhead", {}) {
  override get message() {
    return "The cursor is ahead of the newest event."
  }
}
/** Events at the cursor are no longer kept. Start again from a snapshot. */
export class CursorExpired extends Schema.TaggedError<CursorExpired>()("CursorExpired", {}) {
  override get message() {
    return "Events at this cursor are no longer kept."
  }
}

const readCursor = reader(Schema.NullOr(Counter), "after")

/** The most events one read takes from the log (docs/decisions.md 12). */
export const PAGE = 100

/** Characters of the log one reader may hold while its consumer is slow: pages of large events get shorter. */
const PAGE_CHARACTERS = 256 * 1024
/** Events of the first page, before their size is known. */
const FIRST_PAGE = 4

/** What a stream is made of, in order. */
export type Frame =
  /** First frame of a fresh connection: everything up to and including `sandbox.lastSeq`. */
  | { readonly _tag: "Snapshot"; readonly sandbox: Sandbox }
  /** The status as it is, once the reader has caught up. Not part of the log. */
  | { readonly _tag: "Status"; readonly status: SandboxStatus }
  | { readonly _tag: "Entries"; readonly entries: ReadonlyArray<LogEntry> }
  /** Nothing new, but the consumer asked to be woken. */
  | { readonly _tag: "Idle" }

/** A live stream of one sandbox's log. */
export interface Following {
  /** The sandbox when the stream was opened. */
  readonly sandbox: Sandbox
  /** A finished sandbox whose reader already has everything: there will be nothing to read. */
  readonly nothingLeft: boolean
  /** Reads at most {@link PAGE} events ahead of its consumer. Ends after the last event of a finished sandbox. */
  readonly frames: Stream.Stream<Frame, StoreUnavailable>
  /** The next frame comes at once: an `Idle` one when there is nothing to read. */
  wake(): void
}

/** The log of a sandbox, for those who may see it. */
export class SandboxEvents extends Context.Service<SandboxEvents, {
  /** Durable events after `after`, ascending. */
  list(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<LogEntry>,
    CursorAhead | CursorExpired | InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** Follows the log from `after`, or afresh with a snapshot. Hints are followed until the scope closes. */
  follow(by: Principal, id: SandboxId, after: number | null): Effect.Effect<
    Following,
    CursorAhead | CursorExpired | InvalidRequest | SandboxNotFound | StoreUnavailable,
    Scope.Scope
  >
}>()("@slipway/domain/SandboxEvents") {
  static readonly layer = Layer.effect(
    SandboxEvents,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const tails = yield* RcMap.make({
        lookup: Effect.fnUntraced(function*(id: SandboxId) {
          const changed = yield* hints.watch(id)
          const tail = new Tail((after) => store.log(id, after, PAGE))
          yield* Effect.forkScoped(Effect.forever(Effect.andThen(changed, tail.advance)))
          return tail
        })
      })

      const find = Effect.fnUntraced(function*(by: Principal, id: SandboxId, after: number | null) {
        const sandbox = yield* store.find({ grantId: by.grantId, id })
        return after !== null && after > sandbox.lastSeq ? yield* new CursorAhead() : sandbox
      })

      /**
       * Where reading after the cursor begins: 0 is before the oldest event that is kept. To be asked after the log was
       * read, so that a purge in the meantime shows.
       */
      const begin = Effect.fnUntraced(function*({ completedAt, id, lastSeq }: Sandbox, after: number) {
        // Only the logs of sandboxes that ended are purged, and nobody misses what they have read.
        if (completedAt === null || after === lastSeq) return after
        const purged = yield* store.purged(id)
        return after > 0 && after < purged ? yield* new CursorExpired() : Math.max(after, purged)
      })

      return SandboxEvents.of({
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
          // Watched before it is read, so that no hint falls between the two.
          const changed = yield* tail.watch
          const sandbox = yield* find(by, id, after)
          tail.knows(sandbox.lastSeq)
          const from = after === null ? sandbox.lastSeq : yield* begin(sandbox, after)

          let cursor = from
          let status = sandbox.status
          let page = FIRST_PAGE
          let caughtUp = cursor === sandbox.lastSeq
          let statusShown = false
          let woken = false

          const advance = (entries: ReadonlyArray<LogEntry>): Frame => {
            let characters = 0
            for (const entry of entries) {
              cursor = entry.seq
              characters += entry.wire.length
              if (entry.type === "sandbox.status") status = statusIn(entry) ?? status
            }
            page = Math.max(1, Math.min(PAGE, Math.floor(PAGE_CHARACTERS * entries.length / characters)))
            return { _tag: "Entries", entries }
          }

          const next = Effect.gen(function*(): Effect.fn.Return<readonly [Frame, void] | undefined, StoreUnavailable> {
            for (;;) {
              while (!caughtUp) {
                const entries = yield* store.log(id, cursor, page)
                if (entries.length > 0) return [advance(entries), undefined]
                caughtUp = true
              }
              if (!statusShown) {
                statusShown = true
                return [{ _tag: "Status", status }, undefined]
              }
              if (isSettled(status)) return undefined
              if (woken) {
                woken = false
                return [{ _tag: "Idle" }, undefined]
              }
              yield* changed.await
              changed.closeUnsafe()
              const entries = tail.after(cursor)
              if (entries === undefined) caughtUp = false
              else if (entries.length > 0) return [advance(entries), undefined]
            }
          })

          const rest = Stream.unfold(undefined, () => next)
          return {
            sandbox,
            nothingLeft: after !== null && from === sandbox.lastSeq && isSettled(sandbox.status),
            frames: after === null ? Stream.concat(Stream.succeed<Frame>({ _tag: "Snapshot", sandbox }), rest) : rest,
            wake() {
              woken = true
              changed.openUnsafe()
            }
          }
        })
      })
    })
  )
}

const statusIn = ({ wire }: LogEntry): SandboxStatus | undefined => {
  const { event } = fromWire(wire)
  return event.type === "sandbox.status" ? event.data.status : undefined
}

/** The end of one sandbox's log, read once for all its readers that have caught up. */
class Tail {
  readonly #readers = new Set<Latch.Latch>()
  readonly #read: (after: number) => Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /** The last event known of. */
  #head: number | undefined
  /** What was read last, up to the end of the log; `undefined`: readers must look for themselves. */
  #page: { readonly after: number; readonly entries: ReadonlyArray<LogEntry> } | undefined

  constructor(read: (after: number) => Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>) {
    this.#read = read
  }

  /** Opens whenever the log may have grown, until the scope closes. */
  readonly watch = Effect.acquireRelease(
    Effect.sync(() => {
      const latch = Latch.makeUnsafe(false)
      this.#readers.add(latch)
      return latch
    }),
    (latch) => Effect.sync(() => this.#readers.delete(latch))
  )

  knows(seq: number) {
    this.#head ??= seq
  }

  readonly #toTheEnd = Effect.gen({ self: this }, function*() {
    for (;;) {
      const after = this.#head
      if (after === undefined) return undefined
      const entries = yield* this.#read(after)
      this.#head = entries.at(-1)?.seq ?? after
      if (entries.length < PAGE && !mayBeCut(entries, bytesOf.entry)) return { after, entries }
    }
  })

  /** Reads on and wakes the readers. Those find out by themselves when the store is in trouble. */
  readonly advance = Effect.suspend(() =>
    Effect.map(Effect.exit(this.#toTheEnd), (read) => {
      this.#page = Exit.isSuccess(read) ? read.value : undefined
      for (const latch of this.#readers) latch.openUnsafe()
    })
  )

  /** What lies behind the cursor, as of the latest hint; `undefined`: not known here. */
  after(cursor: number): ReadonlyArray<LogEntry> | undefined {
    const page = this.#page
    if (page === undefined || cursor < page.after) return undefined
    return cursor === page.after ? page.entries : page.entries.filter(({ seq }) => seq > cursor)
  }
}
