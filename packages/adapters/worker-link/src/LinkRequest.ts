/** One request to a worker, and the bytes of its answer. */
import { Effect, Schema } from "effect"
import { type IncomingMessage, request as httpRequest } from "node:http"
import * as Protocol from "./LinkProtocol.ts"
import type { Endpoint } from "./PrivateAddress.ts"

export interface TimeLimits {
  readonly connectMillis: number
  /** From the request to the beginning of the answer. Listing a large tree takes seconds. */
  readonly answerMillis: number
  /** The longest wait for the next byte. */
  readonly idleMillis: number
}

/** As in `WorkingTrees`. */
const CHUNK_BYTES = 65_536
/** Bytes of an answer that is not a file: 5,000 entries of a deep directory, or three texts of a megabyte in JSON. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20

/** The connection was closed, or timed out. */
export class Cut extends Schema.TaggedError<Cut>()("Cut", {}) {}

/** Sends the request and returns the head of its answer. The connection lasts as long as the scope. */
export const send = Effect.fnUntraced(function*({ host, port }: Endpoint, body: string, proof: string, limits: TimeLimits) {
  const request = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const sending = httpRequest({
        host,
        port,
        method: "POST",
        path: Protocol.PATH,
        // No connection is reused: the worker might have closed it, which would fail the next request.
        agent: false,
        headers: { authorization: proof, "content-type": "application/json", "content-length": Buffer.byteLength(body) }
      })
      // Errors after the answer began are noticed by the reader of the answer.
      sending.on("error", () => {})
      return sending
    }),
    (sending) => Effect.sync(() => sending.destroy())
  )
  return yield* Effect.callback<IncomingMessage, Cut>((resume) => {
    const fail = () => resume(Effect.fail(new Cut()))
    let timer = setTimeout(fail, limits.connectMillis)
    request.once("error", fail)
    request.once("socket", (socket) =>
      socket.once("connect", () => {
        clearTimeout(timer)
        timer = setTimeout(fail, limits.answerMillis)
      }))
    request.once("response", (response: IncomingMessage) => {
      clearTimeout(timer)
      response.on("error", () => {})
      resume(Effect.succeed(response))
    })
    request.end(body)
    return Effect.sync(() => clearTimeout(timer))
  })
})

/** The next bytes of an answer, read on demand; `null` at its end. */
export const next = (response: IncomingMessage, { idleMillis }: TimeLimits) =>
  Effect.callback<Uint8Array | null, Cut>((resume) => {
    const stop = () => {
      clearTimeout(timer)
      response.off("readable", look).off("end", look).off("close", look)
    }
    const done = (result: Effect.Effect<Uint8Array | null, Cut>) => {
      stop()
      resume(result)
    }
    const look = () => {
      const chunk: Buffer | null = response.read(Math.min(response.readableLength, CHUNK_BYTES))
      if (chunk !== null) return done(Effect.succeed(chunk))
      if (response.readableEnded) return done(Effect.succeed(null))
      if (response.destroyed) done(Effect.fail(new Cut()))
    }
    const timer = setTimeout(() => done(Effect.fail(new Cut())), idleMillis)
    response.on("readable", look).on("end", look).on("close", look)
    look()
    return Effect.sync(stop)
  })

export const readAll = Effect.fnUntraced(function*(response: IncomingMessage, limits: TimeLimits) {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for (;;) {
    const chunk = yield* next(response, limits)
    if (chunk === null) return Buffer.concat(chunks).toString("utf8")
    length += chunk.length
    if (length > MAX_ANSWER_BYTES) return yield* new Cut()
    chunks.push(chunk)
  }
})
