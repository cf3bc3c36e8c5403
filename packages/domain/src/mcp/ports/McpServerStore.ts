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
 * and none is stored for this address and header.
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
        return "The server needs its credential. A stored one counts only for the address and header that it was given for."
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

/** A server without its credential. */
export interface McpServerRecord {
  /** As spelled when the settings were set. */
  readonly repo: RepoName
  readonly name: McpServerName
  readonly settings: McpServerSettings
  readonly hasCredential: boolean
  readonly createdAt: DateTime.Utc
  /** The time when the settings were last set. */
  readonly setAt: DateTime.Utc
}

/** A server with its credential, for workers only. */
export interface RevealedMcpServer extends McpServerRecord {
  /** `null`: it has none. */
  readonly credential: Redacted.Redacted | null
}

/** The security event for a change. */
export const told = (
  action: Extract<Action, `mcp_server.${string}`>,
  { grantId, name, repo }: McpServerKey,
  at: DateTime.Utc
): SecurityEvent => ({ action, at, subjects: { grantId, repo, mcpServer: name } })

/** Checked by `McpServerStoreContract`. Revoking a grant deletes its servers for good. Changes are in the audit log. */
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
}>()("@slipway/domain/McpServerStore") {
}
