/** One request of an agent to an MCP server: checked, decided, sent with the credential, and its answer passed on within bounds. */
import type { McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { Effect, Redacted } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { withoutKey } from "../server/KeyGuard.ts"
import { EventStreamReader, written } from "./EventStreamReader.ts"
import type { Refusal } from "./McpAsking.ts"
import * as Messages from "./McpMessages.ts"
import { type Destinations, isStream, type McpLimits, problemOf, send, textOf, Unreachable, type UpstreamRequest } from "./McpUpstream.ts"

/** A server as one session uses it. */
export interface ServerInUse {
  readonly target: McpTarget
  /** The tools of the last list; `null`: it has listed none yet. */
  tools: Set<string> | null
}

export interface Exchanging {
  readonly server: ServerInUse
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly limits: McpLimits
  readonly destinations: Destinations
  readonly signal: AbortSignal
  /** Asks a person. `null`: approved. */
  readonly ask: (tool: string, given: unknown) => Effect.Effect<Refusal>
}

/** Headers of the protocol that pass from the agent. */
const FROM_AGENT = ["mcp-session-id", "mcp-protocol-version", "last-event-id"]

/** Requests of the server in one stream, which are answered for the agent. */
const MAX_SERVER_REQUESTS = 100

/** The secret part of a header's value, which must not come back. */
const keyOf = ({ header }: McpTarget): string | null =>
  header === null ? null : Redacted.value(header.value).replace(/^(?:basic|bearer|token) +/iu, "")

const requestOf = (
  { destinations, limits, request, server: { target: { header, url } }, signal }: Exchanging,
  method: UpstreamRequest["method"],
  body?: object
): UpstreamRequest => {
  const passed = Object.fromEntries(FROM_AGENT.flatMap((name) => {
    const value = request.headers[name]
    return typeof value === "string" && value.length <= 1024 ? [[name, value]] : []
  }))
  return {
    url,
    method,
    limits,
    destinations,
    signal,
    headers: {
      ...passed,
      accept: method === "GET" ? "text/event-stream" : "application/json, text/event-stream",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(header === null ? {} : { [header.name]: Redacted.value(header.value) })
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  }
}

/** The server's session, if it begins one. */
const shownHeaders = ({ headers }: IncomingMessage, key: string | null): Record<string, string> => {
  const id = headers["mcp-session-id"]
  return typeof id === "string" && id.length <= 1024 && withoutKey(id, key) === id ? { "mcp-session-id": id } : {}
}

export const reply = (response: ServerResponse, status: number, message: object, headers: Readonly<Record<string, string>> = {}) => {
  if (response.headersSent) {
    if (!response.writableEnded) response.end(written(message))
    return
  }
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers })
  response.end(JSON.stringify(message))
}

const beginStream = (response: ServerResponse, headers: Readonly<Record<string, string>> = {}) => {
  if (response.headersSent) return
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store", ...headers })
  response.flushHeaders()
}

const write = (response: ServerResponse, text: string): Promise<void> | void =>
  response.destroyed || response.write(text) ? undefined : new Promise((done) => {
    response.once("drain", done)
    response.once("close", done)
  })

/** The part of a server's message that the agent gets; `null`: nothing. */
const passed = (
  { server }: Exchanging,
  asked: Messages.FromAgent,
  text: string
): { readonly message: object } | { readonly request: Extract<Messages.FromServer, { readonly _tag: "Request" }> } | null => {
  const key = keyOf(server.target)
  const read = Messages.fromServer(withoutKey(text, key))
  if (read._tag === "Invalid") return null
  if (read._tag === "Request") return { request: read }
  if (asked._tag !== "List") return { message: read.message }
  const { message, names } = Messages.listed(read.message, server.target.permissionOf)
  if ("result" in message) {
    if (asked.isFirstPage || server.tools === null) server.tools = new Set()
    for (const name of names) server.tools.add(name)
  }
  return { message }
}

