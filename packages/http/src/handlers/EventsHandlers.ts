/** Serves the event log, by page and live. */
import { ActingFrom } from "@slipway/domain/access/AuditLog"
import { isSettled } from "@slipway/domain/sandbox/Sandbox"
import { type Following, type Frame, SandboxEvents } from "@slipway/domain/sandbox/SandboxEvents"
import { Clock, Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { CurrentPrincipal } from "../api/Middleware.ts"
import { MAX_LIMIT } from "../api/Parameters.ts"
import { type LiveResponse, LiveResponses } from "../server/LiveResponses.ts"
import { respond } from "../server/Respond.ts"
import { heartbeat, retry } from "../server/ServerSentEvents.ts"
import { Settings } from "../server/Settings.ts"
import * as Wire from "../server/Wire.ts"
import { joined, snapshotOf, transient } from "./EventFrames.ts"

const RETRY_MILLIS = 2_000
/** For a finished sandbox: a browser that was given no id to resume from would ask again and again. */
const RETRY_FINISHED_MILLIS = 30_000

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  // Proxies must hand on what they get (nginx).
  "x-accel-buffering": "no"
}

/** The bytes of one connection. Nothing is read ahead: the next page is asked for when the socket took the one before. */
const bytesOf = (
  { frames, sandbox }: Following,
  after: number | null,
  live: LiveResponse,
  { now, publicUrl, requestId }: { readonly now: () => Date; readonly publicUrl: string; readonly requestId: string | undefined }
) => {
  let cursor = after ?? sandbox.lastSeq
  const frameBytes = (frame: Frame): ReadonlyArray<Uint8Array> => {
    if (live.ending !== null) {
      const data = { reason: live.ending, resume_cursor: String(cursor) }
      return live.ending === "revoked" ? [] : [transient(sandbox.id, now(), "stream.resync", data)]
    }
    live.wrote()
    switch (frame._tag) {
      case "Snapshot":
        return [transient(sandbox.id, now(), "snapshot", snapshotOf(frame.sandbox, publicUrl))]
      case "Status":
        return [transient(sandbox.id, now(), "sandbox.status", { status: frame.status })]
      case "Idle":
        return [heartbeat]
      case "Entries":
        cursor = frame.entries.at(-1)?.seq ?? cursor
        return joined(frame.entries)
    }
  }
  const last = after === null && isSettled(sandbox.status) ? [retry(RETRY_FINISHED_MILLIS)] : []
  return Stream.succeed(retry(RETRY_MILLIS)).pipe(
    Stream.concat(frames.pipe(
      Stream.takeUntil(() => live.ending !== null),
      Stream.map(frameBytes),
      Stream.flattenIterable,
      // One write at a time: the next one waits until the socket drained.
      Stream.rechunk(1)
    )),
    Stream.concat(Stream.fromIterable(last)),
    // The reader comes back and misses nothing. What is logged here is outside of what `Edge` says of the request.
    Stream.catchTag(
      "StoreUnavailable",
      (error) => Stream.fromEffectDrain(Effect.annotateLogs(Effect.logWarning("an event stream ended early", error), { requestId }))
    )
  )
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
          const connection = yield* live.open("stream", by, Wire.of(request))
          const following = yield* events.follow(by, sandboxId, after)
          connection.onWake(following.wake)
          if (following.nothingLeft) return HttpServerResponse.empty({ status: 204 })
          const requestId = (yield* ActingFrom)?.requestId
          return HttpServerResponse.stream(bytesOf(following, after, connection, { now, publicUrl, requestId }), { headers })
        },
        Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
      )
    })
  })
)
