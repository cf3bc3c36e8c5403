/** The servers of one session. */
import type { McpCommandTarget, McpRemoteTarget } from "@slipway/domain/mcp/ports/McpGateway"
import * as Messages from "./McpMessages.ts"
import type { McpStdio } from "./McpStdio.ts"

interface InUse<Target> {
  readonly target: Target
  /** The tools of the last list; `null`: it has listed none yet. */
  tools: Set<string> | null
}

/** A server with an address. */
export interface RemoteInUse extends InUse<McpRemoteTarget> {
  readonly stdio: null
  /** The last credentials that were sent, which must not come back. */
  keys: ReadonlyArray<string>
}

/** A server that is a command. */
export interface CommandInUse extends InUse<McpCommandTarget> {
  readonly stdio: McpStdio
}

export type ServerInUse = RemoteInUse | CommandInUse

export const isCommand = (server: ServerInUse): server is CommandInUse => server.stdio !== null

/** A message of the server as the agent gets it: lists of tools lack those that are denied, and are remembered. */
export const shown = (server: ServerInUse, asked: Messages.FromAgent, given: Messages.Fields): Messages.Fields => {
  if (asked._tag !== "List") return given
  const { message, names } = Messages.listed(given, server.target.permissionOf)
  if ("result" in message) {
    if (asked.isFirstPage || server.tools === null) server.tools = new Set()
    for (const name of names) server.tools.add(name)
  }
  return message
}
