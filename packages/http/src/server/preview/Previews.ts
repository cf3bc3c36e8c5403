/** Answers the requests of preview origins (docs/decisions/32), and makes the tickets that lead there. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Acting, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { BoxPorts, ConnectFailure } from "@slipway/domain/sandbox/ports/BoxPorts"
import { LruCache } from "@slipway/domain/store/LruCache"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Clock, Context, DateTime, Duration, Effect, Layer, Option, Redacted, Schedule, Schema } from "effect"
import { HttpServerResponse, type HttpServerRequest } from "effect/http"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import { Counter } from "../connection/Connections.ts"
import * as PreviewOrigin from "../PreviewOrigin.ts"
import { Settings } from "../Settings.ts"
import * as BoxDuplex from "./BoxDuplex.ts"
import * as PreviewHeaders from "./PreviewHeaders.ts"
import * as PreviewPage from "./PreviewPage.ts"
import * as PreviewPass from "./PreviewPass.ts"
import * as PreviewProxy from "./PreviewProxy.ts"

/** Where a ticket is exchanged for a cookie, on each preview's origin. */
const EXCHANGE = "/.slipway/preview"

/** Requests of one person under way in this process, WebSockets included. */
const MAX_PER_PERSON = 256
/** Sessions whose answers this process remembers. */
const MAX_BELIEVED = 10_000
/** How long an answer about a session is believed. */
const BELIEVED_MILLIS = 1_000
/** How often the session and the role behind an open connection are looked at. */
const WATCH = "2 seconds"
/** A browser asks for more at once than may be open. The wait ends after ten seconds. */
const FULL = Schedule.max([Schedule.spaced("50 millis"), Schedule.recurs(200)])

const isConnectFailure = Schema.is(ConnectFailure)

type Answer = Effect.Effect<HttpServerResponse.HttpServerResponse, StoreUnavailable>

export class Previews extends Context.Service<Previews, {
  /** Whether the request is for a preview's host, so that nothing else may answer it. */
  isFor(host: string | undefined): boolean
  /** Answers a request of Node's server for a preview's host. */
  answer(request: HttpServerRequest.HttpServerRequest): Answer
  /** Lets a server of Node pass WebSockets of previews. Before it listens. */
  prepare(server: Server): void
  /** The address that admits the person's browser to the preview, once in any process, within `TICKET_LIFE`. `null`: previews are off. */
  admit(viewer: PreviewPass.Viewer, target: PreviewOrigin.Target): Effect.Effect<Redacted.Redacted | null, StoreUnavailable>
  /** A source for `form-action` of a page that leads to previews; `null`: previews are off. */
  readonly formTarget: string | null
}>()("@slipway/http/Previews") {
  static readonly layer = Layer.effect(Previews, Effect.suspend(() => make))
  /** For a server within another one, which has the requests of its hosts. */
  static readonly layerOff = Layer.sync(Previews, () => off)
}

const off: Previews["Service"] = {
  isFor: () => false,
  answer: () => Effect.succeed(HttpServerResponse.empty({ status: 404 })),
  prepare: () => {},
  admit: () => Effect.succeed(null),
  formTarget: null
}

/** The page for a box that cannot be reached. */
const explanation = (publicUrl: string, target: PreviewOrigin.Target, { _tag }: ConnectFailure) => {
  switch (_tag) {
    case "BoxNotRunning":
      return PreviewPage.atRest(publicUrl, target)
    case "PortClosed":
      return PreviewPage.closed(target)
    case "PortsUnsupported":
      return PreviewPage.unsupported
    case "TooManyConnections":
      return PreviewPage.tooMany
    case "WorkerUnreachable":
      return PreviewPage.unreachable
  }
}

/** Whether the session of a person goes on, and its user still is an owner or member of the grant. Believed for `BELIEVED_MILLIS`. */
const rightsIn = (sessions: Sessions["Service"]) => {
  const believed = new LruCache<string, { readonly until: number; readonly mayOpen: boolean }>(MAX_BELIEVED)
  return Effect.fnUntraced(function*({ grantId, sessionId }: PreviewPass.Viewer) {
    const now = yield* Clock.currentTimeMillis
    const name = `${sessionId} ${grantId}`
    const known = believed.get(name)
    if (known !== undefined && known.until > now) return known.mayOpen
    const found = yield* sessions.stillThere([{ sessionId, grantId }])
    const mayOpen = found.some((one) => one.sessionId === sessionId && one.grantId === grantId && one.role !== "viewer")
    believed.set(name, { until: now + BELIEVED_MILLIS, mayOpen })
    return mayOpen
  })
}

