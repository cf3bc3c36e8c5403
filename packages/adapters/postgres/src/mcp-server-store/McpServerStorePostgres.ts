/** `McpServerStore` on Postgres. Credentials are stored encrypted, each for its grant, repository and name alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { type SecretKey, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
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
import { credentialChange, keepsConnection } from "@slipway/domain/mcp/rules/McpServers"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { type Key, SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import {
  claimRenewal,
  countOthers,
  deleteServer,
  endRenewal,
  lockGrant,
  lockServers,
  saveBegun,
  saveConnection,
  saveServer,
  selectConnection,
  selectSealed,
  selectServers,
  takeBegun
} from "./statements.ts"

/** The purpose that a value is encrypted for. */
const PURPOSES = { sealed: "mcp_server", connection: "mcp_connection", begun: "mcp_connecting" }

export const aboutOf = ({ grantId, name, repo }: Pick<SecretKey, "grantId" | "name" | "repo">, column: keyof typeof PURPOSES = "sealed") =>
  `${PURPOSES[column]}/${grantId}/${repo.toLowerCase()}/${name}`

/** A stored value that no key opens. */
const unusable = (what: string, { name, repo }: Pick<McpServerKey, "name" | "repo">, remedy: string) =>
  new SecretsUnusable({
    problem: `The stored ${what} of the MCP server ${name} of ${repo} cannot be decrypted: it was changed, or encrypted with a key that ` +
      `the key file no longer has. Give the file that key again, or ${remedy}.`
  })

const CONNECT = "connect the server again"

type ConnectionMethods = Pick<
  McpServerStore["Service"],
  "beginConnection" | "claimRenewal" | "connect" | "connection" | "endRenewal" | "takeConnecting"
>
type Given = Effect.Effect<Key, SecretsUnusable | StoreUnavailable>

/** The methods about connections by OAuth. */
const connections = (sql: SqlClient.SqlClient, audit: AuditLog["Service"], key: Given): ConnectionMethods => ({
  beginConnection: Effect.fn("McpServerStore.beginConnection")(
    function*(server, { pending, state, until }) {
      const sealed = (yield* key).seal(pending, aboutOf(server, "begun"))
      if ((yield* saveBegun(sql, server, { sealed, state, until })).length === 0) return yield* new McpServerNotFound()
    },
    guard
  ),
  takeConnecting: Effect.fn("McpServerStore.takeConnecting")(
    function*(grantId, state, at) {
      const [taken] = yield* takeBegun(sql, grantId, state)
      if (taken === undefined || !DateTime.isGreaterThan(taken.until, at)) return null
      const server = { grantId, repo: taken.repo, name: taken.name }
      const pending = (yield* key).open(taken.begun, aboutOf(server, "begun"))
      if (pending === null) return yield* unusable("beginning of a connection", server, CONNECT)
      return { server, settings: taken.settings, pending }
    },
    guard
  ),
  connect: Effect.fn("McpServerStore.connect")(
    function*(server, settings, tokens, at) {
      const { grantId, name, repo } = server
      yield* lockServers(sql, grantId)
      const found = (yield* selectServers(sql, grantId, repo)).find((one) => one.name === name)
      if (found === undefined || !keepsConnection(found.settings, settings, "none")) return yield* new McpServerNotFound()
      const record = yield* saveConnection(sql, server, (yield* key).seal(tokens, aboutOf(server, "connection")), at)
      yield* audit.append([told("mcp_server.connected", server, at)])
      return record
    },
    Effect.catchTag("NoSuchElementError", () => new McpServerNotFound()),
    sql.withTransaction,
    guard
  ),
  connection: Effect.fn("McpServerStore.connection")(
    function*(server) {
      const [found] = yield* selectConnection(sql, server)
      if (found === undefined) return null
      const tokens = (yield* key).open(found.tokens, aboutOf(server, "connection"))
      return tokens === null ? yield* unusable("connection", server, CONNECT) : { ...found, tokens }
    },
    guard
  ),
  claimRenewal: Effect.fn("McpServerStore.claimRenewal")(
    (server: McpServerKey, version, at, until) =>
      Effect.map(claimRenewal(sql, server, version, at, until), (claimed) => claimed.length > 0),
    guard
  ),
  endRenewal: Effect.fn("McpServerStore.endRenewal")(
    function*(server, version, renewed) {
      const change = renewed === null
        ? {}
        : "problem" in renewed
        ? renewed
        : { sealed: (yield* key).seal(renewed.tokens, aboutOf(server, "connection")) }
      yield* endRenewal(sql, server, version, change)
    },
    guard
  )
})

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
          const isConnectionKept = before !== null && keepsConnection(before.settings, settings, change)
          const record = yield* saveServer(sql, server, settings, sealed, isConnectionKept, at)
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
              return yield* unusable("credential", server, "set the credential again")
            }
            revealed.push({ ...server, credential })
          }
          return revealed
        },
        guard
      ),
      ...connections(sql, audit, key)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
