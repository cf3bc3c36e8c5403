/** Answers to agents. */
import type { McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import type { ServerResponse } from "node:http"
import { written } from "./EventStreamReader.ts"
import * as Messages from "./McpMessages.ts"

export const reply = (response: ServerResponse, status: number, message: object, headers: Readonly<Record<string, string>> = {}) => {
  if (response.headersSent) {
    if (!response.writableEnded) response.end(written(message))
    return
  }
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers })
  response.end(JSON.stringify(message))
}

export const beginStream = (response: ServerResponse, headers: Readonly<Record<string, string>> = {}) => {
  if (response.headersSent) return
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store", ...headers })
  response.flushHeaders()
}

export const write = (response: ServerResponse, text: string): Promise<void> | void =>
  response.destroyed || response.write(text) ? undefined : new Promise((done) => {
    response.once("drain", done)
    response.once("close", done)
  })

/** An error of ours for the agent. A client shows the text. */
export const fail = (response: ServerResponse, { name }: McpTarget, asked: Messages.FromAgent, reason: string) => {
  const said = `The MCP server ${name} is not available. ${reason}`
  if ("id" in asked) return reply(response, 200, Messages.errorOf(asked.id, said))
  reply(response, 502, Messages.errorOf(null, said))
}