const answerServer = async (exchanging: Exchanging, request: Extract<Messages.FromServer, { readonly _tag: "Request" }>) => {
  if (request.id === null) return
  const answer = await send({
    ...requestOf(exchanging, "POST", Messages.answerTo(request.id, request.isPing)),
    // The stream that it came in may be over.
    signal: AbortSignal.timeout(exchanging.limits.lookMillis)
  })
  answer.destroy()
}

/** Passes on the events of a stream. `maximum`: bytes of it. */
const passStream = async (exchanging: Exchanging, asked: Messages.FromAgent, answer: IncomingMessage, maximum: number) => {
  const { limits, response, server } = exchanging
  const key = keyOf(server.target)
  beginStream(response, shownHeaders(answer, key))
  const reader = new EventStreamReader(limits.answerBytes)
  let length = 0
  let requests = 0
  const stop = () => answer.destroy()
  response.once("close", stop)
  try {
    for await (const chunk of answer) {
      length += chunk.length
      if (length > maximum) throw new Unreachable(`Its answer has more than ${maximum} bytes.`)
      for (const event of reader.read(chunk)) {
        const what = passed(exchanging, asked, event.data)
        if (what === null) continue
        if ("message" in what) {
          await write(
            response,
            written(what.message, event.id !== undefined && withoutKey(event.id, key) === event.id ? event.id : undefined)
          )
          continue
        }
        if (++requests > MAX_SERVER_REQUESTS) throw new Unreachable("It sends too many requests of its own.")
        // Its answer is of no interest.
        answerServer(exchanging, what.request).catch(() => {})
      }
    }
  } catch (error) {
    if (error instanceof Unreachable) throw error
    throw new Unreachable(length > 0 ? "It stopped in the middle of its answer, or its answer is too large." : "It closed the connection.")
  } finally {
    answer.destroy()
    response.off("close", stop)
  }
  response.end()
}

/** An error of ours for the agent. A client shows the text. */
const fail = ({ response, server: { target } }: Exchanging, asked: Messages.FromAgent, reason: string) => {
  const said = `The MCP server ${target.name} is not available. ${reason}`
  if ("id" in asked) return reply(response, 200, Messages.errorOf(asked.id, said))
  reply(response, 502, Messages.errorOf(null, said))
}

const forward = async (exchanging: Exchanging, asked: Exclude<Messages.FromAgent, { readonly _tag: "Answer" | "Invalid" }>) => {
  const { limits, request, response, server } = exchanging
  const answer = await send(requestOf(exchanging, "POST", asked.pass))
  const problem = problemOf(answer)
  if (problem !== null) {
    answer.destroy()
    // The client begins a new session.
    if (answer.statusCode === 404 && request.headers["mcp-session-id"] !== undefined && !response.headersSent) {
      return reply(response, 404, Messages.errorOf("id" in asked ? asked.id : null, "The session has ended.", -32_001))
    }
    return fail(exchanging, asked, problem)
  }
  if (!("id" in asked)) {
    answer.destroy()
    return void response.writeHead(202).end()
  }
  if (isStream(answer)) return await passStream(exchanging, asked, answer, limits.answerBytes)
  const headers = shownHeaders(answer, keyOf(server.target))
  const what = passed(exchanging, asked, await textOf(answer, limits.answerBytes))
  if (what === null || !("message" in what)) return fail(exchanging, asked, "Its answer is invalid.")
  reply(response, 200, what.message, headers)
}

/** Why a call is not made; `null`: it may be. */
const decided = Effect.fnUntraced(function*(exchanging: Exchanging, call: Extract<Messages.FromAgent, { readonly _tag: "Call" }>) {
  const { ask, limits, response, server: { target, tools } } = exchanging
  const { tool } = call
  const permission = target.permissionOf(tool)
  if (permission === "deny") return `The tool ${tool} of the MCP server ${target.name} may not be called here: an owner denied it.`
  if (tools !== null && !tools.has(tool)) return `The MCP server ${target.name} has no tool ${tool}: list its tools again.`
  if (permission === "allow") return null
  // Clients wait for the head of an answer only minutes.
  beginStream(response)
  const alive = setInterval(() => void write(response, ": waiting for a person\n\n"), limits.waitingMillis)
  return yield* Effect.ensuring(ask(tool, call.arguments), Effect.sync(() => clearInterval(alive)))
})

