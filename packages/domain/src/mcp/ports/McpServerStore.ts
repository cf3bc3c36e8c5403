/** Port: the MCP servers of a grant's repositories, and their credentials. Checked by `McpServerStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { SecretsUnusable } from "../../environment/ports/SecretStore.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { McpServerName, McpServerSettings } from "../schema/McpServer.ts"

/** Servers of one repository in one grant (our choice). */
export const MAX_MCP_SERVERS = 20
/** Servers of one grant over all repositories (our choice). */
export const MAX_MCP_SERVERS_OF_GRANT = 500

/** No server of the repository has this name. */
export class McpServerNotFound extends Schema.TaggedError<McpServerNotFound>()("McpServerNotFound", {}) {
  override get message() {
    return "There is no such MCP server."
  }
}

/**
 * Nothing was changed. `grant`: there is none, or it is revoked. `limit`: another server has to go first. `credential`: none is given,
 * and none is stored for this address and header, or for these variables.
 */
export class McpServerRefused extends Schema.TaggedError<McpServerRefused>()("McpServerRefused", {
  reason: Schema.Literals(["grant", "limit", "credential"])
}) {
  override get message() {
    switch (this.reason) {
      case "grant":
        return "There is no such grant."
      case "limit":
        return `A repository may have ${MAX_MCP_SERVERS} MCP servers, and a grant ${MAX_MCP_SERVERS_OF_GRANT}.`
      case "credential":
        return "The server needs its credential. A stored one counts only for the address and header, or the names of variables, " +
          "that it was given for."
    }
  }
}

/** The grant and the repository of servers. `repo` is not case-sensitive. */
export interface McpServersOf {
  readonly grantId: string
  readonly repo: RepoName
}

/** The name of a server in its grant and repository. */
export interface McpServerKey extends McpServersOf {
  readonly name: McpServerName
}

/** A connection by OAuth, without its tokens. */
export interface McpConnectionRecord {
  readonly connectedAt: DateTime.Utc
  /** Why it must be made again, for people and without secrets; `null`: it is in use. */
  readonly problem: string | null
}

/** A connection with its tokens, for workers only. */
export interface RevealedMcpConnection extends McpConnectionRecord {
  /** Grows with each change. */
  readonly version: number
  /** The sealed text. */
  readonly tokens: Redacted.Redacted
}

/** A connection that an owner has begun. */
export interface McpConnecting {
  readonly server: McpServerKey
  readonly settings: McpServerSettings
  /** Kept from the beginning for the end. */
  readonly pending: Redacted.Redacted
}

/** A server without its credential. */
export interface McpServerRecord {
  /** As spelled when the settings were set. */
  readonly repo: RepoName
  readonly name: McpServerName
  readonly settings: McpServerSettings
  /** Whether a credential, or the values of a command's variables, are stored. */
  readonly hasCredential: boolean
  /** The connection of a server with OAuth; `null`: an owner has to connect it. */
  readonly connection: McpConnectionRecord | null
  readonly createdAt: DateTime.Utc
  /** The time when the settings were last set. */
  readonly setAt: DateTime.Utc
}

/** A server with its credential, for workers only. */
export interface RevealedMcpServer extends McpServerRecord {
  /** `null`: it has none. Of a command: its variables, as `McpVariables` in JSON. */
  readonly credential: Redacted.Redacted | null
}

/** The security event for a change. */
export const told = (
  action: Extract<Action, `mcp_server.${string}`>,
  { grantId, name, repo }: McpServerKey,
  at: DateTime.Utc
): SecurityEvent => ({ action, at, subjects: { grantId, repo, mcpServer: name } })

/**
 * Checked by `McpServerStoreContract`. New settings end a connection unless `keepsConnection`. Revoking a grant deletes its servers for
 * good. Changes are in the audit log.
 */
export class McpServerStore extends Context.Service<McpServerStore, {
  /** Adds a server or replaces its settings. What becomes of the credential before: `credentialChange`. `null`: none is given. */
  set(
    key: McpServerKey,
    settings: McpServerSettings,
    credential: Redacted.Redacted | null,
    at: DateTime.Utc
  ): Effect.Effect<McpServerRecord, McpServerRefused | SecretsUnusable | StoreUnavailable>
  /** In order of repository and name. `repo` limits the list to one repository. */
  list(grantId: string, repo: RepoName | null): Effect.Effect<ReadonlyArray<McpServerRecord>, StoreUnavailable>
  remove(key: McpServerKey, at: DateTime.Utc): Effect.Effect<void, McpServerNotFound | StoreUnavailable>
  /** The servers of these repositories with their credentials, in order of repository and name. */
  reveal(
    grantId: string,
    repos: ReadonlyArray<RepoName>
  ): Effect.Effect<ReadonlyArray<RevealedMcpServer>, SecretsUnusable | StoreUnavailable>
  /**
   * Remembers a connection that begins at `at`, until `until`. `state`: a digest of what the browser comes back with. It replaces an
   * earlier beginning of the same server.
   */
  beginConnection(
    key: McpServerKey,
    begun: { readonly state: string; readonly pending: Redacted.Redacted; readonly until: DateTime.Utc }
  ): Effect.Effect<void, McpServerNotFound | SecretsUnusable | StoreUnavailable>
  /** Takes what was begun, once; `null`: nothing that is still valid at `at`. */
  takeConnecting(
    grantId: string,
    state: string,
    at: DateTime.Utc
  ): Effect.Effect<McpConnecting | null, SecretsUnusable | StoreUnavailable>
  /** Stores a connection that was made for these settings. Fails if the server has other ones by now. */
  connect(
    key: McpServerKey,
    settings: McpServerSettings,
    tokens: Redacted.Redacted,
    at: DateTime.Utc
  ): Effect.Effect<McpServerRecord, McpServerNotFound | SecretsUnusable | StoreUnavailable>
  /** `null`: it is not connected. */
  connection(key: McpServerKey): Effect.Effect<RevealedMcpConnection | null, SecretsUnusable | StoreUnavailable>
  /** Whether the caller, and no other until `until`, may renew this version of the connection. */
  claimRenewal(key: McpServerKey, version: number, at: DateTime.Utc, until: DateTime.Utc): Effect.Effect<boolean, StoreUnavailable>
  /**
   * Ends a renewal of this version: with new tokens, with the reason why the connection must be made again, or (`null`) with nothing, so
   * that another one may try. Does nothing if the connection has another version by now.
   */
  endRenewal(
    key: McpServerKey,
    version: number,
    renewed: { readonly tokens: Redacted.Redacted } | { readonly problem: string } | null
  ): Effect.Effect<void, SecretsUnusable | StoreUnavailable>
}>()("@slipway/domain/McpServerStore") {
}
