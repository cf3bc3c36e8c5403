/** Passes one request to a server of a box, and its answer back. */
import { Effect } from "effect"
import { type ClientRequest, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http"
import { type Duplex, pipeline } from "node:stream"
import type { Target } from "../PreviewOrigin.ts"
import * as PreviewHeaders from "./PreviewHeaders.ts"

/** Until the answer begins: a development server compiles first. */
const ANSWER_MILLIS = 120_000
/** The longest time without a byte in either direction. */
const IDLE_MILLIS = 600_000
const IDLE_SOCKET_MILLIS = 3_600_000
/** Bytes of the headers of an answer. */
const MAX_HEADER_BYTES = 64 * 1024

/** One exchange with the browser. */
export interface Exchange {
  readonly message: IncomingMessage
  readonly response: () => ServerResponse
  /** Bytes after the head of a request that asks for another protocol. */
  readonly early: Buffer
}

/** `unanswered`: the box closed the connection, or sent no HTTP, before an answer began. */
export type Outcome = "done" | "unanswered"

export const isWebSocket = ({ headers, method }: IncomingMessage): boolean =>
  method === "GET" && headers.upgrade?.toLowerCase() === "websocket"

const bodyOf = ({ headers }: IncomingMessage): Record<string, string> =>
  headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }

/** Joins the browser's connection and the box's after the agreement to speak WebSocket. */
const joined = ({ early, message }: Exchange, answer: IncomingMessage, box: Duplex, first: Buffer, target: Target, done: () => void) => {
  const { socket } = message
  const lines = Object.entries(PreviewHeaders.fromBox(answer, target)).flatMap(([name, values]) =>
    values.map((value) => `${name}: ${value}`)
  )
  socket.write(["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket", ...lines, "", ""].join("\r\n"), "latin1")
  if (first.length > 0) box.unshift(first)
  if (early.length > 0) box.write(early)
  const end = () => {
    clearTimeout(idle)
    socket.destroy()
    box.destroy()
    done()
  }
  const idle = setTimeout(end, IDLE_SOCKET_MILLIS)
  for (const one of [socket, box]) one.on("data", () => idle.refresh())
  let open = 2
  const half = (error?: Error | null) => (error || --open === 0) && end()
  pipeline(socket, box, half)
  pipeline(box, socket, half)
}

/** Answers the browser. Interruption ends both connections; the caller closes the box's. */
export const forward = (exchange: Exchange, box: Duplex, target: Target, origin: URL): Effect.Effect<Outcome> =>
  Effect.callback((resume) => {
    const { message } = exchange
    const upgrades = isWebSocket(message)
    let isBegun = false
    const sent: ClientRequest = httpRequest({
      createConnection: () => box,
      method: message.method,
      path: message.url,
      setHost: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      headers: {
        ...PreviewHeaders.toBox(message, target, origin),
        ...(upgrades ? { connection: "Upgrade", upgrade: "websocket" } : { ...bodyOf(message), connection: "close" })
      }
    })
    const cut = () => {
      sent.destroy()
      box.destroy()
      if (isBegun) message.socket.destroy()
    }
    const timer = setTimeout(() => cut(), ANSWER_MILLIS)
    const done = (outcome: Outcome) => {
      clearTimeout(timer)
      resume(Effect.succeed(outcome))
    }
    const failed = () => {
      cut()
      done(isBegun ? "done" : "unanswered")
    }
    // There may be a second one when the connection closes. Without a listener it would end the process.
    sent.on("error", failed)
    box.once("close", () => isBegun || failed())
    sent.once("response", (answer) => {
      isBegun = true
      clearTimeout(timer)
      const response = exchange.response()
      response.writeHead(answer.statusCode ?? 502, PreviewHeaders.fromBox(answer, target))
      // The head of a stream of events must not wait for its first event.
      response.flushHeaders()
      const idle = setTimeout(() => cut(), IDLE_MILLIS)
      answer.on("data", () => idle.refresh())
      pipeline(answer, response, (error) => {
        clearTimeout(idle)
        if (error) cut()
        done("done")
      })
    })
    sent.once("upgrade", (answer, socket, first) => {
      isBegun = true
      clearTimeout(timer)
      if (!upgrades) return failed()
      joined(exchange, answer, socket, first, target, () => done("done"))
    })
    if (upgrades) sent.end()
    else {
      if (message.headers.expect?.toLowerCase() === "100-continue") exchange.response().writeContinue()
      pipeline(message, sent, (error) => error && failed())
    }
    return Effect.sync(() => {
      clearTimeout(timer)
      cut()
    })
  })
