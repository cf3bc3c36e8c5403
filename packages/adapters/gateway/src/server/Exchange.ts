/**
 * One request to a provider. Its answer is passed to the agent byte by byte, no faster than the agent reads. Interrupting it closes
 * both connections at once.
 */
import { proxyFailureIn, request, whenConnected } from "@slipway/machine/network/OutgoingRequest"
import { Effect } from "effect"
import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from "node:http"
import { isObject } from "../protocols/JsonFields.ts"
import type { Protocol } from "../protocols/Protocol.ts"
import type { UsageMeter } from "../protocols/UsageMeter.ts"
import type { BedrockStream } from "../providers/BedrockStream.ts"
import { KeyGuard, withoutKeys } from "./KeyGuard.ts"

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
  /** Never shown to the agent, in any position. */
  readonly secrets: ReadonlyArray<string>
  /** Makes server-sent events of a stream of frames; `null`: the provider has no such streams. */
  readonly decoder: (() => BedrockStream) | null
  readonly protocol: Protocol
  readonly limits: TimeLimits
  /** Called for each successful answer. */
  readonly meter: (streaming: boolean) => UsageMeter
  /** The meter's count may have changed. Called before the agent gets the bytes with the count. */
  readonly counted: () => void
  /**
   * The provider did not answer, or sent an error: its status and text. Called before the agent gets it. Without an answer `said` is our
   * own sentence, or empty.
   */
  readonly failed: (status: number | null, said: string) => void
}

/**
 * `unsent`: the provider never got the request. `refused`: it sent an error. `answered`: it sent the complete answer. `cut`: it got the
 * request, and the answer is incomplete.
 */
export type Outcome = "unsent" | "refused" | "answered" | "cut"

/** An error of ours in the protocol's format. */
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

const shownHeaders = ({ headers }: IncomingMessage, secrets: ReadonlyArray<string>) => {
  const shown: Record<string, string> = {}
  for (const name of SHOWN_HEADERS) {
    const value = headers[name]
    if (typeof value === "string" && withoutKeys(value, secrets) === value) shown[name] = value
  }
  return shown
}

/** Bytes of an error's body. */
const MAXIMUM_ERROR_BYTES = 64 * 1024

/** The form of Google's own errors, which agents of Anthropic do not read. */
const isGoogles = (error: Readonly<Record<string, unknown>>): boolean => typeof error["code"] === "number" && error["type"] === undefined

/** The provider's error as agents read it; `null`: it has none. Google wraps some errors in a list, and AWS sends only a message. */
const errorBody = (text: string, protocol: Protocol, status: number): object | null => {
  try {
    const parsed: unknown = JSON.parse(text)
    const value: unknown = Array.isArray(parsed) ? parsed[0] : parsed
    if (!isObject(value)) return null
    const { error, message } = value
    if (typeof error === "string" || isObject(error) && !isGoogles(error)) return value
    const said = isObject(error) ? error["message"] : message
    return typeof said === "string" && said !== "" ? protocol.error({ status, code: "upstream_error", message: said }) : null
  } catch {
    return null
  }
}

const failures: Readonly<Record<string, string>> = {
  connect: "The model's provider cannot be reached.",
  slow: "The model's provider did not answer in time.",
  stalled: "The model's provider stopped in the middle of its answer.",
  reset: "The model's provider closed the connection.",
  strange: "The model's provider sent an invalid answer."
}

/** A request to a provider under way. */
interface Exchange {
  readonly out: Outgoing
  readonly response: ServerResponse
  readonly resume: (outcome: Effect.Effect<Outcome>) => void
  /** The agent closed its connection. */
  readonly left: () => void
  upstream: ClientRequest | undefined
  incoming: IncomingMessage | undefined
  timer: NodeJS.Timeout | undefined
  /** The provider may have the request. */
  sent: boolean
  over: boolean
}

const limit = (under: Exchange, millis: number, because: keyof typeof failures) => {
  clearTimeout(under.timer)
  under.timer = setTimeout(() => fail(under, because, because === "connect" ? 502 : 504), millis)
}

const finish = (under: Exchange, outcome: Outcome) => {
  if (under.over) return
  under.over = true
  clearTimeout(under.timer)
  under.response.off("close", under.left)
  under.resume(Effect.succeed(outcome))
}

const cut = ({ incoming, upstream }: Exchange) => {
  incoming?.destroy()
  upstream?.destroy()
}

const fail = (under: Exchange, because: keyof typeof failures, status = 502, said = "") => {
  if (under.over) return
  cut(under)
  under.out.failed(null, said)
  refuse(under.response, under.out.protocol, {
    status,
    code: status === 504 ? "upstream_timeout" : "upstream_unavailable",
    message: failures[because] ?? ""
  })
  finish(under, under.sent ? "cut" : "unsent")
}

