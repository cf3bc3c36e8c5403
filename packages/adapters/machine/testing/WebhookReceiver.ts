/** A partner's receiver of webhooks, on this machine: it keeps what came and answers as it is told. */
import { Effect, Queue } from "effect"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"

/** One request as it came. */
export interface Received {
  readonly path: string
  /** In lower case. */
  readonly headers: IncomingHttpHeaders
  /** As it came over the connection. */
  readonly body: Buffer
}

/** How one request is answered. */
export type Answer = (response: ServerResponse, request: IncomingMessage) => void

export const status = (code: number, headers: Record<string, string> = {}, body = ""): Answer => (response) =>
  void response.writeHead(code, headers).end(body)
/** Never answers. */
export const hang: Answer = () => {}
/** Cuts the connection. */
export const reset: Answer = (response) => void response.socket?.resetAndDestroy()

export interface Receiver {
  readonly port: number
  readonly received: ReadonlyArray<Received>
  /** The next request, as soon as it is there. */
  readonly next: Effect.Effect<Received>
  /** Answers of the next requests; 204 when there are none left. */
  readonly answers: Array<Answer>
}

/** Listens on 127.0.0.1 until the scope closes; with TLS when there is a certificate. */
export const start = (tls?: { readonly key: string; readonly cert: string }) =>
  Effect.gen(function*() {
    const received: Array<Received> = []
    const answers: Array<Answer> = []
    const arrived = yield* Queue.unbounded<Received>()
    const listen = (request: IncomingMessage, response: ServerResponse) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("error", () => {})
      request.on("end", () => {
        const one = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) }
        received.push(one)
        ;(answers.shift() ?? status(204))(response, request)
        Queue.offerUnsafe(arrived, one)
      })
    }
    const server = tls === undefined ? createServer(listen) : createTlsServer(tls, listen)
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const receiver: Receiver = { port: typeof address === "object" ? address?.port ?? 0 : 0, received, next: Queue.take(arrived), answers }
    return receiver
  })
