/** Opens channels to the worker with a sandbox's lease. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BoxNotRunning, WorkerUnreachable } from "@slipway/domain/sandbox/ports/BoxConnection"
import * as SocketConnection from "@slipway/machine/network/SocketConnection"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Clock, Effect, Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { type IncomingMessage, request as httpRequest } from "node:http"
import { connect, type Socket } from "node:net"
import * as LinkAddresses from "../LinkAddresses.ts"
import * as Protocol from "../LinkProtocol.ts"
import { type Endpoint, parse } from "../PrivateAddress.ts"
import * as ChannelProtocol from "./ChannelProtocol.ts"

export interface TimeLimits {
  readonly connectMillis: number
  /** From the request to the answer: the worker connects inside the box. */
  readonly answerMillis: number
}

const LIMITS: TimeLimits = { connectMillis: 2_000, answerMillis: 15_000 }
const KEEP_ALIVE_MILLIS = 30_000

const encodeRequest = Schema.encodeEffect(Schema.fromJsonString(ChannelProtocol.Request))
const decodeRefusal = Schema.decodeEffect(Schema.fromJsonString(ChannelProtocol.Refusal))

interface Answer {
  readonly response: IncomingMessage
  readonly socket: Socket
}

/** Sends the request and returns its answer. The connection lasts as long as the scope. */
const send = Effect.fnUntraced(function*({ host, port }: Endpoint, headers: Readonly<Record<string, string>>, limits: TimeLimits) {
  const socket = yield* Effect.acquireRelease(
    Effect.sync(() => connect({ host, port, allowHalfOpen: true }).on("error", () => {}).setKeepAlive(true, KEEP_ALIVE_MILLIS)),
    (socket) =>
      // An ordinary close would look like the end of the bytes.
      Effect.sync(() => socket.readableEnded && socket.writableEnded ? socket.destroySoon() : socket.resetAndDestroy())
  )
  return yield* Effect.callback<Answer, WorkerUnreachable>((resume) => {
    const fail = () => resume(Effect.fail(new WorkerUnreachable()))
    let timer = setTimeout(fail, limits.connectMillis)
    socket.once("connect", () => {
      clearTimeout(timer)
      timer = setTimeout(fail, limits.answerMillis)
    })
    const request = httpRequest({
      createConnection: () => socket,
      method: "CONNECT",
      path: ChannelProtocol.AUTHORITY,
      headers: { host: ChannelProtocol.AUTHORITY, ...headers }
    })
    request.once("error", fail)
    request.once("response", fail)
    request.once("connect", (response: IncomingMessage, _: Socket, early: Buffer) => {
      clearTimeout(timer)
      if (early.length > 0) socket.unshift(early)
      resume(Effect.succeed({ response, socket }))
    })
    request.end()
    return Effect.sync(() => clearTimeout(timer))
  })
})

/** An operation that is done without a channel if the worker is in this process. */
export interface Operation<A, E, R> {
  readonly wanted: ChannelProtocol.Wanted
  readonly here: Effect.Effect<A, E, R>
}

/** `own`: the name of the worker in this process; `null`: no worker. */
export const make = Effect.fnUntraced(function*(options: { readonly own: string | null; readonly limits?: Partial<TimeLimits> }) {
  const links = yield* LinkAddresses.make
  const key = yield* SharedSecret.load(Protocol.SECRET)
  const limits = { ...LIMITS, ...options.limits }

  const openAt = Effect.fnUntraced(
    function*(worker: string, endpoint: Endpoint, sandboxId: SandboxId, wanted: ChannelProtocol.Wanted) {
      const body = yield* Effect.orDie(
        encodeRequest({ worker, sandboxId, wanted, at: yield* Clock.currentTimeMillis, nonce: randomUUID() })
      )
      const proof = Protocol.proofOfRequest(key, ChannelProtocol.LABEL + body)
      const { response, socket } = yield* send(
        endpoint,
        { authorization: proof, [ChannelProtocol.REQUEST_HEADER]: Buffer.from(body).toString("base64url") },
        limits
      )
      const { headers, statusCode = 0 } = response
      const refusal = headers[ChannelProtocol.REFUSAL_HEADER]
      const said = statusCode === Protocol.REFUSED && typeof refusal === "string" ? Buffer.from(refusal, "base64url").toString("utf8") : ""
      const given = headers[Protocol.PROOF_HEADER]
      const isProven = typeof given === "string" && Protocol.isSame(Protocol.proofOfAnswer(key, proof, statusCode, said), given)
      if (!isProven) return yield* new WorkerUnreachable()
      if (statusCode === 200) return SocketConnection.of(socket)
      return yield* Effect.flatMap(Effect.mapError(decodeRefusal(said), () => new WorkerUnreachable()), Effect.fail)
    },
    (opened, worker) =>
      Effect.tapError(
        opened,
        ({ _tag }) => _tag === "WorkerUnreachable" ? Effect.logWarning("a worker cannot be reached", { worker }) : Effect.void
      )
  )

  /** Opens the operation's connection on the worker with the lease. `BoxNotRunning`: no worker has it. */
  const open = Effect.fn("Channels.open")(function*<A, E, R>(
    sandboxId: SandboxId,
    { here, wanted }: Operation<A, E, R>
  ) {
    const holder = Option.getOrNull(yield* links.holder(sandboxId))
    if (holder === null) return yield* new BoxNotRunning()
    if (holder.worker === options.own) return yield* here
    const endpoint = holder.address === null ? null : parse(holder.address)
    return endpoint === null ? yield* new WorkerUnreachable() : yield* openAt(holder.worker, endpoint, sandboxId, wanted)
  })
  return { open }
})

export type Channels = Effect.Success<ReturnType<typeof make>>
