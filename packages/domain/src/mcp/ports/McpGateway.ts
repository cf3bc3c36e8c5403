/**
 * Port: the only way from an agent to the MCP servers of its sandbox. The agent gets an address and a token that is valid for its
 * session only. Credentials stay in the gateway, which adds them, and decides about each call of a tool.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { McpPermission, McpServerName } from "../schema/McpServer.ts"

/** A server cannot be used. `detail`: sentences for people and agents, without secrets. */
export class McpNotConnected extends Schema.TaggedError<McpNotConnected>()("McpNotConnected", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

interface Target {
  readonly name: McpServerName
  readonly permissionOf: (tool: string) => McpPermission
}

/** A server with an address. */
export interface McpRemoteTarget extends Target {
  readonly url: string
  /** The header with the credential; `null`: none. */
  readonly header: { readonly name: string; readonly value: Redacted.Redacted } | null
  /**
   * The access token of a server with OAuth, asked for before each request and sent instead of `header`. `refused`: the token that the
   * server has refused.
   */
  readonly token?: (refused: Redacted.Redacted | null) => Effect.Effect<Redacted.Redacted, McpNotConnected>
}

/** A running command. The box's process is one. */
export interface McpProcess {
  write(text: string): Effect.Effect<void>
  readonly stdout: Stream.Stream<Uint8Array>
  /** The last lines of standard error. */
  readonly stderrTail: Effect.Effect<string>
  readonly exited: Effect.Effect<{ readonly code: number | null; readonly signal: string | null }>
}

/** A server that is a command in the sandbox's box ("stdio"). */
export interface McpCommandTarget extends Target {
  /** Starts it, once. It is killed with everything that it started when the scope closes. */
  readonly start: Effect.Effect<McpProcess, McpNotConnected, Scope.Scope>
}

/** A server that the gateway leads to. */
export type McpTarget = McpRemoteTarget | McpCommandTarget

/** A call that waits for a person. */
export interface McpAsk {
  /** Unique within the sandbox. */
  readonly id: string
  readonly server: McpServerName
  readonly tool: string
  /** The complete arguments as JSON, with line feeds. */
  readonly arguments: string
}

/** The agent's access to servers. */
export interface McpAccess {
  /** Without a slash at the end; the server's name follows it. */
  readonly baseUrl: string
  readonly token: Redacted.Redacted
}

/** A sandbox's access to its servers, until its scope closes. */
export interface McpSession {
  readonly access: McpAccess
  /**
   * Asks the server whether it answers, at most 10 seconds. A command is started, at most 30 seconds. The reason why not, for people;
   * `null`: it answers. The reason of a command may have lines of its standard error.
   */
  readonly look: (name: McpServerName) => Effect.Effect<string | null>
  /**
   * Has calls that need a person told to `tell`, until it is interrupted; then those that wait are denied. Calls that need a person while
   * nothing attends are denied at once.
   */
  readonly attend: (tell: (ask: McpAsk) => Effect.Effect<void>) => Effect.Effect<never>
  /** Answers a call that waits. Others are ignored. */
  readonly decide: (id: string, decision: "approve" | "deny", reason?: string) => Effect.Effect<void>
}

/** The gateway cannot listen. */
export class McpGatewayError extends Schema.TaggedError<McpGatewayError>()("McpGatewayError", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** The way to MCP servers. */
export class McpGateway extends Context.Service<McpGateway, {
  /** Opens the way to these servers. When the scope closes, the token and all running requests end at once. */
  open(options: {
    readonly sandboxId: SandboxId
    readonly servers: ReadonlyArray<McpTarget>
  }): Effect.Effect<McpSession, never, Scope.Scope>
}>()("@slipway/domain/McpGateway") {
}
