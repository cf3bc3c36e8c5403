/** The worker's side of channels: `CONNECT` requests at its private endpoint. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type ByteConnection, join, WorkerUnreachable } from "@slipway/domain/sandbox/ports/BoxConnection"
import { LocalBoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { LocalTerminals, switchedOff } from "@slipway/domain/sandbox/ports/Terminals"
import * as SocketConnection from "@slipway/machine/network/SocketConnection"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Clock, Effect, FiberSet, Layer, Option, type Redacted, Result, Schema, type Scope } from "effect"
import type { IncomingMessage, Server } from "node:http"
import type { Socket } from "node:net"
import * as Protocol from "../LinkProtocol.ts"
import * as PrivateServer from "../PrivateServer.ts"
import * as ChannelProtocol from "./ChannelProtocol.ts"
import * as TerminalChannel from "./TerminalChannel.ts"

/** Channels of this worker at the same time, for all sandboxes. */
const MAX_CHANNELS = 4096
const KEEP_ALIVE_MILLIS = 30_000

const decodeRequest = Schema.decodeUnknownEffect(Schema.fromJsonString(ChannelProtocol.Request))
const encodeRefusal = Schema.encodeEffect(Schema.fromJsonString(ChannelProtocol.Refusal))

const textOf = (value: string | ReadonlyArray<string> | undefined): string => typeof value === "string" ? value : ""

/** Remembers the nonces of requests that would still be accepted. */
const nonces = () => {
  const seen = new Map<string, number>()
  /** `false`: the nonce was used. */
  return (nonce: string, now: number): boolean => {
    // The oldest come first.
    for (const [old, until] of seen) {
      if (until > now) break
      seen.delete(old)
    }
    if (seen.has(nonce)) return false
    seen.set(nonce, now + 2 * Protocol.MAX_AGE_MILLIS)
    return true
  }
}

interface Accepted {
  readonly proof: string
  readonly request: typeof ChannelProtocol.Request.Type
}

/** The request of a `CONNECT`, or the status of its refusal. */
const accept = Effect.fnUntraced(function*(
  { headers, url }: IncomingMessage,
  { isNew, key }: { readonly isNew: ReturnType<typeof nonces>; readonly key: Redacted.Redacted }
): Effect.fn.Return<Accepted, number> {
  if (url !== ChannelProtocol.AUTHORITY) return yield* Effect.fail(404)
  const text = textOf(headers[ChannelProtocol.REQUEST_HEADER])
  if (text.length > ChannelProtocol.MAX_REQUEST_CHARACTERS) return yield* Effect.fail(413)
  const body = Buffer.from(text, "base64url").toString("utf8")
  const proof = Protocol.proofOfRequest(key, ChannelProtocol.LABEL + body)
  if (!Protocol.isSame(proof, headers.authorization ?? "")) return yield* Effect.fail(401)
  const request = yield* Effect.mapError(decodeRequest(body), () => 400)
  const now = yield* Clock.currentTimeMillis
  if (Math.abs(now - request.at) > Protocol.MAX_AGE_MILLIS || !isNew(request.nonce, now)) return yield* Effect.fail(401)
  return { proof, request }
})

/** Opens the operation's connection on this machine. */
type Open = (
  sandboxId: SandboxId,
  wanted: ChannelProtocol.Wanted
) => Effect.Effect<ByteConnection, ChannelProtocol.Refusal, Scope.Scope>

const opening = Effect.gen(function*() {
  const ports = yield* LocalBoxPorts
  const terminals = Option.getOrNull(yield* Effect.serviceOption(LocalTerminals))
  return (sandboxId: SandboxId, wanted: ChannelProtocol.Wanted): ReturnType<Open> => {
    switch (wanted.operation) {
      case "port":
        return ports.connect(sandboxId, wanted.port)
      case "terminal":
        return terminals === null
          ? Effect.fail(switchedOff())
          : Effect.flatMap(terminals.attach(sandboxId, wanted), TerminalChannel.connectionOf)
    }
  }
})

const head = (status: number, headers: Readonly<Record<string, string>> = {}): string =>
  [`HTTP/1.1 ${status} ${status === 200 ? "Connected" : "Refused"}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "", ""]
    .join("\r\n")

/** Returns a function that lets a server answer `CONNECT` requests until the scope closes. */
const make = Effect.fnUntraced(function*(worker: string) {
  const key = yield* SharedSecret.load(Protocol.SECRET)
  const open = yield* opening
  const isNew = nonces()
  const fibers = yield* FiberSet.make<void>()
  const run = yield* FiberSet.runtime(fibers)()

  const serve = Effect.fnUntraced(function*(message: IncomingMessage, socket: Socket, early: Buffer) {
    const accepted = yield* Effect.result(accept(message, { key, isNew }))
    if (Result.isFailure(accepted)) return void socket.end(head(accepted.failure), () => socket.destroy())
    const { proof, request: { sandboxId, wanted, ...request } } = accepted.success
    const proven = (status: number, said: string) => ({ [Protocol.PROOF_HEADER]: Protocol.proofOfAnswer(key, proof, status, said) })
    const opened = yield* Effect.result(request.worker === worker ? open(sandboxId, wanted) : Effect.fail(new WorkerUnreachable()))
    if (Result.isFailure(opened)) {
      const said = yield* Effect.orDie(encodeRefusal(opened.failure))
      const refusal = { [ChannelProtocol.REFUSAL_HEADER]: Buffer.from(said).toString("base64url") }
      return void socket.end(head(Protocol.REFUSED, { ...proven(Protocol.REFUSED, said), ...refusal }), () => socket.destroy())
    }
    if (early.length > 0) socket.unshift(early)
    socket.write(head(200, proven(200, "")))
    yield* join(SocketConnection.of(socket), opened.success)
  })

  let channels = 0
  return (server: Server) => {
    server.on("connect", (message: IncomingMessage, socket: Socket, early: Buffer) => {
      socket.on("error", () => {})
      if (channels >= MAX_CHANNELS) return void socket.destroy()
      channels++
      socket.once("close", () => channels--)
      // A quiet channel stays open. A peer that is gone is noticed.
      socket.setTimeout(0).setKeepAlive(true, KEEP_ALIVE_MILLIS)
      run(
        Effect.raceFirst(Effect.scoped(serve(message, socket, early)), SocketConnection.broken(socket)).pipe(
          // A reset, because an ordinary close would look like the end of the bytes.
          Effect.onError(() => Effect.sync(() => socket.resetAndDestroy())),
          Effect.ignore
        )
      )
    })
  }
})

/** For `TreeServer.layer`. `worker`: its name in its leases. */
export const layer = (worker: string) => Layer.effect(PrivateServer.Channels, make(worker))
