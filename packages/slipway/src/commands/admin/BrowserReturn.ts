/** A server on this machine that a browser comes back to from an authorization server (RFC 8252, section 7.3). */
import { Deferred, Effect, Schema } from "effect"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

const PATH = "/callback"

/** The port cannot be listened on. */
class PortTaken extends Schema.TaggedError<PortTaken>()("PortTaken", { port: Schema.Number, code: Schema.String }) {
  override get message() {
    return `port ${this.port} of this machine cannot be used (${this.code}): choose another one with --port`
  }
}

/** The browser that came back. */
interface Came {
  readonly query: URLSearchParams
  /** Shows the person a sentence, once. */
  readonly say: (text: string) => Effect.Effect<void>
}

const show = (response: ServerResponse, status: number, text: string) =>
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    connection: "close"
  }).end(`${text}\n`)

/** Listens on loopback until the scope closes. `port`: 0 for a free one. Only the first that comes back counts. */
export const listen = Effect.fnUntraced(function*(port: number) {
  const came = yield* Deferred.make<Came>()
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>, PortTaken>((resume) => {
      const server = createServer({ requestTimeout: 10_000, maxHeaderSize: 16_384 }, (request, response) => {
        const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1")
        if (request.method !== "GET" || pathname !== PATH) return void show(response, 404, "Nothing is here.")
        const taken = Deferred.doneUnsafe(
          came,
          Effect.succeed<Came>({
            query: searchParams,
            say: (text) =>
              Effect.callback<void>((done) => {
                if (response.destroyed) return done(Effect.void)
                response.once("close", () => done(Effect.void))
                show(response, 200, text)
              })
          })
        )
        if (!taken) show(response, 409, "The command has its answer already.")
      })
      server.once("error", (error: NodeJS.ErrnoException) => resume(Effect.fail(new PortTaken({ port, code: error.code ?? "unknown" }))))
      server.listen({ host: "127.0.0.1", port }, () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const { port: at } = server.address() as AddressInfo
  return { redirectUri: `http://127.0.0.1:${at}${PATH}`, answer: Deferred.await(came) }
})
