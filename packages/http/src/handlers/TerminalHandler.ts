/** Terminals of a sandbox over WebSocket: `GET /api/public/v1/sandboxes/{id}/terminal` (docs/decisions/32). */
import { CLOSE, ClientMessage, type ServerMessage, TERMINAL_PATH, WINDOW_BYTES } from "@slipway/api/schema/TerminalMessages"
import { Forbidden, InvalidRequest, NotFound, Refusal } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { presentRights } from "@slipway/domain/access/usecases/PresentRights"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  switchedOff,
  type TerminalAttachment,
  TerminalChoice,
  type TerminalRequest,
  Terminals,
  TerminalSize,
  type TerminalUnavailable
} from "@slipway/domain/sandbox/ports/Terminals"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { DateTime, Deferred, Effect, Latch, Option, Result, Schema, Stream } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Socket } from "effect/socket"
import { type LiveResponse, LiveResponses } from "../server/connection/LiveResponses.ts"
import * as Wire from "../server/connection/Wire.ts"
import { Routes } from "../server/Routes.ts"
import { Settings } from "../server/Settings.ts"

/** How often it is looked whether the person may still have a terminal: a role can change while the session goes on. */
const LOOK = "10 seconds"
/** Heartbeats without any message of the client after which it is gone. */
const MISSED = 4
/** How long a client may take to answer the close of its WebSocket. */
const FAREWELL = "5 seconds"

const off = new Refusal({ status: 403, code: "terminal_off", reason: switchedOff().detail, headers: {} })
const onlyMembers = Forbidden.make("A viewer of the organization has no terminal. An owner can give another role.")
const foreignOrigin = Forbidden.make("Pages of this origin may not open a terminal.")
const upgradeRequired = new Refusal({
  status: 426,
  code: "upgrade_required",
  reason: "A terminal is a WebSocket: send Upgrade: websocket.",
  headers: { upgrade: "websocket", connection: "upgrade" }
})

const readMessage = Schema.decodeUnknownResult(Schema.fromJsonString(ClientMessage))
const readId = Schema.decodeUnknownResult(SandboxId)
const readSize = Schema.decodeUnknownResult(TerminalSize)
const readChoice = Schema.decodeUnknownResult(TerminalChoice)

/** The query: `terminal` (default 1), `columns` (80) and `rows` (24). */
const requestOf = (query: URLSearchParams): TerminalRequest | null => {
  const number = (name: string, otherwise: number) => {
    const text = query.get(name) ?? String(otherwise)
    return /^\d{1,4}$/u.test(text) ? Number(text) : null
  }
  const terminal = readChoice(query.get("terminal") === "new" ? "new" : number("terminal", 1))
  const size = readSize({ columns: number("columns", 80), rows: number("rows", 24) })
  return Result.isSuccess(terminal) && Result.isSuccess(size) ? { terminal: terminal.success, size: size.success } : null
}

const codeOf = {
  not_running: "sandbox_not_running",
  unreachable: "agent_disconnected",
  no_program: "terminal_unsupported",
  too_many: "terminal_limit_exceeded",
  failed: "terminal_failed",
  off: "terminal_off"
} as const satisfies Record<TerminalUnavailable["reason"], string>

/** Why the connection is closed. */
interface Farewell {
  readonly code: number
  readonly reason: string
}

const endings = {
  revoked: { code: CLOSE.revoked, reason: "The access ended." },
  shutdown: { code: CLOSE.shutdown, reason: "The service is shutting down." },
  deleted: { code: CLOSE.deleted, reason: "The sandbox was deleted." }
} as const

/** One connection, after its handshake. */
interface Connected {
  readonly reader: Socket.Reader
  readonly writer: Socket.Writer
  readonly live: LiveResponse
  /** Heartbeats since the last message of the client. */
  unanswered: number
}

const tell = ({ live, writer }: Connected, message: ServerMessage) => {
  live.wrote()
  return writer.write(JSON.stringify(message))
}

