/**
 * `/sandboxes/:id/pieces`: what becomes of the page of a sandbox after the event it was rendered at, as Server-Sent Events of HTML:
 * pieces that changed, and the changed items of the conversation. `live.js` puts them in the place of what the page has.
 * `/sandboxes/:id/read/pieces` is the same for the read-only page, which has fewer of them.
 */
import { ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { type Frame, SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { LiveResponses } from "@slipway/http/server/connection/LiveResponses"
import * as Wire from "@slipway/http/server/connection/Wire"
import * as BasePath from "@slipway/http/server/edge/BasePath"
import { respond } from "@slipway/http/server/reply/Respond"
import { heartbeat, retry } from "@slipway/http/server/reply/ServerSentEvents"
import { basePathOf, Settings } from "@slipway/http/server/Settings"
import { Clock, Effect, identity, Latch, Stream, Struct } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { html, type Html } from "../../html/Html.ts"
import * as Render from "../../html/Render.ts"
import type * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as Items from "../conversation/Items.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import * as ReadOnlyPage from "./ReadOnlyPage.ts"
import { idOf, noSandbox } from "./SandboxPage.ts"
import * as SandboxPieces from "./SandboxPieces.ts"

/** Events within this time are sent together: people cannot read faster than five updates a second. */
const TOGETHER = "150 millis"
/** Reads of the log that are sent together. */
const TOGETHER_READS = 4
/** How often a piece is rendered again that changes without events, or with very many. */
const AGAIN_MILLIS = 2_000
/** The longest pause before a failed piece is tried again; the pause doubles each time, since the failure may be permanent. */
const LONGEST_AGAIN_MILLIS = 60_000
const AGAIN_ATTRIBUTE = /^<[^>]* data-again/u
const RETRY_MILLIS = 2_000

const STREAM = {
  "content-type": "text/event-stream; charset=utf-8",
  // nginx must not buffer the stream.
  "x-accel-buffering": "no"
}

const utf8 = new TextEncoder()

/** Tells the browser not to reconnect. */
const over = utf8.encode("event: over\ndata:\n\n")

const cursorOf = ({ url }: Page.Asked, request: HttpServerRequest.HttpServerRequest): number | null => {
  // A reconnecting browser repeats its first address, so the header is newer.
  const given = request.headers["last-event-id"] ?? url.searchParams.get("since") ?? ""
  return /^\d{1,15}$/u.test(given) ? Number(given) : null
}

interface Services {
  readonly events: typeof SandboxEvents.Service
  readonly live: typeof LiveResponses.Service
  readonly sandboxes: typeof Sandboxes.Service
  readonly pieces: Effect.Success<typeof SandboxPieces.make>
  readonly names: ReadonlyArray<SandboxPieces.PieceName>
  /** As the page shows an item. */
  readonly itemOf: (item: Conversation.Item) => Conversation.Item
  readonly windowOf: Effect.Success<typeof SandboxWindow.make>
  readonly base: string
}

/** A page that is open, and what its browser has. */
interface Watched {
  readonly member: Page.Member
  readonly id: SandboxId
  readonly conversation: Conversation.Conversation
  /** As of the last read. */
  sandbox: Sandbox
  /** The last text of each piece: a piece that stays the same is not sent again. */
  readonly told: Map<string, string>
  /** Pieces that could not be made the last time, and when they are tried again. */
  readonly unmade: Map<SandboxPieces.PieceName, { readonly atMillis: number; readonly pauseMillis: number }>
  /** Slow pieces to render next. */
  readonly slowOnes: Set<SandboxPieces.PieceName>
  readonly isSlowDue: Latch.Latch
}

/** `cursor`: the event that all of the content is as of, or later; `null`: a browser cannot resume there. */
const frameOf = (base: string, content: Html, cursor: number | null): Uint8Array => {
  const lines = BasePath.beneath(base, content.toString()).split("\n").map((line) => `data: ${line}\n`).join("")
  return utf8.encode(`${cursor === null ? "" : `id: ${cursor}\n`}${lines}\n`)
}

/** Renders pieces; returns those that changed. */
const rendered = Effect.fnUntraced(function*(
  { pieces, sandboxes }: Services,
  page: Watched,
  names: Iterable<SandboxPieces.PieceName>
) {
  const { member, told, unmade } = page
  page.sandbox = yield* sandboxes.get(principalOf(member.visit), page.id)
  const shown = SandboxPieces.shownTo(member, page.sandbox)
  const changed: Array<Html> = []
  for (const name of names) {
    const piece = yield* Render.html(yield* pieces[name].render(shown))
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

/** Pieces that change with frequent events are rendered again in a while. */
const planOften = Effect.fnUntraced(function*({ names, pieces }: Services, { isSlowDue, slowOnes, unmade }: Watched, types: Set<string>) {
  const atMillis = (yield* Clock.currentTimeMillis) + AGAIN_MILLIS
  for (const name of names) {
    if (pieces[name].often?.some((type) => types.has(type)) !== true || slowOnes.has(name) || unmade.has(name)) continue
    unmade.set(name, { atMillis, pauseMillis: AGAIN_MILLIS / 2 })
    isSlowDue.openUnsafe()
  }
})

/** The frames for new events: the conversation, and the pieces that are quick to make. Marks slow ones for {@link later}. */
const soon = Effect.fnUntraced(function*(services: Services, page: Watched, frames: ReadonlyArray<Frame>) {
  const { base, itemOf, names, pieces } = services
  const { conversation, slowOnes } = page
  const entries = frames.flatMap((frame) => frame._tag === "Entries" ? frame.entries : [])
  const last = entries.at(-1)
  if (last === undefined) return [heartbeat]
  yield* SandboxWindow.addTo(conversation, entries)
  const types = new Set<string>(entries.map(({ type }) => type))
  const due = names.filter((name) => pieces[name].on.some((type) => types.has(type)))
  for (const name of due) {
    if (!pieces[name].isSlow) continue
    slowOnes.add(name)
    // An event may have removed the obstacle: try again at once.
    page.unmade.delete(name)
  }
  if (slowOnes.size > 0) page.isSlowDue.openUnsafe()
  yield* planOften(services, page, types)
  const quick = due.filter((name) => !pieces[name].isSlow)
  const changed = quick.length === 0 ? [] : yield* rendered(services, page, quick)
  const parts = yield* Items.changes(conversation.take().map(itemOf), `/sandboxes/${page.id}`)
  const rest = parts.slice(0, -1).map((part) => frameOf(base, part, null))
  return [...rest, frameOf(base, html`${parts.at(-1) ?? null}${changed}`, last.seq)]
})

/** Waits until slow pieces, pieces that change without events or failed ones are due; returns the frame with those that changed. */
const later = Effect.fnUntraced(function*(services: Services, page: Watched) {
  const { base, names, pieces } = services
  const { isSlowDue, sandbox, slowOnes, unmade } = page
  const changing = names.filter((name) => pieces[name].changes?.(sandbox) === true)
  const now = yield* Clock.currentTimeMillis
  const pauses = [...changing.map(() => AGAIN_MILLIS), ...Array.from(unmade.values(), ({ atMillis }) => Math.max(0, atMillis - now))]
  yield* pauses.length > 0 ? Effect.timeoutOption(isSlowDue.await, Math.min(...pauses)) : isSlowDue.await
  isSlowDue.closeUnsafe()
  const then = yield* Clock.currentTimeMillis
  const again = [...unmade].flatMap(([name, { atMillis }]) => atMillis <= then ? [name] : [])
  const due = new Set([...slowOnes, ...changing, ...again])
  slowOnes.clear()
  // Only the time of the next one changed.
  if (due.size === 0) return []
  const changed = yield* rendered(services, page, due)
  return changed.length === 0 ? [] : [frameOf(base, html`${changed}`, null)]
})

/** The last frames of a finished sandbox: no event follows, so every slow piece is sent now. */
const atLast = Effect.fnUntraced(function*(services: Services, page: Watched, isEnding: boolean) {
  if (isEnding || !isSettled(page.sandbox.status)) return []
  const { base, names, pieces } = services
  const changed = yield* rendered(services, page, names.filter((name) => pieces[name].isSlow))
  return [...(changed.length === 0 ? [] : [frameOf(base, html`${changed}`, null)]), over]
})

const get = (services: Services): Page.Handler<Page.Member> => {
  const { events, live, names, pieces, windowOf } = services
  return Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const request = yield* HttpServerRequest.HttpServerRequest
      const since = cursorOf(asked, request)
      if (since === null) return yield* Refused.bad("This link is out of date.")
      const connection = yield* live.stream(by, Wire.of(request))
      const following = yield* events.follow(by, id, since)
      connection.onWake(following.wake)
      const isBack = request.headers["last-event-id"] !== undefined || asked.url.searchParams.has("back")
      if (following.nothingLeft && !isBack) return HttpServerResponse.empty({ status: 204 })

      const { sandbox } = following
      // A start, a turn or a tool call may have begun before the cursor.
      const isStarting = sandbox.status === "queued" || sandbox.status === "creating"
      const conversation = isActive(sandbox.turn) || isStarting || since < sandbox.lastSeq
        ? (yield* windowOf(by, sandbox, since)).conversation
        : new Conversation.Conversation()
      conversation.take()
      const page: Watched = {
        member,
        id,
        conversation,
        sandbox,
        told: new Map(),
        unmade: new Map(),
        slowOnes: new Set(),
        isSlowDue: Latch.makeUnsafe(false)
      }
      // The id of an event does not say which slow pieces reached a browser that comes back: the event goes out before them.
      for (const name of names) if (pieces[name].isLate === true || isBack && pieces[name].isSlow) page.slowOnes.add(name)
      if (page.slowOnes.size > 0) page.isSlowDue.openUnsafe()

      const requestId = (yield* ActingFrom)?.requestId
      const bytes = following.frames.pipe(
        Stream.takeUntil(() => connection.ending !== null),
        Stream.groupedWithin(TOGETHER_READS, TOGETHER),
        Stream.mapEffect((frames) => soon(services, page, frames)),
        Stream.flattenIterable,
        Stream.concat(
          Stream.flattenIterable(Stream.fromEffect(Effect.suspend(() => atLast(services, page, connection.ending !== null))))
        ),
        Stream.merge(Stream.flattenIterable(Stream.fromEffectRepeat(Effect.suspend(() => later(services, page)))), {
          haltStrategy: "left"
        }),
        Stream.tap(() => Effect.sync(() => connection.wrote())),
        // The browser reconnects and misses nothing.
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
      CursorAhead: () => Effect.fail(Refused.bad("This link is out of date.")),
      CursorExpired: () => Effect.fail(Refused.bad("The log expired.")),
      InvalidRequest: Effect.die
    })
  )
}

export const make = Effect.fnUntraced(function*(isReadOnly: boolean) {
  const pieces = yield* SandboxPieces.make
  return get({
    events: yield* SandboxEvents,
    live: yield* LiveResponses,
    sandboxes: yield* Sandboxes,
    pieces,
    names: isReadOnly ? ReadOnlyPage.PIECES : Struct.keys(pieces),
    itemOf: isReadOnly ? Items.readOnly : identity,
    windowOf: yield* SandboxWindow.make,
    base: basePathOf((yield* Settings).publicUrl)
  })
})
