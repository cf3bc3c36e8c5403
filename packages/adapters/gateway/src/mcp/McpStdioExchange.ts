/** One message of an agent to a server that is a command. */
import { Effect } from "effect"
import type { ServerResponse } from "node:http"
import { isObject } from "../protocols/JsonFields.ts"
import type { Sent } from "./McpMessages.ts"
import { fail, reply } from "./McpReply.ts"
import { type CommandInUse, shown } from "./McpServerInUse.ts"

/** The command was initialized by us, so of the agent's notifications only a cancellation means something to it. */
const notify = ({ stdio }: CommandInUse, { method, params }: Sent["pass"]): Effect.Effect<void> =>
  method === "notifications/cancelled" && isObject(params) ? stdio.cancel(params["requestId"]) : Effect.void

/** The reason why the command cannot be used; `null`: it answers. */
export const look = ({ stdio }: CommandInUse): Effect.Effect<string | null> =>
  Effect.match(stdio.initialized, { onFailure: ({ message }) => message, onSuccess: () => null })

/** Passes the message on, and the answer back. */
export const exchange = (server: CommandInUse, response: ServerResponse, message: Sent): Effect.Effect<void> => {
  const { stdio, target } = server
  if (message._tag === "Notification") {
    return Effect.andThen(notify(server, message.pass), Effect.sync(() => void response.writeHead(202).end()))
  }
  const answer = message._tag === "Request" && message.method === "initialize"
    ? Effect.map(stdio.initialized, (result) => ({ jsonrpc: "2.0", id: message.id, result }))
    : stdio.request(message.pass)
  return Effect.match(answer, {
    onFailure: (error) => fail(response, target, message, error.message),
    onSuccess: (answered) => reply(response, 200, shown(server, message, answered))
  })
}