/** Answers a message of the agent. */
export const post = (exchanging: Exchanging, text: string): Effect.Effect<void> => {
  const asked = Messages.fromAgent(text)
  const { response } = exchanging
  const sending = (message: Exclude<typeof asked, { readonly _tag: "Answer" | "Invalid" }>) =>
    Effect.promise(() =>
      forward(exchanging, message).catch((error: unknown) => {
        if (error instanceof Unreachable) return fail(exchanging, message, error.message)
        if (exchanging.signal.aborted) return void response.destroy()
        throw error
      })
    )
  switch (asked._tag) {
    case "Invalid":
      return Effect.sync(() => reply(response, 400, Messages.errorOf(null, asked.reason, -32_600)))
    case "Answer":
      return Effect.sync(() => void response.writeHead(202).end())
    case "Call":
      return Effect.flatMap(
        decided(exchanging, asked),
        (refused) => refused === null ? sending(asked) : Effect.sync(() => reply(response, 200, Messages.refusal(asked.id, refused)))
      )
    default:
      return sending(asked)
  }
}

/** Bytes of a stream that a client opens for notifications. It opens another one afterwards. */
const OPEN_STREAM_BYTES = 64 * 1024 * 1024

const NONE: Messages.FromAgent = { _tag: "Answer" }

/** The stream of notifications, or the end of the server's session. */
export const other = (exchanging: Exchanging, method: "GET" | "DELETE"): Effect.Effect<void> =>
  Effect.promise(async () => {
    const { response } = exchanging
    try {
      const answer = await send(requestOf(exchanging, method))
      const { statusCode = 502 } = answer
      if (method === "GET" && problemOf(answer) === null && isStream(answer)) {
        return await passStream(exchanging, NONE, answer, OPEN_STREAM_BYTES)
      }
      answer.destroy()
      // Clients do without what is not offered.
      const shown = method === "DELETE" && statusCode < 300 ? 204 : statusCode === 404 ? 404 : 405
      response.writeHead(shown, shown === 405 ? { allow: "POST" } : {}).end()
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error
      fail(exchanging, NONE, error.message)
    }
  })

/** A protocol version that all servers with this transport know. */
const LOOK = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "slipway", version: "1" } }
}

const firstMessage = async (answer: IncomingMessage, maximum: number): Promise<string> => {
  if (!isStream(answer)) return await textOf(answer, maximum)
  const reader = new EventStreamReader(maximum)
  for await (const chunk of answer) {
    for (const { data } of reader.read(chunk)) if (Messages.fromServer(data)._tag === "Pass") return data
  }
  throw new Unreachable("It closed the connection.")
}

/** Asks a server whether it answers. The reason why not; `null`: it does. */
export const look = (
  { destinations, limits, target }: Pick<Exchanging, "destinations" | "limits"> & { readonly target: McpTarget }
): Effect.Effect<string | null> =>
  Effect.promise(async (signal) => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(limits.lookMillis)])
    const about = (method: UpstreamRequest["method"], more: Readonly<Record<string, string>>, body?: object): UpstreamRequest => ({
      url: target.url,
      method,
      limits,
      destinations,
      signal: ended,
      headers: {
        accept: "application/json, text/event-stream",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...more,
        ...(target.header === null ? {} : { [target.header.name]: Redacted.value(target.header.value) })
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    try {
      const answer = await send(about("POST", {}, LOOK))
      const problem = problemOf(answer)
      if (problem !== null) {
        answer.destroy()
        return problem
      }
      const session = answer.headers["mcp-session-id"]
      const said = Messages.fromServer(await firstMessage(answer, limits.answerBytes))
      answer.destroy()
      if (typeof session === "string") {
        send(about("DELETE", { "mcp-session-id": session })).then((end) => end.destroy(), () => {})
      }
      return said._tag === "Pass" && "result" in said.message ? null : "Its answer is invalid."
    } catch (error) {
      if (signal.aborted) throw error
      return ended.aborted ? "It does not answer in time." : error instanceof Unreachable ? error.message : "It cannot be reached."
    }
  })
