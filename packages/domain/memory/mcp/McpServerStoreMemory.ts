/** `McpServerStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Scheduler from "effect/Scheduler"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import {
  MAX_MCP_SERVERS,
  MAX_MCP_SERVERS_OF_GRANT,
  type McpServerKey,
  McpServerNotFound,
  type McpServerRecord,
  McpServerRefused,
  McpServerStore,
  told
} from "../../src/mcp/ports/McpServerStore.ts"
import { credentialChange } from "../../src/mcp/rules/McpServers.ts"
import { sameRepo } from "../../src/source/schema/Naming.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

interface Kept {
  readonly grantId: string
  readonly record: McpServerRecord
  readonly credential: Redacted.Redacted | null
}

const orderOf = ({ name, repo }: McpServerRecord) => `${repo.toLowerCase()} ${name}`

/** Process-local, for tests and for embedding without a database. Grants are those of the `AccessStore` beneath it, if there is one. */
export const layer = Layer.effect(
  McpServerStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    let all: ReadonlyArray<Kept> = []

    const isGood = Effect.fnUntraced(function*(grantId: string) {
      return access === null || (yield* access.listGrants).some(({ id, revokedAt }) => id === grantId && revokedAt === null)
    })
    /** Servers in order, after removing those of revoked grants. */
    const kept = Effect.fnUntraced(function*(grantId: string, repo: string | null) {
      if (!(yield* isGood(grantId))) all = all.filter((server) => server.grantId !== grantId)
      return all.filter((server) => server.grantId === grantId && (repo === null || sameRepo(server.record.repo, repo)))
        .toSorted((a, b) => orderOf(a.record) < orderOf(b.record) ? -1 : 1)
    })
    const find = ({ grantId, name, repo }: McpServerKey) =>
      Effect.map(kept(grantId, repo), (servers) => servers.find(({ record }) => record.name === name))

    return McpServerStore.of({
      set: Effect.fnUntraced(function*(key, settings, credential, at) {
        const { grantId, name, repo } = key
        if (!(yield* isGood(grantId))) return yield* new McpServerRefused({ reason: "grant" })
        const before = yield* find(key)
        const ofGrant = (yield* kept(grantId, null)).filter((server) => server !== before)
        const ofRepo = ofGrant.filter(({ record }) => sameRepo(record.repo, repo))
        if (before === undefined && (ofRepo.length >= MAX_MCP_SERVERS || ofGrant.length >= MAX_MCP_SERVERS_OF_GRANT)) {
          return yield* new McpServerRefused({ reason: "limit" })
        }
        const change = credentialChange(before?.record ?? null, settings, credential !== null)
        if (change === "missing") return yield* new McpServerRefused({ reason: "credential" })
        const held = change === "none" ? null : change === "keep" ? before?.credential ?? null : credential
        const createdAt = before?.record.createdAt ?? at
        const record: McpServerRecord = { repo, name, settings, hasCredential: held !== null, createdAt, setAt: at }
        all = [...all.filter((server) => server !== before), { grantId, record, credential: held }]
        yield* audit.append([told("mcp_server.set", key, at)])
        return record
        // No other fiber runs between the check and the write.
      }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
      list: (grantId, repo) => Effect.map(kept(grantId, repo), (servers) => servers.map(({ record }) => record)),
      remove: Effect.fnUntraced(function*(key, at) {
        const found = yield* find(key)
        if (found === undefined) return yield* new McpServerNotFound()
        all = all.filter((server) => server !== found)
        yield* audit.append([told("mcp_server.removed", key, at)])
      }),
      reveal: (grantId, repos) =>
        Effect.map(
          kept(grantId, null),
          (servers) =>
            servers.flatMap(({ credential, record }) =>
              repos.some((repo) => sameRepo(repo, record.repo)) ? [{ ...record, credential }] : []
            )
        )
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
