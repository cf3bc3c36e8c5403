/** An agent's side of the gateway of MCP servers, for tests. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type McpCommandTarget, McpGateway, type McpRemoteTarget, type McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Context, Effect, Layer, Redacted } from "effect"
import { type IncomingHttpHeaders, request as httpRequest } from "node:http"
import * as McpGatewayHttp from "../src/mcp/McpGatewayHttp.ts"
import type { TestServer } from "./McpServer.ts"

/** The credential of every server. */
export const CANARY = "canary-9f2Kq7Qm2-0123456789"

export const open = Effect.fnUntraced(function*(
  server: Pick<TestServer, "destination" | "url">,
  target: Partial<McpRemoteTarget> = {},
  options: Partial<McpGatewayHttp.Options> = {}
) {
  return yield* openTarget({
    name: "wiki",
    url: server.url,
    header: { name: "Authorization", value: Redacted.make(`Bearer ${CANARY}`) },
    permissionOf: () => "allow",
    ...target
  }, { privates: new Set([server.destination]), ...options })
})

/** With a server that is a command. */
export const openCommand = (
  start: McpCommandTarget["start"],
  target: Partial<Pick<McpCommandTarget, "permissionOf">> = {},
  options: Partial<McpGatewayHttp.Options> = {}
) => openTarget({ name: "wiki", start, permissionOf: () => "allow", ...target }, options)

const openTarget = Effect.fnUntraced(function*(target: McpTarget, options: Partial<McpGatewayHttp.Options>) {
  const services = yield* Layer.build(
    McpGatewayHttp.layer({ privates: new Set(), option: "THE_OPTION", ...options }).pipe(Layer.provide(IdsNode.layer))
  )
  const session = yield* Context.get(services, McpGateway).open({ sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), servers: [target] })
  return { session, baseUrl: session.access.baseUrl, token: Redacted.value(session.access.token), name: "wiki" }
})

export type Agent = Pick<Effect.Success<ReturnType<typeof open>>, "baseUrl" | "name" | "token">

export const rpc = (method: string, params?: object, id: number | string = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) })

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body, of a stream or of one piece. */
  readonly messages: ReadonlyArray<unknown>
}

const messagesOf = (type: string, text: string): ReadonlyArray<unknown> =>
  type.startsWith("text/event-stream")
    ? text.split("\n").flatMap((line) => line.startsWith("data: ") ? [JSON.parse(line.slice("data: ".length))] : [])
    : text === ""
    ? []
    : [JSON.parse(text)]

/** Dies if the connection ends before the answer does. */
export const ask = (
  { baseUrl, name, token }: Agent,
  body: string | null,
  headers: Readonly<Record<string, string>> = {},
  method = "POST"
) =>
  Effect.callback<Answer>((resume) => {
    const request = httpRequest(`${baseUrl}/${name}`, {
      method,
      agent: false,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json, text/event-stream",
        ...(body === null ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        ...headers
      }
    })
    request.once("response", (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.once("error", (error) => resume(Effect.die(error)))
      response.once("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        resume(Effect.sync(() => ({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          messages: messagesOf(response.headers["content-type"] ?? "", text)
        })))
      })
    })
    request.once("error", (error) => resume(Effect.die(error)))
    request.end(body ?? undefined)
    return Effect.sync(() => request.destroy())
  })
