/** Reading a sandbox's log: pages for gaps, and a live stream that never skips or repeats (decisions, section 5). */
import { Context, Effect, Layer, Schema, type Scope, Stream } from "effect"
import type { Principal } from "../access/Principal.ts"
import { Hints } from "../Hints.ts"
import { isSettled, type Sandbox } from "./Sandbox.ts"
import type { SandboxId } from "./SandboxId.ts"
import { type LogEntry, type SandboxNotFound, SandboxStore, type StoreUnavailable } from "./SandboxStore.ts"

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

/** The most events one read takes from the log (decisions, section 12). */
export const PAGE = 100

/** What a stream is made of, in order. */
export type Frame =
  /** First frame of a fresh connection: everything up to and including `sandbox.lastSeq`. */
  | { readonly _tag: "Snapshot"; readonly sandbox: Sandbox }
  /** The status as it is, once the reader has caught up. Not part of the log. */
  | { readonly _tag: "Status"; readonly sandbox: Sandbox }
  | { readonly _tag: "Entries"; readonly entries: ReadonlyArray<LogEntry> }

interface Position {
  readonly cursor: number
  readonly caughtUp: boolean
  /** The log may hold the sandbox's end: only then is the sandbox itself worth a read. */
  readonly mayBeOver: boolean
}

export interface Following {
  /** A finished sandbox whose reader already has everything: there will be nothing to read. */
  readonly nothingLeft: boolean
  /** The sandbox when the stream was opened. */
  readonly sandbox: Sandbox
  /** Reads at most {@link PAGE} events ahead of its consumer. Ends after the last event of a finished sandbox. */
  readonly frames: Stream.Stream<Frame, StoreUnavailable>
}

export class SandboxEvents extends Context.Service<SandboxEvents, {
  /** Durable events after `after`, ascending. */
  list(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<LogEntry>,
    CursorAhead | CursorExpired | SandboxNotFound | StoreUnavailable
  >
  /** Follows the log from `after`, or afresh with a snapshot. Hints are followed until the scope closes. */
  follow(by: Principal, id: SandboxId, after: number | null): Effect.Effect<
    Following,
    CursorAhead | CursorExpired | SandboxNotFound | StoreUnavailable,
    Scope.Scope
  >
}>()("@slipway/domain/SandboxEvents") {
  static readonly layer = Layer.effect(
    SandboxEvents,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints

      const find = Effect.fnUntraced(function*(by: Principal, id: SandboxId, after: number | null) {
        const sandbox = yield* store.find({ grantId: by.grantId, id })
        return after !== null && after > sandbox.lastSeq ? yield* new CursorAhead() : sandbox
      })

      /** The log after `start`, page by page as the consumer takes it, then whatever is hinted. */
      const tail = (key: { readonly grantId: string; readonly id: SandboxId }, start: number, changed: Effect.Effect<void>) =>
        Stream.unfold(
          { cursor: start, caughtUp: false, mayBeOver: true },
          Effect.fnUntraced(function*(from: Position): Effect.fn.Return<readonly [Frame, Position] | undefined, StoreUnavailable> {
            let { mayBeOver } = from
            for (;;) {
              const entries = yield* store.log(key.id, from.cursor, PAGE)
              const last = entries.at(-1)
              if (last !== undefined) {
                const statusChanged = entries.some(({ type }) => type === "sandbox.status")
                return [{ _tag: "Entries", entries }, { ...from, cursor: last.seq, mayBeOver: mayBeOver || statusChanged }]
              }
              if (mayBeOver) {
                // A sandbox that was just read cannot be gone: rows outlive every stream.
                const sandbox = yield* Effect.catchTag(store.find(key), "SandboxNotFound", Effect.die)
                if (sandbox.lastSeq > from.cursor) continue
                if (!from.caughtUp) return [{ _tag: "Status", sandbox }, { ...from, caughtUp: true }]
                if (isSettled(sandbox.status)) return undefined
                mayBeOver = false
              }
              yield* changed
            }
          })
        )

      return SandboxEvents.of({
        list: Effect.fn("SandboxEvents.list")(function*(by, id, { after, limit }) {
          yield* find(by, id, after)
          return yield* store.log(id, after, limit)
        }),
        follow: Effect.fn("SandboxEvents.follow")(function*(by, id, after) {
          // Watched before it is read, so that no hint falls between the two.
          const changed = yield* hints.watch(id)
          const sandbox = yield* find(by, id, after)
          const rest = tail({ grantId: by.grantId, id }, after ?? sandbox.lastSeq, changed)
          return {
            sandbox,
            nothingLeft: after === sandbox.lastSeq && isSettled(sandbox.status),
            frames: after === null ? Stream.concat(Stream.succeed<Frame>({ _tag: "Snapshot", sandbox }), rest) : rest
          }
        })
      })
    })
  )
}
