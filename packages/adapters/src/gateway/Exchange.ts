/**
 * One request to a provider and its answer on the way to the agent, byte by byte and no faster than the agent reads.
 * Interrupting it cuts both connections at once.
 */
import { Effect } from "effect"
import { type Agent, type ClientRequest, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http"
import { request as httpsRequest } from "node:https"
import { isObject } from "./JsonFields.ts"
import { KeyGuard, withoutKey } from "./KeyGuard.ts"
import type { Protocol } from "./Protocol.ts"
import type { UsageMeter } from "./UsageMeter.ts"

export interface TimeLimits {
  readonly connectMillis: number
  /** From the request until the answer begins. */
  readonly firstByteMillis: number
  /** Without a byte in either direction. */
  readonly idleMillis: number
}

export interface Outgoing {
  readonly url: URL
  readonly agent: Agent
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Never shown to the agent, wherever it turns up. */
  readonly key: string | null
  readonly protocol: Protocol
  readonly limits: TimeLimits
  /** Made for each answer that is one. */
  readonly meter: (streaming: boolean) => UsageMeter
  /** The meter's count may have changed. Called before the bytes that say so reach the agent. */
  readonly counted: () => void
  /** The provider did not answer, or with an error: its status and words. Called before the agent knows. */
  readonly failed: (status: number | null, said: string) => void
}

/**
 * `unsent`: the provider never got it. `refused`: it answered with an error. `answered`: to the end. `cut`: it got the
 * request, and the answer is not all there.
 */
export type Outcome = "unsent" | "refused" | "answered" | "cut"

/** An error of ours, in the protocol's words. */
export const refuse = (
  response: ServerResponse,
  protocol: Protocol,
  error: Parameters<Protocol["error"]>[0],
  headers: Readonly<Record<string, string>> = {}
) => {
  if (response.headersSent) {
    response.destroy()
    return
  }
  response.writeHead(error.status, {
    "content-type": "application/json",
    "cache-control": "no-store",
    // Understood by the clients of both companies.
    "x-should-retry": "false",
    ...headers
  })
  response.end(JSON.stringify(protocol.error(error)))
}

const SHOWN_HEADERS = ["retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry"]

const shownHeaders = ({ headers }: IncomingMessage, key: string | null) => {
  const shown: Record<string, string> = {}
  for (const name of SHOWN_HEADERS) {
    const value = headers[name]
    if (typeof value === "string" && withoutKey(value, key) === value) shown[name] = value
  }
  return shown
}

/** Of an error's body. */
const MAXIMUM_ERROR_BYTES = 64 * 1024

const errorBody = (text: string): object | null => {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) && (isObject(value["error"]) || typeof value["error"] === "string") ? value : null
  } catch {
    return null
  }
}

const failures: Readonly<Record<string, string>> = {
  connect: "The model's provider cannot be reached.",
  slow: "The model's provider did not answer in time.",
  stalled: "The model's provider stopped in the middle of its answer.",
  reset: "The model's provider broke off the connection.",
  strange: "The model's provider answered with something that is no answer of a model."
}

