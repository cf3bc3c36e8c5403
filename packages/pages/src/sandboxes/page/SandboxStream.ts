/**
 * `/sandboxes/:id/pieces`: what becomes of the page of a sandbox after the event it was rendered at, as Server-Sent Events of HTML:
 * pieces that changed, and the changed items of the conversation. `live.js` puts them in the place of what the page has.
 */
import { ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { principalOf } from "@slipway/domain/access/rules/Session"
import { isSettled } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { type Frame, SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { LiveResponses } from "@slipway/http/server/connection/LiveResponses"
import * as Wire from "@slipway/http/server/connection/Wire"
import * as BasePath from "@slipway/http/server/edge/BasePath"
import { respond } from "@slipway/http/server/reply/Respond"
import { heartbeat, retry } from "@slipway/http/server/reply/ServerSentEvents"
import { basePathOf, Settings } from "@slipway/http/server/Settings"
import { Clock, Effect, Latch, Stream, Struct } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as CooperativeRender from "../../html/CooperativeRender.ts"
import { html, type Html } from "../../html/Html.ts"
import type * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import { idOf, noSandbox } from "./SandboxPage.ts"
import * as SandboxPieces from "./SandboxPieces.ts"

/** What comes within it is told at once: five times a second is as often as anybody can read. */
const TOGETHER = "150 millis"
/** Reads of the log that are told at once. */
const TOGETHER_READS = 4
/** How often a piece is rendered again that changes without events. */
const AGAIN_MILLIS = 2_000
/** What could not be made is tried again ever later, up to this: it may be that it never can. */
const LONGEST_AGAIN_MILLIS = 60_000
const AGAIN_ATTRIBUTE = /^<[^>]* data-again/u
const RETRY_MILLIS = 2_000

const STREAM = {
  "content-type": "text/event-stream; charset=utf-8",
  // Proxies must hand on what they get (nginx).
  "x-accel-buffering": "no"
}

const utf8 = new TextEncoder()

/** There is nothing to come back for. */
const over = utf8.encode("event: over\ndata:\n\n")

const cursorOf = ({ url }: Page.Asked, request: HttpServerRequest.HttpServerRequest): number | null => {
  // A reconnecting browser repeats its first address, so the header is newer.
  const given = request.headers["last-event-id"] ?? url.searchParams.get("since") ?? ""
  return /^\d{1,15}$/u.test(given) ? Number(given) : null
}

export const make = Effect.gen(function*() {
  const events = yield* SandboxEvents
  const live = yield* LiveResponses
  const sandboxes = yield* Sandboxes
  const pieces = yield* SandboxPieces.make
  const windowOf = yield* SandboxWindow.make
  const base = basePathOf((yield* Settings).publicUrl)
  const names = Struct.keys(pieces)

  /** `cursor`: the event that all of it is as of, or later; `null`: nobody goes on from there. */
  const frameOf = (content: Html, cursor: number | null): Uint8Array => {
    const lines = BasePath.beneath(base, content.toString()).split("\n").map((line) => `data: ${line}\n`).join("")
    return utf8.encode(`${cursor === null ? "" : `id: ${cursor}\n`}${lines}\n`)
  }

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const request = yield* HttpServerRequest.HttpServerRequest
      const since = cursorOf(asked, request)
      if (since === null) return yield* Refused.bad("That is no place in the conversation.")
      const connection = yield* live.open("stream", by, Wire.of(request))
      const following = yield* events.follow(by, id, since)
      connection.onWake(following.wake)
      const isBack = request.headers["last-event-id"] !== undefined || asked.url.searchParams.has("back")
      if (following.nothingLeft && !isBack) return HttpServerResponse.empty({ status: 204 })

      let sandbox = following.sandbox
      // What is told of a tool call may have begun before.
      const conversation = isActive(sandbox.turn)
        ? (yield* windowOf(by, sandbox, since)).conversation
        : new Conversation.Conversation()
      conversation.take()
      /** By name: what stays the same is not told again. */
      const told = new Map<string, string>()

      /** Those that could not be made the last time, and when they are tried again. */
      const unmade = new Map<SandboxPieces.PieceName, { readonly atMillis: number; readonly pauseMillis: number }>()

      const rendered = Effect.fnUntraced(function*(names: Iterable<SandboxPieces.PieceName>) {
        sandbox = yield* sandboxes.get(by, id)
        const shown = SandboxPieces.shownTo(member, sandbox)
        const changed: Array<Html> = []
        for (const name of names) {
          const piece = yield* pieces[name].render(shown)
          const text = piece.toString()
          if (told.get(name) !== text) changed.push(piece)
          if (AGAIN_ATTRIBUTE.test(text)) {
            const before = unmade.get(name)
            const pauseMillis = before === undefined ? AGAIN_MILLIS : Math.min(2 * before.pauseMillis, LONGEST_AGAIN_MILLIS)
            unmade.set(name, { atMillis: (yield* Clock.currentTimeMillis) + pauseMillis, pauseMillis })
          } else unmade.delete(name)
          told.set(name, text)
        }
        return changed
      })

      const slowOnes = new Set<SandboxPieces.PieceName>()
      const isSlowDue = Latch.makeUnsafe(false)

      // Which of them reached a browser that comes back, no id tells: an event goes out before the slow pieces that it changed.
      for (const name of names) if (pieces[name].isLate === true || isBack && pieces[name].isSlow) slowOnes.add(name)
      if (slowOnes.size > 0) isSlowDue.openUnsafe()

      const soon = Effect.fnUntraced(function*(frames: ReadonlyArray<Frame>) {
        const entries = frames.flatMap((frame) => frame._tag === "Entries" ? frame.entries : [])
        const last = entries.at(-1)
        if (last === undefined) return [heartbeat]
        yield* CooperativeRender.run(SandboxWindow.addTo(conversation, entries))
        const types = new Set<string>(entries.map(({ type }) => type))
        const due = names.filter((name) => pieces[name].on.some((type) => types.has(type)))
        for (const name of due) {
          if (!pieces[name].isSlow) continue
          slowOnes.add(name)
          // What was in its way may be gone.
          unmade.delete(name)
        }
        if (slowOnes.size > 0) isSlowDue.openUnsafe()
        const quick = due.filter((name) => !pieces[name].isSlow)
        const changed = quick.length === 0 ? [] : yield* rendered(quick)
        const parts = yield* CooperativeRender.run(Conversation.changes(conversation.take(), `/sandboxes/${id}`))
        const rest = parts.slice(0, -1).map((part) => frameOf(part, null))
        return [...rest, frameOf(html`${parts.at(-1) ?? null}${changed}`, last.seq)]
      })

      const later = Effect.gen(function*() {
        const changing = names.filter((name) => pieces[name].changes?.(sandbox) === true)
        const now = yield* Clock.currentTimeMillis
        const pauses = [...changing.map(() => AGAIN_MILLIS), ...Array.from(unmade.values(), ({ atMillis }) => Math.max(0, atMillis - now))]
        yield* pauses.length > 0 ? Effect.timeoutOption(isSlowDue.await, Math.min(...pauses)) : isSlowDue.await
        isSlowDue.closeUnsafe()
        const then = yield* Clock.currentTimeMillis
        const again = [...unmade].flatMap(([name, { atMillis }]) => atMillis <= then ? [name] : [])
        const due = new Set([...slowOnes, ...changing, ...again])
        slowOnes.clear()
        const changed = yield* rendered(due)
        return changed.length === 0 ? [] : [frameOf(html`${changed}`, null)]
      })

      /** Nothing follows on what is over: whatever may not have been told yet is told now. */
      const atLast = Effect.fnUntraced(function*() {
        if (connection.ending !== null || !isSettled(sandbox.status)) return []
        const changed = yield* rendered(names.filter((name) => pieces[name].isSlow))
        return [...(changed.length === 0 ? [] : [frameOf(html`${changed}`, null)]), over]
      })

      const requestId = (yield* ActingFrom)?.requestId
      const bytes = following.frames.pipe(
        Stream.takeUntil(() => connection.ending !== null),
        Stream.groupedWithin(TOGETHER_READS, TOGETHER),
        Stream.mapEffect(soon),
        Stream.flattenIterable,
        Stream.concat(Stream.flattenIterable(Stream.fromEffect(Effect.suspend(atLast)))),
        Stream.merge(Stream.flattenIterable(Stream.fromEffectRepeat(later)), { haltStrategy: "left" }),
        Stream.tap(() => Effect.sync(() => connection.wrote())),
        // The reader comes back and misses nothing.
        Stream.catchTags({
          StoreUnavailable: (error) =>
            Stream.fromEffectDrain(Effect.annotateLogs(Effect.logWarning("the stream of a page ended early", error), { requestId })),
          SandboxNotFound: () => Stream.empty
        }),
        // One write at a time: the next one waits until the socket drained.
        Stream.rechunk(1)
      )
      return HttpServerResponse.stream(Stream.concat(Stream.succeed(retry(RETRY_MILLIS)), bytes), { headers: STREAM })
    },
    Effect.catchTags({
      Refusal: (refusal) => Effect.succeed(respond(refusal)),
      SandboxNotFound: () => Effect.fail(noSandbox),
      CursorAhead: () => Effect.fail(Refused.bad("That is no place in the conversation.")),
      CursorExpired: () => Effect.fail(Refused.bad("What happened there is no longer kept.")),
      InvalidRequest: Effect.die
    })
  )
  return get
})
