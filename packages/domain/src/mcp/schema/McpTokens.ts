/** A connection to an MCP server by OAuth (docs/decisions/23), as it is sealed. */
import * as Schema from "effect/Schema"

/** The client that the service is at an authorization server. */
export const McpOAuthClient = Schema.Struct({
  id: Schema.String,
  /** `null`: a public client. */
  secret: Schema.NullOr(Schema.String),
  authentication: Schema.Literals(["none", "client_secret_basic", "client_secret_post"])
})
export type McpOAuthClient = typeof McpOAuthClient.Type

/** The tokens of a connection, as the authorization server gave them. */
export const McpTokens = Schema.Struct({
  accessToken: Schema.String,
  /** `null`: when the access token ends, an owner connects the server again. */
  refreshToken: Schema.NullOr(Schema.String),
  /** Milliseconds since 1970; `null`: unknown. */
  expiresAt: Schema.NullOr(Schema.Number),
  issuer: Schema.String,
  tokenEndpoint: Schema.String,
  client: McpOAuthClient,
  /** The resource that the tokens are for (RFC 8707). */
  resource: Schema.String
})
export type McpTokens = typeof McpTokens.Type
