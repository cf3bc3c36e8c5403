/**
 * The HTTP side of a source host for tests, on a loopback origin: records each request, and makes answers fail, before or after they took
 * effect. Git goes to `git http-backend`.
 */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"

/** A body that is no `Buffer` is sent as JSON. */
export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** One request. */
export interface Seen {
  readonly method: string
  /** With its query. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** `null`: no answer (yet). */
  status: number | null
  /** Resolves when it is over, answered or not. */
  readonly over: Promise<void>
}

/** `hang`: no answer ever comes. `reset`: the connection breaks. Otherwise another answer. A function runs when the request arrives. */
export type Outcome = "hang" | "reset" | Answer | ((seen: Seen) => Answer | undefined)

export interface Fault {
  readonly method: string
  /** A pattern for the URL of {@link Seen}. */
  readonly url: RegExp
  /** A function that returns `undefined` leaves the answer as it is. */
  readonly outcome: Outcome
  /** `after`: the request takes effect, only its answer is lost. Default `before`. */
  readonly when?: "before" | "after"
  /** How many requests it strikes. Default 1. */
  readonly times?: number
}

export interface HostServer {
  /** The origin. */
  readonly url: string
  /** All requests, oldest first. */
  readonly requests: ReadonlyArray<Seen>
  strike(fault: Fault): void
  /** When such a request has arrived, now or earlier. */
  arrived(method: string, url: RegExp): Effect.Effect<Seen>
  /** `look` runs as each request from now on arrives, while its client waits. */
  watch(look: (seen: Seen) => void): void
}

export interface Options {
  /** Answers a request. A rejection becomes a 500 with its stack. */
  readonly serve: (seen: Seen) => Promise<Answer>
  /** The URL that tests see. Default: the path with its query. */
  readonly shownUrl?: (url: string) => string
  /** The server's clock, in milliseconds. */
  readonly now?: () => number
  /** More headers of each answer. */
  readonly headers?: () => Readonly<Record<string, string>>
}

const contentOf = ({ body }: Answer): string | Buffer => body === undefined ? "" : Buffer.isBuffer(body) ? body : JSON.stringify(body)

export const start = (
  { headers = () => ({}), now = Date.now, serve, shownUrl = (url) => url }: Options
): Effect.Effect<HostServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests: Array<Seen> = []
    const faults: Array<Fault & { left: number }> = []
    const listeners = new Set<(seen: Seen) => void>()

    const handle = async (request: IncomingMessage, response: ServerResponse) => {
      const body = await buffer(request)
      const over = new Promise<void>((resolve) => response.once("close", () => resolve()))
      const url = shownUrl(request.url ?? "/")
      const seen: Seen = { method: request.method ?? "", url, headers: request.headers, body, status: null, over }
      requests.push(seen)
      for (const tell of listeners) tell(seen)
      const fault = faults.find(({ left, method, url }) => left > 0 && method === seen.method && url.test(seen.url))
      if (fault !== undefined) fault.left--

      const send = (answer: Answer) => {
        seen.status = answer.status
        response.sendDate = false
        response.writeHead(answer.status, {
          date: new Date(now()).toUTCString(),
          ...headers(),
          ...(answer.body === undefined || Buffer.isBuffer(answer.body) ? {} : { "content-type": "application/json; charset=utf-8" }),
          ...answer.headers
        })
        response.end(contentOf(answer))
      }
      const outcome = typeof fault?.outcome === "function" ? fault.outcome(seen) : fault?.outcome
      if (outcome === undefined) return send(await serve({ ...seen, url: request.url ?? "/" }))
      if (fault?.when === "after") await serve({ ...seen, url: request.url ?? "/" })
      if (outcome === "reset") request.socket.destroy()
      else if (outcome !== "hang") send(outcome)
    }

    const server = createServer((request, response) => {
      handle(request, response).catch((defect: Error) => {
        // The client went away in the middle of its request, or the server is wrong: then the test shows the reason.
        if (!response.headersSent) {
          response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ message: defect.stack }))
        }
      })
    })
    const origin = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.promise(() => {
          server.closeAllConnections()
          return once(server.close(), "close")
        })
    )
    return {
      url: origin(),
      requests,
      watch: (look) => void listeners.add(look),
      strike: (fault) => void faults.push({ ...fault, left: fault.times ?? 1 }),
      arrived: (method, url) =>
        Effect.callback<Seen>((resume) => {
          const tell = (seen: Seen) => {
            if (seen.method !== method || !url.test(seen.url)) return
            listeners.delete(tell)
            resume(Effect.succeed(seen))
          }
          listeners.add(tell)
          for (const seen of requests) tell(seen)
          return Effect.sync(() => void listeners.delete(tell))
        })
    }
  })