const make = Effect.gen(function*() {
  const { previews, publicUrl } = yield* Settings
  const ports = yield* Effect.serviceOption(BoxPorts)
  if (previews === null || Option.isNone(ports)) return Previews.of(off)
  const { key, origins } = previews
  const { connect } = ports.value
  const sessions = yield* Sessions
  const audit = yield* AuditLog
  const underWay = new Counter()
  const early = new WeakMap<IncomingMessage, Buffer>()

  const mayOpen = rightsIn(sessions)

  /** Exchanges the ticket for the cookie, and removes it from the address. */
  const exchange = Effect.fnUntraced(function*(target: PreviewOrigin.Target, url: URL) {
    const now = yield* Clock.currentTimeMillis
    const pass = PreviewPass.read(key, url.searchParams.get("ticket") ?? "", { ...target, kind: "ticket", now })
    if (pass === null || !(yield* mayOpen(pass)) || !(yield* sessions.useTicket(Redacted.make(pass.once)))) {
      return PreviewPage.signIn(publicUrl, target)
    }
    // Before a byte of the preview is seen.
    yield* Effect.provideService(
      audit.append([{
        action: "preview.opened",
        at: yield* DateTime.now,
        subjects: { sandboxId: target.sandboxId, grantId: pass.grantId, port: String(target.port) }
      }]),
      Acting,
      { _tag: "User", userId: pass.userId }
    )
    const cookie = PreviewPass.write(key, { ...pass, kind: "cookie", until: now + PreviewPass.COOKIE_MILLIS, once: "" })
    const attributes = `Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${PreviewPass.COOKIE_MILLIS / 1000}`
    return HttpServerResponse.empty({
      status: 303,
      headers: { location: "/", "set-cookie": `${PreviewHeaders.COOKIE}=${Redacted.value(cookie)}; ${attributes}`, ...PreviewPage.HEADERS }
    })
  })

  const connected = (target: PreviewOrigin.Target) =>
    connect(target.sandboxId, target.port).pipe(
      Effect.retry({ schedule: FULL, while: ({ _tag }: ConnectFailure | StoreUnavailable) => _tag === "TooManyConnections" })
    )

  const passed = (exchange: PreviewProxy.Exchange, target: PreviewOrigin.Target, viewer: PreviewPass.Viewer) =>
    Effect.scoped(Effect.gen(function*() {
      if (underWay.of(viewer.userId) >= MAX_PER_PERSON) return PreviewPage.tooMany
      yield* Effect.acquireRelease(
        Effect.sync(() => underWay.add(viewer.userId, 1)),
        () => Effect.sync(() => underWay.add(viewer.userId, -1))
      )
      const box = yield* Effect.flatMap(connected(target), BoxDuplex.make)
      // Unknown is not lost: the next look tells.
      const look = Effect.catchTag(Effect.delay(mayOpen(viewer), WATCH), "StoreUnavailable", () => Effect.succeed(true))
      const lost = Effect.repeat(look, { while: (may) => may })
      const outcome = yield* Effect.raceFirst(
        PreviewProxy.forward(exchange, box, target, new URL(PreviewOrigin.originOf(origins, target))),
        Effect.as(lost, "lost" as const)
      )
      if (outcome === "unanswered") return PreviewPage.unanswered(target)
      // Else it was written past the response, of which nothing more is sent once its connection is cut.
      return outcome === "lost" ? PreviewPage.signIn(publicUrl, target) : HttpServerResponse.empty()
    })).pipe(Effect.catchIf(isConnectFailure, (failure) => Effect.succeed(explanation(publicUrl, target, failure))))

  const answer = Effect.fn("Previews.answer")(function*(request: HttpServerRequest.HttpServerRequest) {
    const message = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
    const target = PreviewOrigin.targetOf(origins, message.headers.host ?? "")
    const address = message.url ?? ""
    if (target === null) return PreviewPage.nothing
    // Never a proxy for other hosts.
    if (!address.startsWith("/")) return PreviewPage.badRequest
    const origin = PreviewOrigin.originOf(origins, target)
    const url = new URL(origin + address)
    if (url.pathname === EXCHANGE) return message.method === "GET" ? yield* exchange(target, url) : PreviewPage.nothing
    const cookie = request.cookies[PreviewHeaders.COOKIE]
    const now = yield* Clock.currentTimeMillis
    const pass = cookie === undefined ? null : PreviewPass.read(key, cookie, { ...target, kind: "cookie", now })
    if (pass === null || !(yield* mayOpen(pass))) return PreviewPage.signIn(publicUrl, target)
    if (PreviewHeaders.isFromElsewhere(message, origin)) return PreviewPage.elsewhere
    if (PreviewHeaders.isServiceWorker(message)) return PreviewPage.serviceWorker
    const response = () => NodeHttpServerRequest.toServerResponse(request) as ServerResponse
    return yield* passed({ message, response, early: early.get(message) ?? Buffer.alloc(0) }, target, pass)
  })

  const isFor = (host: string | undefined): boolean => host !== undefined && PreviewOrigin.isPreview(origins, host)
  return Previews.of({
    isFor,
    answer,
    prepare: (server) => {
      server.prependListener("upgrade", (message: IncomingMessage, _socket, head: Buffer) => void early.set(message, head))
    },
    admit: Effect.fnUntraced(function*({ grantId, sessionId, userId }, target) {
      const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(PreviewPass.TICKET_LIFE)
      const once = Redacted.value(yield* sessions.makeTicket(PreviewPass.TICKET_LIFE))
      const ticket = PreviewPass.write(key, { kind: "ticket", userId, sessionId, grantId, ...target, until, once })
      return Redacted.make(`${PreviewOrigin.originOf(origins, target)}${EXCHANGE}?ticket=${Redacted.value(ticket)}`)
    }),
    formTarget: `${origins.scheme}://*${origins.suffix}`
  })
})