/** An answer with an error, without the operator's key and without errors about the operator's account. */
const passError = (under: Exchange, status: number, answer: IncomingMessage) => {
  const { out: { failed, protocol, secrets }, response } = under
  const chunks: Array<Buffer> = []
  let length = 0
  answer.on("data", (chunk: Buffer) => {
    length += chunk.length
    if (length <= MAXIMUM_ERROR_BYTES) chunks.push(chunk)
  })
  answer.on("error", () => fail(under, "reset"))
  answer.on("end", () => {
    if (under.over) return
    const shown = shownHeaders(answer, secrets)
    // Errors about the operator's account are not for agents.
    const refused = status === 401 || status === 403
    const said = Buffer.concat(chunks).toString("utf8")
    failed(status, withoutKeys(said, secrets))
    const own = refused || length > MAXIMUM_ERROR_BYTES ? null : errorBody(said, protocol, status)
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
      // Checked after it is encoded again, because the received text may be escaped.
      response.end(withoutKeys(JSON.stringify(own), secrets))
    }
    finish(under, "refused")
  })
}

/** An answer of the model, chunk by chunk and no faster than the agent reads. */
const passAnswer = (under: Exchange, answer: IncomingMessage, streaming: boolean, decoder: BedrockStream | null) => {
  const { out: { counted, limits, meter: meterOf, secrets }, response } = under
  const meter = meterOf(streaming)
  const guard = new KeyGuard(secrets)
  // Without a length, so that the agent cannot take the answer for complete before it is counted.
  response.writeHead(answer.statusCode ?? 200, {
    ...shownHeaders(answer, secrets),
    "content-type": streaming ? "text/event-stream; charset=utf-8" : "application/json",
    "cache-control": "no-store"
  })
  response.flushHeaders()
  limit(under, limits.idleMillis, "stalled")
  answer.on("data", (received: Buffer) => {
    under.timer?.refresh()
    const chunk = decoder === null ? received : decoder.push(received)
    if (meter.add(chunk)) counted()
    const bytes = guard.pass(chunk)
    if (decoder?.isInvalid === true) {
      response.write(bytes)
      return fail(under, "strange")
    }
    if (bytes.length === 0 || response.write(bytes)) return
    answer.pause()
    response.once("drain", () => {
      under.timer?.refresh()
      answer.resume()
    })
  })
  answer.on("error", () => fail(under, "reset"))
  answer.on("end", () => {
    if (under.over) return
    if (meter.end()) counted()
    if (decoder?.isCut === true) return fail(under, "reset")
    response.end(guard.end())
    finish(under, decoder === null || decoder.isComplete ? "answered" : "cut")
  })
  // The only sign of an answer that ends too early.
  answer.on("close", () => {
    if (!answer.complete) fail(under, "reset")
  })
}

/** `again`: a second attempt is allowed, on a new connection. */
const attempt = (under: Exchange, again: boolean) => {
  const { agent, body, headers, limits, url } = under.out
  const sending = request(url, { method: "POST", agent, headers: { ...headers, "content-length": body.length } })
  under.upstream = sending
  limit(under, limits.connectMillis, "connect")
  sending.on("socket", (socket) => {
    whenConnected(socket, url.protocol === "https:", () => {
      under.sent = true
      limit(under, limits.firstByteMillis, "slow")
    })
  })
  sending.on("response", (answer) => {
    under.incoming = answer
    const status = answer.statusCode ?? 502
    const [type = ""] = (answer.headers["content-type"] ?? "").split(";")
    const media = type.trim().toLowerCase()
    const decoder = media === "application/vnd.amazon.eventstream" ? under.out.decoder?.() ?? null : null
    const streaming = media === "text/event-stream" || decoder !== null
    const encoded = (answer.headers["content-encoding"] ?? "identity") !== "identity"
    limit(under, limits.idleMillis, "stalled")
    if (status < 200 || status > 299) return passError(under, status, answer)
    if (encoded || !streaming && !/^application\/(?:[\w.-]+\+)?json$/u.test(media)) return fail(under, "strange")
    passAnswer(under, answer, streaming, decoder)
  })
  // A model's answer never changes the protocol.
  sending.on("upgrade", (answer, socket) => {
    under.incoming = answer
    socket.destroy()
    fail(under, "strange")
  })
  // A connection that ends without an answer or an error.
  sending.on("close", () => {
    if (sending === under.upstream && under.incoming === undefined) fail(under, under.sent ? "reset" : "connect")
  })
  sending.on("error", (error) => {
    if (under.over || sending !== under.upstream) return
    // The provider closed an idle connection just as it was taken for this request.
    if (again && sending.reusedSocket && under.incoming === undefined) return attempt(under, false)
    fail(under, under.sent ? "reset" : "connect", 502, proxyFailureIn(error)?.plain)
  })
  sending.end(body)
}

export const exchange = (out: Outgoing, response: ServerResponse): Effect.Effect<Outcome> =>
  Effect.callback<Outcome>((resume) => {
    const left = () => {
      cut(under)
      finish(under, under.sent ? "cut" : "unsent")
    }
    const under: Exchange = {
      out,
      response,
      resume,
      left,
      upstream: undefined,
      incoming: undefined,
      timer: undefined,
      sent: false,
      over: false
    }
    response.once("close", left)
    if (response.destroyed) left()
    else attempt(under, true)
    return Effect.sync(() => {
      under.over = true
      clearTimeout(under.timer)
      response.off("close", left)
      cut(under)
      response.destroy()
    })
  })
