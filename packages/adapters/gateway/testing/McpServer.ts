/** A small MCP server over Streamable HTTP, for tests of the gateway: well-behaved, or not in a chosen way. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"

type Fields = Readonly<Record<string, unknown>>

/** A message that the server got. */
export interface Got {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly message: Fields
}

export interface TestServer {
  /** Its address, at `localhost`. */
  readonly url: string
  /** `localhost:port`. */
  readonly destination: string
  /** Requests, oldest first. */
  readonly got: ReadonlyArray<Got>
  /** Calls of tools that were made: name and arguments. */
  readonly calls: ReadonlyArray<{ readonly name: unknown; readonly arguments: unknown }>
  /** Answers as usual, for a server that misbehaves only sometimes. */
  readonly respond: (message: Fields, request: IncomingMessage, response: ServerResponse) => void
}

/** `stream`: answers are streams of events. `misbehave`: answers instead; `false`: as usual. */
export interface Behaviour {
  readonly stream?: boolean
  readonly tools?: () => ReadonlyArray<string>
  readonly misbehave?: (message: Fields, request: IncomingMessage, response: ServerResponse) => boolean
}

const bodyOf = async (request: IncomingMessage): Promise<Fields> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString("utf8")
  return text === "" ? {} : JSON.parse(text)
}

export const start = ({ misbehave = () => false, stream = false, tools = () => ["echo", "delete_page"] }: Behaviour = {}): Effect.Effect<
  TestServer,
  never,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const got: Array<Got> = []
    const calls: Array<{ readonly name: unknown; readonly arguments: unknown }> = []

    const resultOf = ({ method, params }: Fields): Fields => {
      const given = (typeof params === "object" && params !== null ? params : {}) as Fields
      switch (method) {
        case "initialize":
          return {
            protocolVersion: given["protocolVersion"],
            capabilities: { tools: {} },
            serverInfo: { name: "test", version: "1" }
          }
        case "tools/list":
          return {
            tools: tools().map((name) => ({
              name,
              description: `The tool ${name}`,
              inputSchema: { type: "object", properties: { message: { type: "string" } } }
            }))
          }
        case "tools/call":
          calls.push({ name: given["name"], arguments: given["arguments"] })
          return { content: [{ type: "text", text: `did ${String(given["name"])} ${JSON.stringify(given["arguments"])}` }] }
        default:
          return {}
      }
    }

    const respond = (message: Fields, request: IncomingMessage, response: ServerResponse) => {
      if (request.method !== "POST") return void response.writeHead(request.method === "DELETE" ? 200 : 405).end()
      if (message["id"] === undefined || message["method"] === undefined) return void response.writeHead(202).end()
      const reply = JSON.stringify({ jsonrpc: "2.0", id: message["id"], result: resultOf(message) })
      const session = message["method"] === "initialize" ? { "mcp-session-id": "session-1" } : {}
      if (stream) return void response.writeHead(200, { "content-type": "text/event-stream", ...session }).end(`data: ${reply}\n\n`)
      response.writeHead(200, { "content-type": "application/json", ...session }).end(reply)
    }

    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      const message = await bodyOf(request)
      got.push({ method: request.method ?? "", headers: request.headers, message })
      if (misbehave(message, request, response)) return
      respond(message, request, response)
    }

    const server = createServer((request, response) => {
      answer(request, response).catch(() => response.destroy())
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const port = address !== null && typeof address === "object" ? address.port : 0
    return { url: `http://localhost:${port}/mcp`, destination: `localhost:${port}`, got, calls, respond }
  })
