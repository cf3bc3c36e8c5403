/** The part of a sandbox's log that one page shows: the events before a given one, as many as the page has space for. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { bytesOf, type LogEntry } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { RecordedEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { PAGE, SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { Effect } from "effect"
import type { Steps } from "../../html/Html.ts"
import * as Render from "../../html/Render.ts"
import * as Conversation from "./Conversation.ts"

/** Events of the log that one page shows, unless they have more than {@link WINDOW_BYTES}: then the newest of them. */
export const WINDOW = 500
/** Bytes of the log that one page shows. A few times as many are read at most. */
const WINDOW_BYTES = 1024 * 1024

/** Events after one and up to another. */
interface Stretch {
  readonly after: number
  readonly entries: ReadonlyArray<LogEntry>
  readonly bytes: number
}

/** An event is decoded once for all streams that tell it, which share its entry. */
const decoded = new WeakMap<LogEntry, RecordedEvent>()

const eventOf = (entry: LogEntry): RecordedEvent => {
  const known = decoded.get(entry)
  if (known !== undefined) return known
  const event = fromWire(entry.wire)
  decoded.set(entry, event)
  return event
}

const added = function*(conversation: Conversation.Conversation, entries: ReadonlyArray<LogEntry>): Steps<void> {
  for (const entry of entries) {
    conversation.add(eventOf(entry))
    yield
  }
}

export const addTo = (conversation: Conversation.Conversation, entries: ReadonlyArray<LogEntry>): Effect.Effect<void> =>
  Render.run(added(conversation, entries))

export const make = Effect.map(SandboxEvents, (events) => {
  /** The events after `after` up to `end`. `null`: they have more bytes than there is room for, and are more than one. */
  const read = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, after: number, end: number, room: number) {
    const entries: Array<LogEntry> = []
    let bytes = 0
    for (let at = after;;) {
      const page = yield* events.list(by, sandbox.id, { after: at, limit: end - at }).pipe(
        // Events that are no longer kept are not shown.
        Effect.catchTag("CursorExpired", () => events.list(by, sandbox.id, { after: 0, limit: PAGE }))
      )
      for (const entry of page) {
        if (entry.seq > at && entry.seq <= end) entries.push(entry)
        bytes += bytesOf.entry(entry)
      }
      at = page.at(-1)?.seq ?? end
      if (bytes > room && end - after > 1) return null
      if (at >= end) return { after, entries, bytes } satisfies Stretch
    }
  })

  /** The newest events before `end`: fewer of them where they are large. */
  const newest = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, end: number) {
    for (let size = PAGE;; size = Math.max(1, Math.floor(size / 2))) {
      const found = yield* read(by, sandbox, Math.max(0, end - size), end, WINDOW_BYTES)
      if (found !== null) return found
    }
  })

  return Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, end: number) {
    const last: Stretch = end === 0 ? { after: 0, entries: [], bytes: 0 } : yield* newest(by, sandbox, end)
    const stretches = [last]
    const ends: Array<number> = []
    if (end - last.after === PAGE && last.bytes < WINDOW_BYTES / 2) {
      for (let at = last.after; at > 0 && at > end - WINDOW; at -= PAGE) ends.push(at)
    }
    const room = (WINDOW_BYTES - last.bytes) / (WINDOW / PAGE - 1)
    // All at once: as many queries, but one wait.
    const older = yield* Effect.forEach(ends, (at) => read(by, sandbox, Math.max(0, at - PAGE), at, room), { concurrency: "unbounded" })
    for (const stretch of older) {
      if (stretch === null) break
      stretches.unshift(stretch)
    }
    const conversation = new Conversation.Conversation()
    yield* addTo(conversation, stretches.flatMap(({ entries }) => entries))
    const first = stretches[0]?.after ?? 0
    return { conversation, hasOlder: first > 0, first }
  }, Effect.catchTags({ CursorAhead: Effect.die, CursorExpired: Effect.die, InvalidRequest: Effect.die }))
})
