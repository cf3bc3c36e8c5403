/** Port: the accounts of the service at source hosts that it is connected to by OAuth. Only the service can read the tokens. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { HostName } from "../../source/schema/RepositoryAlias.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { SecretsUnusable } from "./SecretStore.ts"

/** The tokens of one connection. */
export interface HostConnection {
  readonly accessToken: Redacted.Redacted
  /** `null`: it cannot be renewed. */
  readonly refreshToken: Redacted.Redacted | null
  /** When the access token expires; `null`: never. */
  readonly expiresAt: DateTime.Utc | null
}

/** The security event for a change by an operator: `SecurityEvent`. */
export const connectionChanged = (
  action: "source_host.connected" | "source_host.disconnected",
  host: HostName,
  at: DateTime.Utc
) => ({ action, at, subjects: { sourceHost: host } })

/** Names of hosts are compared in any case of letters. Checked by `HostConnectionsContract`. */
export class HostConnections extends Context.Service<HostConnections, {
  /** Replaces the connection. It is in the audit log. */
  set(host: HostName, connection: HostConnection, at: DateTime.Utc): Effect.Effect<void, SecretsUnusable | StoreUnavailable>
  /** `false`: there was none. It is in the audit log. */
  remove(host: HostName, at: DateTime.Utc): Effect.Effect<boolean, StoreUnavailable>
  /**
   * The connection; `null`: none. If it expires before `by`, it is that of `renew`, which is stored. At most one caller renews a connection
   * at a time, and the others get its result: a refresh token can be used once. A caller that is interrupted meanwhile still stores it.
   */
  current<E>(
    host: HostName,
    by: DateTime.Utc,
    renew: (connection: HostConnection) => Effect.Effect<HostConnection, E>
  ): Effect.Effect<HostConnection | null, E | SecretsUnusable | StoreUnavailable>
}>()("@slipway/domain/HostConnections") {}