export const exchange = (out: Outgoing, response: ServerResponse): Effect.Effect<Outcome> =>
  Effect.callback<Outcome>((resume) => {
    const { agent, body, counted, failed, headers, key, limits, protocol, url } = out
    const start = url.protocol === "https:" ? httpsRequest : httpRequest
    let upstream: ClientRequest | undefined
    let incoming: IncomingMessage | undefined
    let timer: NodeJS.Timeout | undefined
    let sent = false
    let over = false

    const limit = (millis: number, because: keyof typeof failures) => {
      clearTimeout(timer)
      timer = setTimeout(() => fail(because, because === "connect" ? 502 : 504), millis)
    }
    const finish = (outcome: Outcome) => {
      if (over) return
      over = true
      clearTimeout(timer)
      response.off("close", left)
      resume(Effect.succeed(outcome))
    }
    const cut = () => {
      incoming?.destroy()
      upstream?.destroy()
    }
    const fail = (because: keyof typeof failures, status = 502) => {
      if (over) return
      cut()
      failed(null, "")
      refuse(response, protocol, {
        status,
        code: status === 504 ? "upstream_timeout" : "upstream_unavailable",
        message: failures[because] ?? ""
      })
      finish(sent ? "cut" : "unsent")
    }
    const left = () => {
      cut()
      finish(sent ? "cut" : "unsent")
    }

    const passError = (status: number, answer: IncomingMessage) => {
      const chunks: Array<Buffer> = []
      let length = 0
      answer.on("data", (chunk: Buffer) => {
        length += chunk.length
        if (length <= MAXIMUM_ERROR_BYTES) chunks.push(chunk)
      })
      answer.on("error", () => fail("reset"))
      answer.on("end", () => {
        if (over) return
        const shown = shownHeaders(answer, key)
        // What a provider says of the operator's account is no business of an agent's.
        const refused = status === 401 || status === 403
        const said = Buffer.concat(chunks).toString("utf8")
        failed(status, withoutKey(said, key))
        const own = refused || length > MAXIMUM_ERROR_BYTES ? null : errorBody(said)
        if (own === null) {
          refuse(response, protocol, {
            status: status < 400 ? 502 : status,
            code: "upstream_error",
            message: refused
              ? "The model's provider refuses the service's account."
              : `The model's provider answered with status ${status}.`
          }, refused ? {} : shown)
        } else {
          response.writeHead(status, { ...shown, "content-type": "application/json", "cache-control": "no-store" })
          // After it is encoded again: what came may have been escaped.
          response.end(withoutKey(JSON.stringify(own), key))
        }
        finish("refused")
      })
    }

    const passAnswer = (answer: IncomingMessage, streaming: boolean) => {
      const meter = out.meter(streaming)
      const guard = new KeyGuard(key)
      // Without a length the agent cannot take the answer for complete before it is counted.
      response.writeHead(answer.statusCode ?? 200, {
        ...shownHeaders(answer, key),
        "content-type": streaming ? "text/event-stream; charset=utf-8" : "application/json",
        "cache-control": "no-store"
      })
      response.flushHeaders()
      limit(limits.idleMillis, "stalled")
      answer.on("data", (chunk: Buffer) => {
        timer?.refresh()
        if (meter.add(chunk)) counted()
        const bytes = guard.pass(chunk)
        if (bytes.length === 0 || response.write(bytes)) return
        answer.pause()
        response.once("drain", () => {
          timer?.refresh()
          answer.resume()
        })
      })
      answer.on("error", () => fail("reset"))
      answer.on("end", () => {
        if (over) return
        if (meter.end()) counted()
        response.end(guard.end())
        finish("answered")
      })
      // An answer that ends too early has no other sign.
      answer.on("close", () => {
        if (!answer.complete) fail("reset")
      })
    }

    const attempt = (again: boolean) => {
      const sending = start(url, { method: "POST", agent, headers: { ...headers, "content-length": body.length } })
      upstream = sending
      limit(limits.connectMillis, "connect")
      sending.on("socket", (socket) => {
        const connected = () => {
          sent = true
          limit(limits.firstByteMillis, "slow")
        }
        if (socket.connecting) socket.once(url.protocol === "https:" ? "secureConnect" : "connect", connected)
        else connected()
      })
      sending.on("response", (answer) => {
        incoming = answer
        const status = answer.statusCode ?? 502
        const [type = ""] = (answer.headers["content-type"] ?? "").split(";")
        const streaming = type.trim().toLowerCase() === "text/event-stream"
        const encoded = (answer.headers["content-encoding"] ?? "identity") !== "identity"
        limit(limits.idleMillis, "stalled")
        if (status < 200 || status > 299) return passError(status, answer)
        if (encoded || !streaming && !/^application\/(?:[\w.-]+\+)?json$/iu.test(type.trim())) return fail("strange")
        passAnswer(answer, streaming)
      })
      // Another protocol is no answer of a model's.
      sending.on("upgrade", (answer, socket) => {
        incoming = answer
        socket.destroy()
        fail("strange")
      })
      // A connection that ends without an answer, an error or a word.
      sending.on("close", () => {
        if (sending === upstream && incoming === undefined) fail(sent ? "reset" : "connect")
      })
      sending.on("error", () => {
        if (over || sending !== upstream) return
        // The provider closed an idle connection just as it was taken for this request.
        if (again && sending.reusedSocket && incoming === undefined) return attempt(false)
        fail(sent ? "reset" : "connect")
      })
      sending.end(body)
    }

    response.once("close", left)
    if (response.destroyed) left()
    else attempt(true)
    return Effect.sync(() => {
      over = true
      clearTimeout(timer)
      response.off("close", left)
      cut()
      response.destroy()
    })
  })
