/**
 * Port: the authorization servers of MCP servers (OAuth 2.1). Every request goes to a public address over `https`, or to a destination
 * that the operator listed, follows no redirect, and is bounded in time and bytes.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { McpTokens } from "../schema/McpTokens.ts"

/** The answer was unusable, or there was none. `detail`: a sentence for people, without secrets. */
export class McpAuthorizationError extends Schema.TaggedError<McpAuthorizationError>()("McpAuthorizationError", {
  detail: Schema.String,
  /** Whether the same request succeeds at no later time. */
  isFinal: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** A connection that begins in a browser. */
export interface BegunAuthorization {
  /** Where the person agrees. */
  readonly address: string
  /** The browser comes back with it. */
  readonly state: Redacted.Redacted
  /** For `finish`. */
  readonly pending: Redacted.Redacted
}

/** Connects MCP servers by OAuth 2.1: begins, ends and renews. Reaches other services, so each call may take seconds. */
export class McpAuthorizer extends Context.Service<McpAuthorizer, {
  /** Finds the authorization server of the MCP server at `url`, and registers a client there unless `client` is given. */
  begin(options: {
    readonly url: string
    readonly client: { readonly id: string; readonly secret: Redacted.Redacted | null } | null
    /** `null`: those that the server names. */
    readonly scope: string | null
    readonly redirectUri: string
  }): Effect.Effect<BegunAuthorization, McpAuthorizationError>
  /** `answer`: the query with which the browser came back. */
  finish(pending: Redacted.Redacted, answer: URLSearchParams): Effect.Effect<McpTokens, McpAuthorizationError>
  /** With `isFinal` the authorization server refused, and an owner has to connect the server again. */
  refresh(tokens: McpTokens): Effect.Effect<McpTokens, McpAuthorizationError>
}>()("@slipway/domain/McpAuthorizer") {
}
