/** `McpServerStore` on Postgres. Credentials are stored encrypted, each for its grant, repository and name alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import {
  MAX_MCP_SERVERS,
  MAX_MCP_SERVERS_OF_GRANT,
  type McpServerKey,
  McpServerNotFound,
  McpServerRefused,
  McpServerStore,
  type RevealedMcpServer,
  told
} from "@slipway/domain/mcp/ports/McpServerStore"
import { credentialChange } from "@slipway/domain/mcp/rules/McpServers"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { type Key, SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import {
  countOthers,
  deleteServer,
  lockGrant,
  lockServers,
  saveServer,
  selectAllSealed,
  selectSealed,
  selectServers,
  updateSealed
} from "./statements.ts"

/** The purpose that a credential is encrypted for. */
const aboutOf = ({ grantId, name, repo }: McpServerKey) => `mcp_server/${grantId}/${repo.toLowerCase()}/${name}`

/** Encrypts with the first key what another key encrypted. What no key opens stays as it is. Safe to do twice. */
export const reseal = Effect.fn("McpServerStorePostgres.reseal")(
  function*(key: Key) {
    const sql = yield* SqlClient.SqlClient
    for (const { sealed, ...server } of yield* selectAllSealed(sql)) {
      const about = aboutOf(server)
      if (key.isCurrent(sealed, about)) continue
      const value = key.open(sealed, about)
      if (value !== null) yield* updateSealed(sql, server, key.seal(value, about))
    }
  },
  (self) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)),
  guard
)

export const layer = Layer.effect(
  McpServerStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const key = Effect.catchTag(
      (yield* SecretsKey).given,
      "SecretsKeyUnusable",
      ({ message }) => Effect.fail(new SecretsUnusable({ problem: message }))
    )
    return McpServerStore.of({
      set: Effect.fn("McpServerStore.set")(
        function*(server, settings, credential, at) {
          const { grantId, name, repo } = server
          if ((yield* lockGrant(sql, grantId)).length === 0) return yield* new McpServerRefused({ reason: "grant" })
          yield* lockServers(sql, grantId)
          const before = (yield* selectServers(sql, grantId, repo)).find((one) => one.name === name) ?? null
          const { ofGrant, ofRepo } = yield* countOthers(sql, server)
          if (before === null && (ofRepo >= MAX_MCP_SERVERS || ofGrant >= MAX_MCP_SERVERS_OF_GRANT)) {
            return yield* new McpServerRefused({ reason: "limit" })
          }
          const change = credentialChange(before, settings, credential !== null)
          if (change === "missing") return yield* new McpServerRefused({ reason: "credential" })
          const sealed = change === "keep"
            ? undefined
            : change === "none" || credential === null
            ? null
            : (yield* key).seal(credential, aboutOf(server))
          const record = yield* saveServer(sql, server, settings, sealed, at)
          yield* audit.append([told("mcp_server.set", server, at)])
          return record
        },
        Effect.catchTag("NoSuchElementError", Effect.die),
        sql.withTransaction,
        guard
      ),
      list: Effect.fn("McpServerStore.list")((grantId: string, repo) => selectServers(sql, grantId, repo), guard),
      remove: Effect.fn("McpServerStore.remove")(
        function*(server, at) {
          if ((yield* deleteServer(sql, server)).length === 0) return yield* new McpServerNotFound()
          yield* audit.append([told("mcp_server.removed", server, at)])
        },
        sql.withTransaction,
        guard
      ),
      reveal: Effect.fn("McpServerStore.reveal")(
        function*(grantId: string, repos) {
          const rows = yield* selectSealed(sql, grantId, repos)
          const opening = rows.some(({ sealed }) => sealed !== null) ? yield* key : null
          const revealed: Array<RevealedMcpServer> = []
          for (const { sealed, ...server } of rows) {
            const credential = sealed === null || opening === null ? null : opening.open(sealed, aboutOf({ grantId, ...server }))
            if (sealed !== null && credential === null) {
              return yield* new SecretsUnusable({
                problem:
                  `The stored credential of the MCP server ${server.name} of ${server.repo} cannot be decrypted: it was changed, or ` +
                  "encrypted with a key that the key file no longer has. Give the file that key again, or set the credential again."
              })
            }
            revealed.push({ ...server, credential })
          }
          return revealed
        },
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
