/** Serves the event log, by page and live. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import { ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { isSettled } from "@slipway/domain/sandbox/rules/Sandbox"
import { type News, type Reading, SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Clock, Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { type LiveResponse, LiveResponses } from "../server/connection/LiveResponses.ts"
import * as Wire from "../server/connection/Wire.ts"
import { respond } from "../server/reply/Respond.ts"
import { heartbeat, retry } from "../server/reply/ServerSentEvents.ts"
import { Settings } from "../server/Settings.ts"
import { durable, type Piece, snapshotOf, transient } from "./EventFrames.ts"

const RETRY_MILLIS = 2_000
/** For a finished sandbox: a browser that was given no id to resume from would ask again and again. */
const RETRY_FINISHED_MILLIS = 30_000

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  // Proxies must hand on what they get (nginx).
  "x-accel-buffering": "no"
}

/** Everything that an event stream needs. It keeps no request: many streams are open for long, and mostly idle. */
interface About {
  readonly reading: Reading
  readonly live: LiveResponse
  readonly sandboxId: SandboxId
  /** The cursor of the last event that the reader has. */
  readonly cursor: number
  /** Bytes to write after the last event; `null`: none. */
  readonly last: Uint8Array | null
  readonly publicUrl: string
  readonly now: () => Date
}

const NONE: ReadonlyArray<Piece> = []

const pieceOf = (text: string | Uint8Array): ReadonlyArray<Piece> => [{ text: () => text, cursor: null }]

/** The event stream of one connection, written as events come and as the socket takes them: it has no fiber that is woken for each. */
class EventStream {
  readonly #about: About
  readonly #outlet: Wire.Outlet
  /** The cursor of the last event that was written. */
  #cursor: number
  #pieces: ReadonlyArray<Piece> = pieceOf(retry(RETRY_MILLIS))
  #written = 0
  #isFull = false
  /** Wakes the fiber that does work which cannot be done at once; `null`: no fiber waits. */
  #goOn: (() => void) | null = null

  constructor(about: About, outlet: Wire.Outlet) {
    this.#about = about
    this.#outlet = outlet
    this.#cursor = about.cursor
    about.reading.onChange(() => this.#changed())
    about.live.onWake(() => this.#woken())
  }

  /** Until there is nothing more to write. */
  readonly run: Effect.Effect<void, StoreUnavailable> = Effect.gen({ self: this }, function*() {
    const { last, live, reading } = this.#about
    for (;;) {
      const pause = this.#write()
      if (pause === "over") break
      yield* pause === "unread" ? reading.read : this.#something()
    }
    if (live.ending === "shutdown") {
      this.#send(this.#transient("stream.resync", { reason: "shutdown", resume_cursor: String(this.#cursor) }))
    }
    if (live.ending === null && last !== null) this.#send(last)
  })

  #something() {
    return Effect.callback<void>((resume) => {
      this.#goOn = () => {
        this.#goOn = null
        resume(Effect.void)
      }
      // Others may have had a turn since it was last looked at.
      this.#changed()
    })
  }

  /** Writes what is at hand and what the socket takes, and says what stands in the way of more. */
  #write(): "unread" | "waiting" | "over" {
    for (;;) {
      if (this.#about.live.ending !== null) return "over"
      if (this.#isFull) return "waiting"
      const piece = this.#pieces[this.#written]
      if (piece !== undefined) {
        this.#written++
        this.#send(piece.text())
        this.#cursor = piece.cursor ?? this.#cursor
        continue
      }
      this.#written = 0
      this.#pieces = NONE
      const next = this.#about.reading.next()
      if (typeof next === "string") return next
      this.#pieces = this.#piecesOf(next)
    }
  }

  #changed() {
    if (this.#goOn !== null && this.#write() !== "waiting") this.#goOn()
  }

  #woken() {
    if (this.#goOn !== null && this.#about.live.ending === null && !this.#isFull) this.#send(heartbeat)
    this.#changed()
  }

  #send(text: string | Uint8Array) {
    this.#about.live.wrote()
    if (this.#outlet.write(text)) return
    this.#isFull = true
    this.#outlet.onDrain(() => {
      this.#isFull = false
      this.#changed()
    })
  }

  #piecesOf(news: News): ReadonlyArray<Piece> {
    switch (news._tag) {
      case "Snapshot":
        return pieceOf(this.#transient("snapshot", snapshotOf(news.sandbox, this.#about.publicUrl)))
      case "Status":
        return pieceOf(this.#transient("sandbox.status", { status: news.status }))
      case "Entries":
        return durable(news)
    }
  }

  #transient(type: string, data: unknown) {
    return transient(this.#about.sandboxId, this.#about.now(), type, data)
  }
}

export const layer = HttpApiBuilder.group(
  Api,
  "events",
  Effect.fn(function*(handlers) {
    const events = yield* SandboxEvents
    const live = yield* LiveResponses
    const { publicUrl } = yield* Settings
    const clock = yield* Clock.Clock
    const now = () => new Date(clock.currentTimeMillisUnsafe())

    return handlers.handleAll({
      listEvents: Effect.fnUntraced(function*({ params: { sandboxId }, query: { after = 0, limit = MAX_LIMIT } }) {
        const entries = yield* events.list(yield* CurrentPrincipal, sandboxId, { after, limit })
        const nextCursor = String(entries.at(-1)?.seq ?? after)
        // The log keeps events as they go out; encoding them again would only cost time.
        return HttpServerResponse.text(
          `{"data":[${entries.map(({ wire }) => wire).join(",")}],"nextCursor":"${nextCursor}"}`,
          { contentType: "application/json" }
        )
      }),
      streamEvents: Effect.fnUntraced(
        function*({ headers: { "last-event-id": lastEventId }, params: { sandboxId }, query: { since }, request }) {
          const by = yield* CurrentPrincipal
          // A reconnecting browser repeats its first URL, so the header is newer.
          const after = lastEventId ?? since ?? null
          const wire = Wire.of(request)
          const connection = yield* live.stream(by, wire)
          const { nothingLeft, reading, sandbox } = yield* events.follow(by, sandboxId, after)
          if (nothingLeft) return HttpServerResponse.empty({ status: 204 })
          const requestId = (yield* ActingFrom)?.requestId
          const last = after === null && isSettled(sandbox.status) ? retry(RETRY_FINISHED_MILLIS) : null
          const about = { reading, live: connection, sandboxId, cursor: after ?? sandbox.lastSeq, last, publicUrl, now }
          const body = wire.body((outlet) =>
            new EventStream(about, outlet).run.pipe(
              // The reader comes back and misses nothing. What is logged here is outside of what `Edge` says of the request.
              Effect.catch((error) => Effect.annotateLogs(Effect.logWarning("an event stream ended early", error), { requestId }))
            )
          )
          return HttpServerResponse.stream(body, { headers })
        },
        Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
      )
    })
  })
)
