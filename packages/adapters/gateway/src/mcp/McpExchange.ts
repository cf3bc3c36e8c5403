/** One request of an agent to an MCP server: checked, decided, sent with the credential, and its answer passed on within bounds. */
import type { McpNotConnected, McpRemoteTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { Effect, Redacted } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { withoutKey } from "../server/KeyGuard.ts"
import { EventStreamReader, written } from "./EventStreamReader.ts"
import type { Refusal } from "./McpAsking.ts"
import * as Messages from "./McpMessages.ts"
import { beginStream, fail, reply, write } from "./McpReply.ts"
import { isCommand, type RemoteInUse, type ServerInUse, shown } from "./McpServerInUse.ts"
import { exchange } from "./McpStdioExchange.ts"
import { type Destinations, isStream, type McpLimits, problemOf, send, textOf, Unreachable, type UpstreamRequest } from "./McpUpstream.ts"

type Header = McpRemoteTarget["header"]

interface Exchanging {
  readonly server: RemoteInUse
  /** The header with the credential of this request. */
  readonly header: Header
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly limits: McpLimits
  readonly destinations: Destinations
  readonly signal: AbortSignal
  /** Asks a person. `null`: approved. */
  readonly ask: (tool: string, given: unknown) => Effect.Effect<Refusal>
}

/** A request to a server of either kind. */
export interface AnyExchanging extends Omit<Exchanging, "header" | "server"> {
  readonly server: ServerInUse
}

/** Headers of the protocol that pass from the agent. */
const FROM_AGENT = ["mcp-session-id", "mcp-protocol-version", "last-event-id"]

/** Requests of the server in one stream, which are answered for the agent. */
const MAX_SERVER_REQUESTS = 100

/** Credentials of one server that answers are searched for. A token lives for minutes at least. */
const MAX_KEYS = 5

/** The header for a request now. `refused`: a token that the server has refused. */
const headerOf = (server: RemoteInUse, refused: Redacted.Redacted | null): Effect.Effect<Header, McpNotConnected> => {
  const { header, token } = server.target
  const found: Effect.Effect<Header, McpNotConnected> = token === undefined
    ? Effect.succeed(header)
    : Effect.map(token(refused), (token) => ({ name: "Authorization", value: Redacted.make(`Bearer ${Redacted.value(token)}`) }))
  return Effect.tap(found, (header) =>
    Effect.sync(() => {
      const key = secretOf(header)
      if (key !== null && !server.keys.includes(key)) server.keys = [key, ...server.keys].slice(0, MAX_KEYS)
    }))
}

/** The secret part of a header's value. */
const secretOf = (header: Header): string | null =>
  header === null ? null : Redacted.value(header.value).replace(/^(?:basic|bearer|token) +/iu, "")

/** A text of the server without the credentials that it was sent. */
const withoutKeys = (text: string, keys: ReadonlyArray<string>): string => keys.reduce(withoutKey, text)

const requestOf = (
  { destinations, header, limits, request, server: { target: { url } }, signal }: Exchanging,
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
const shownHeaders = ({ headers }: IncomingMessage, keys: ReadonlyArray<string>): Record<string, string> => {
  const id = headers["mcp-session-id"]
  return typeof id === "string" && id.length <= 1024 && withoutKeys(id, keys) === id ? { "mcp-session-id": id } : {}
}

/** The part of a server's message that the agent gets; `null`: nothing. */
const passed = (
  { server }: Exchanging,
  asked: Messages.FromAgent,
  text: string
): { readonly message: object } | { readonly request: Extract<Messages.FromServer, { readonly _tag: "Request" }> } | null => {
  const read = Messages.fromServer(withoutKeys(text, server.keys))
  if (read._tag === "Invalid") return null
  if (read._tag === "Request") return { request: read }
  return { message: shown(server, asked, read.message) }
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
  const { limits, response, server: { keys } } = exchanging
  beginStream(response, shownHeaders(answer, keys))
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
            written(what.message, event.id !== undefined && withoutKeys(event.id, keys) === event.id ? event.id : undefined)
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

/** `mayRefuse`: the server may refuse the token; then nothing is answered, and the result says so. */
const forward = async (exchanging: Exchanging, asked: Messages.Sent, mayRefuse: boolean): Promise<"refused" | void> => {
  const { limits, request, response, server } = exchanging
  const answer = await send(requestOf(exchanging, "POST", asked.pass))
  if (mayRefuse && answer.statusCode === 401) {
    answer.destroy()
    return "refused"
  }
  const problem = problemOf(answer)
  if (problem !== null) {
    answer.destroy()
    // The client begins a new session.
    if (answer.statusCode === 404 && request.headers["mcp-session-id"] !== undefined && !response.headersSent) {
      return reply(response, 404, Messages.errorOf("id" in asked ? asked.id : null, "The session has ended.", -32_001))
    }
    return fail(response, server.target, asked, problem)
  }
  if (!("id" in asked)) {
    answer.destroy()
    return void response.writeHead(202).end()
  }
  if (isStream(answer)) return await passStream(exchanging, asked, answer, limits.answerBytes)
  const headers = shownHeaders(answer, server.keys)
  const what = passed(exchanging, asked, await textOf(answer, limits.answerBytes))
  if (what === null || !("message" in what)) return fail(response, server.target, asked, "Its answer is invalid.")
  reply(response, 200, what.message, headers)
}

/** Why a call is not made; `null`: it may be. */
const decided = Effect.fnUntraced(function*(exchanging: AnyExchanging, call: Extract<Messages.FromAgent, { readonly _tag: "Call" }>) {
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

/** A refused token is renewed once, and the message is sent again: the server has not taken it. */
const sending = (exchanging: Exchanging, message: Messages.Sent): Effect.Effect<void> => {
  const { response, server } = exchanging
  const forwarded = (header: Header, mayRefuse: boolean) =>
    Effect.promise(() =>
      forward({ ...exchanging, header }, message, mayRefuse).catch((error: unknown) => {
        if (error instanceof Unreachable) return fail(response, server.target, message, error.message)
        if (exchanging.signal.aborted) return void response.destroy()
        throw error
      })
    )
  return Effect.gen(function*() {
    const header = yield* headerOf(server, null)
    const sent = yield* forwarded(header, server.target.token !== undefined)
    if (sent !== "refused") return
    yield* forwarded(yield* headerOf(server, Redacted.make(secretOf(header) ?? "")), false)
  }).pipe(Effect.catch(({ detail }) => Effect.sync(() => fail(response, server.target, message, detail))))
}

/** Answers a message of the agent. */
export const post = (exchanging: AnyExchanging, text: string): Effect.Effect<void> => {
  const asked = Messages.fromAgent(text)
  const { response, server } = exchanging
  const send = (message: Messages.Sent) =>
    isCommand(server) ? exchange(server, response, message) : sending({ ...exchanging, server, header: null }, message)
  switch (asked._tag) {
    case "Invalid":
      return Effect.sync(() => reply(response, 400, Messages.errorOf(null, asked.reason, -32_600)))
    case "Answer":
      return Effect.sync(() => void response.writeHead(202).end())
    case "Call":
      return Effect.flatMap(
        decided(exchanging, asked),
        (refused) => refused === null ? send(asked) : Effect.sync(() => reply(response, 200, Messages.refusal(asked.id, refused)))
      )
    default:
      return send(asked)
  }
}

/** Bytes of a stream that a client opens for notifications. It opens another one afterwards. */
const OPEN_STREAM_BYTES = 64 * 1024 * 1024

const NONE: Messages.FromAgent = { _tag: "Answer" }

/** The stream of notifications, or the end of the server's session. */
export const other = (exchanging: AnyExchanging, method: "GET" | "DELETE"): Effect.Effect<void> => {
  const { response, server } = exchanging
  // A command has no sessions, and no notification of it is passed on.
  if (isCommand(server)) return Effect.sync(() => void response.writeHead(405, { allow: "POST" }).end())
  return Effect.matchEffect(headerOf(server, null), {
    onFailure: ({ detail }) => Effect.sync(() => fail(response, server.target, NONE, detail)),
    onSuccess: (header) => otherWith({ ...exchanging, server, header }, method)
  })
}

const otherWith = (exchanging: Exchanging, method: "GET" | "DELETE"): Effect.Effect<void> =>
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
      fail(response, exchanging.server.target, NONE, error.message)
    }
  })

const firstMessage = async (answer: IncomingMessage, maximum: number): Promise<string> => {
  if (!isStream(answer)) return await textOf(answer, maximum)
  const reader = new EventStreamReader(maximum)
  for await (const chunk of answer) {
    for (const { data } of reader.read(chunk)) if (Messages.fromServer(data)._tag === "Pass") return data
  }
  throw new Unreachable("It closed the connection.")
}

interface Looking extends Pick<Exchanging, "destinations" | "limits"> {
  readonly server: RemoteInUse
}

/** Asks a server whether it answers. The reason why not; `null`: it does. A refused token is renewed once. */
export const look = (looking: Looking): Effect.Effect<string | null> =>
  Effect.gen(function*() {
    const { server } = looking
    const header = yield* headerOf(server, null)
    const found = yield* lookWith(looking, header)
    if (found !== "refused") return found
    if (server.target.token === undefined) return REFUSED
    const again = yield* lookWith(looking, yield* headerOf(server, Redacted.make(secretOf(header) ?? "")))
    return again === "refused" ? REFUSED : again
  }).pipe(Effect.catch(({ detail }) => Effect.succeed(detail)))

const REFUSED = "It refuses the credential (status 401). An owner can set another one."

const lookWith = ({ destinations, limits, server: { target: { url } } }: Looking, header: Header): Effect.Effect<string | null> =>
  Effect.promise(async (signal) => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(limits.lookMillis)])
    const about = (method: UpstreamRequest["method"], more: Readonly<Record<string, string>>, body?: object): UpstreamRequest => ({
      url,
      method,
      limits,
      destinations,
      signal: ended,
      headers: {
        accept: "application/json, text/event-stream",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...more,
        ...(header === null ? {} : { [header.name]: Redacted.value(header.value) })
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    try {
      const answer = await send(about("POST", {}, Messages.INITIALIZE))
      if (answer.statusCode === 401) {
        answer.destroy()
        return "refused"
      }
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
