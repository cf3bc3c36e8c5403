/** A worker's HTTP server beside the API, on loopback or a private network, because it is not encrypted. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer } from "effect"
import { HttpServer, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { createServer, type Server } from "node:http"
import type { Socket } from "node:net"
import { refusal, type Served } from "./PrivateAddress.ts"

const LIMITS = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 4096,
  keepAliveTimeout: 1_000
}
/** The longest time without a byte in either direction: more than a download may pause. */
const QUIET_MILLIS = 600_000

/** Answers `CONNECT` requests of the worker's server for trees. By default they are refused. */
export const Channels = Context.Reference<(server: Server) => void>("@slipway/worker-link/Channels", { defaultValue: () => () => {} })

/** Serves until the scope closes. The address comes from `PrivateAddress.resolve`. */
export const layer = <E, R>(
  served: Served,
  answer: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest>,
  /** Adds listeners to the server before it listens. */
  prepare: (server: Server) => void = () => {}
) =>
  Layer.unwrap(Effect.gen(function*() {
    const refuse = yield* refusal(served)
    let node: Server | undefined
    // Those of channels too, which Node no longer counts among its own.
    const sockets = new Set<Socket>()
    const server = NodeHttpServer.layer(() => {
      node = createServer(LIMITS)
      node.setTimeout(QUIET_MILLIS, (socket) => socket.destroy())
      node.on("connection", (socket) => {
        sockets.add(socket)
        socket.once("close", () => sockets.delete(socket))
      })
      prepare(node)
      return node
    }, { ...served.listen, gracefulShutdownTimeout: "1 second" }).pipe(
      Layer.catchTag("ServeError", ({ cause }) =>
        Layer.effect(
          HttpServer.HttpServer,
          refuse(cause instanceof Error ? `${cause.message}.` : "it cannot be listened on.")
        ))
    )
    // Between the two layers, because an unfinished request has no handler that would end.
    const cut = Layer.effectDiscard(Effect.addFinalizer(() =>
      Effect.sync(() => {
        node?.closeAllConnections()
        // An ordinary close would look like the end of the bytes.
        for (const socket of sockets) socket.resetAndDestroy()
      })
    ))
    return HttpServer.serve(answer).pipe(Layer.provideMerge(cut), Layer.provideMerge(server))
  }))
