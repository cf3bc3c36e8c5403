/**
 * Port: the only way from an agent to the MCP servers of its sandbox. The agent gets an address and a token that is valid for its
 * session only. Credentials stay in the gateway, which adds them, and decides about each call of a tool.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { McpPermission, McpServerName } from "../schema/McpServer.ts"

/** A server with OAuth cannot be used. `detail`: sentences for people and agents, without secrets. */
export class McpNotConnected extends Schema.TaggedError<McpNotConnected>()("McpNotConnected", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** A server that the gateway leads to. */
export interface McpTarget {
  readonly name: McpServerName
  readonly url: string
  /** The header with the credential; `null`: none. */
  readonly header: { readonly name: string; readonly value: Redacted.Redacted } | null
  /**
   * The access token of a server with OAuth, asked for before each request and sent instead of `header`. `refused`: the token that the
   * server has refused.
   */
  readonly token?: (refused: Redacted.Redacted | null) => Effect.Effect<Redacted.Redacted, McpNotConnected>
  readonly permissionOf: (tool: string) => McpPermission
}

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
  /** Asks the server whether it answers. The reason why not, for people and without secrets; `null`: it answers. At most 10 seconds. */
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