/** Sends the output as far as the client takes it. */
const sendOutput = (connected: Connected, { output }: TerminalAttachment, window: Window) =>
  Stream.runForEach(output, (one) =>
    Effect.gen(function*() {
      switch (one._tag) {
        case "Bytes":
          yield* window.wait
          connected.live.wrote()
          window.sent(one.bytes.length)
          return yield* connected.writer.write(one.bytes)
        case "Skipped":
          return yield* tell(connected, { type: "skipped", bytes: one.count })
        case "Ended":
          return yield* tell(connected, { type: "ended", reason: one.reason, code: one.code })
      }
    })).pipe(Effect.as<Farewell>({ code: CLOSE.normal, reason: "" }))

/** The bytes that were sent and not yet taken. */
class Window {
  readonly #open = Latch.makeUnsafe(true)
  #waiting = 0

  get wait() {
    return this.#open.await
  }
  sent(bytes: number) {
    this.#waiting += bytes
    if (this.#waiting >= WINDOW_BYTES) this.#open.closeUnsafe()
  }
  /** `false`: more was taken than sent. */
  taken(bytes: number): boolean {
    this.#waiting -= bytes
    if (this.#waiting < WINDOW_BYTES) this.#open.openUnsafe()
    return this.#waiting >= 0
  }
}

const invalid: Farewell = { code: CLOSE.invalid, reason: "The message is invalid." }

/** Carries out one message of the client; gives why it has to be closed, or `null`. */
const hear = (attachment: TerminalAttachment, window: Window, message: Uint8Array | string): Effect.Effect<Farewell | null> => {
  if (typeof message !== "string") return Effect.as(attachment.write(message), null)
  const read = readMessage(message)
  if (Result.isFailure(read)) return Effect.succeed(invalid)
  const { success: said } = read
  switch (said.type) {
    case "resize":
      return Effect.as(attachment.resize({ columns: said.columns, rows: said.rows }), null)
    case "taken":
      return Effect.succeed(window.taken(said.bytes) ? null : invalid)
    case "end":
      return Effect.as(attachment.end, null)
    case "heartbeat":
      return Effect.succeed(null)
  }
}

/** Reads messages until one is invalid. Each waits until the one before it was carried out, so a fast client is read slowly. */
const hearAll = Effect.fnUntraced(function*(connected: Connected, attachment: TerminalAttachment, window: Window) {
  for (;;) {
    for (const message of yield* connected.reader.pull) {
      connected.unanswered = 0
      const farewell = yield* hear(attachment, window, message)
      if (farewell !== null) return farewell
    }
  }
})

/** Waits until the connection has to end, and sends heartbeats until then. */
const watch = Effect.fnUntraced(function*(connected: Connected) {
  const { live } = connected
  const woken = Latch.makeUnsafe(false)
  live.onWake(() => woken.openUnsafe())
  for (;;) {
    if (live.ending !== null) return endings[live.ending]
    yield* woken.await
    woken.closeUnsafe()
    if (live.ending !== null) continue
    if (connected.unanswered >= MISSED) return { code: CLOSE.silent, reason: "The client did not answer." }
    connected.unanswered++
    yield* tell(connected, { type: "heartbeat" })
  }
})

/** Waits until the person may no longer have a terminal. */
const untilRevoked = (
  stores: { readonly access: AccessStore["Service"]; readonly members: MemberStore["Service"] },
  { credential, grantId, test, userId }: Principal
) =>
  Effect.gen(function*() {
    const keyId = credential._tag === "Key" ? credential.keyId : credential.sessionId
    for (;;) {
      yield* Effect.sleep(LOOK)
      const rights = yield* presentRights(stores, { grantId, keyId, test, userId, work: "terminal" })
      if ("code" in rights) return endings.revoked
    }
  }).pipe(
    // Unknown is not revoked: the next look tells.
    Effect.retry({ while: ({ _tag }) => _tag === "StoreUnavailable" })
  )

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const sandboxes = yield* Sandboxes
  const audit = yield* AuditLog
  const access = yield* AccessStore
  const members = yield* MemberStore
  const live = yield* LiveResponses
  const { publicUrl } = yield* Settings
  const terminals = yield* Effect.serviceOption(Terminals)
  const ownOrigin = new URL(publicUrl).origin
  const routes = yield* Routes
  routes.declareForScope(TERMINAL_PATH, ["GET"], "stream", "sandboxes")

  const refusalOf = (request: HttpServerRequest.HttpServerRequest, { credential, scopes }: Principal): Refusal | null => {
    if (Option.isNone(terminals)) return off
    if (!scopes.has("sandboxes")) return onlyMembers
    // Browsers send the cookie with a WebSocket of any page, and no page can set the Authorization header of one.
    return credential._tag === "Session" && request.headers["origin"] !== ownOrigin ? foreignOrigin : null
  }

  const serve = Effect.fnUntraced(function*(connected: Connected, id: SandboxId, asked: TerminalRequest, by: Principal) {
    if (Option.isNone(terminals)) return endings.shutdown
    const attached = yield* Effect.result(terminals.value.attach(id, asked))
    if (Result.isFailure(attached)) {
      const { failure } = attached
      const code = failure._tag === "StoreUnavailable" ? "unavailable" : codeOf[failure.reason]
      yield* tell(connected, { type: "refused", code, message: failure.message })
      return { code: CLOSE.normal, reason: "" }
    }
    const attachment = attached.success
    const { terminal } = attachment
    // Before a byte of it is seen.
    yield* audit.append([{
      action: "terminal.opened",
      at: yield* DateTime.now,
      subjects: { sandboxId: id, grantId: by.grantId, terminal: String(terminal) }
    }])
    yield* tell(connected, { type: "attached", terminal })
    const window = new Window()
    return yield* Effect.raceAllFirst([
      sendOutput(connected, attachment, window),
      hearAll(connected, attachment, window),
      watch(connected),
      untilRevoked({ access, members }, by)
    ])
  }, Effect.scoped)

  yield* router.add(
    "GET",
    TERMINAL_PATH,
    Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      // `Edge` put it there.
      const principal = yield* Effect.serviceOption(CurrentPrincipal)
      if (Option.isNone(principal)) return yield* onlyMembers
      const by = principal.value
      const refusal = refusalOf(request, by)
      if (refusal !== null) return yield* refusal
      const read = readId((yield* HttpRouter.params)["sandboxId"])
      if (Result.isFailure(read)) return yield* NotFound.make("There is no such sandbox.")
      const id = read.success
      yield* Effect.catchTag(sandboxes.get(by, id), "SandboxNotFound", ({ message }) => NotFound.make(message))
      const asked = requestOf(new URL(request.url, publicUrl).searchParams)
      // Last, so that a request without it asks whether a terminal can be opened.
      if (request.headers["upgrade"]?.toLowerCase() !== "websocket") return yield* upgradeRequired
      if (asked === null) return yield* InvalidRequest.make("terminal is 1 to 4, or new; columns and rows are 1 to 1000.")
      const wire = Wire.of(request)
      const opened = yield* live.terminal(by, wire, id)
      const closed = Deferred.makeUnsafe<void>()
      wire.onClose(() => Deferred.doneUnsafe(closed, Effect.void))
      const socket = yield* request.upgrade
      const connected: Connected = {
        reader: yield* socket.reader,
        writer: yield* socket.writer,
        live: opened,
        unanswered: 0
      }
      const farewell = yield* serve(connected, id, asked, by).pipe(
        Effect.catchTag(
          "StoreUnavailable",
          (error) => Effect.as(Effect.logWarning("a terminal could not be recorded", error), { code: CLOSE.failed, reason: "Try again." })
        ),
        Effect.catchDefect((defect) =>
          Effect.as(Effect.logError("a terminal failed", defect), { code: CLOSE.failed, reason: "Something went wrong." })
        )
      )
      yield* connected.writer.write(new Socket.CloseEvent(farewell.code, farewell.reason))
      yield* Effect.timeoutOption(Deferred.await(closed), FAREWELL)
      return HttpServerResponse.empty()
    }).pipe(
      Effect.scoped,
      // The client left.
      Effect.catchTag("SocketError", () => Effect.succeed(HttpServerResponse.empty()))
    )
  )
}))
