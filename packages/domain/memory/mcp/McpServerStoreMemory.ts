/** `McpServerStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
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
  type RevealedMcpConnection,
  told
} from "../../src/mcp/ports/McpServerStore.ts"
import { credentialChange, keepsConnection } from "../../src/mcp/rules/McpServers.ts"
import { sameRepo } from "../../src/source/schema/Naming.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

interface Kept {
  readonly grantId: string
  readonly record: McpServerRecord
  readonly credential: Redacted.Redacted | null
  readonly connection: (RevealedMcpConnection & { readonly renewingUntil: DateTime.Utc | null }) | null
  readonly begun: { readonly state: string; readonly pending: Redacted.Redacted; readonly until: DateTime.Utc } | null
}

const recordOf = (connection: RevealedMcpConnection | null): McpServerRecord["connection"] =>
  connection === null ? null : { connectedAt: connection.connectedAt, problem: connection.problem }

const orderOf = ({ name, repo }: McpServerRecord) => `${repo.toLowerCase()} ${name}`

type Methods = McpServerStore["Service"]

/** The servers of one store, and how they are found and replaced. */
const makeServers = (access: AccessStore["Service"] | null) => {
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

  const replace = (before: Kept, after: Partial<Kept>): Kept => {
    const next = { ...before, ...after }
    const changed = { ...next, record: { ...next.record, connection: recordOf(next.connection) } }
    all = all.map((server) => server === before ? changed : server)
    return changed
  }
  /** The server with this version of its connection. */
  const withVersion = Effect.fnUntraced(function*(key: McpServerKey, version: number) {
    const found = yield* find(key)
    return found?.connection?.version === version ? { found, connection: found.connection } : null
  })
  const put = (before: Kept | undefined, after: Kept): void => {
    all = [...all.filter((server) => server !== before), after]
  }
  const remove = (found: Kept): void => {
    all = all.filter((server) => server !== found)
  }
  return { isGood, kept, find, replace, withVersion, put, remove }
}

type Servers = ReturnType<typeof makeServers>

const settingsOf = (
  { find, isGood, kept, put, remove }: Servers,
  audit: AuditLog["Service"]
): Pick<Methods, "list" | "remove" | "reveal" | "set"> => ({
  set: Effect.fnUntraced(function*(key, settings, credential, at) {
    const { grantId, name, repo } = key
    if (!(yield* isGood(grantId))) return yield* new McpServerRefused({ reason: "grant" })
    const before = yield* find(key)
    const ofGrant = (yield* kept(grantId, null)).filter((server) => server !== before)
    const ofRepo = ofGrant.filter(({ record }) => sameRepo(record.repo, repo))
    if (ofRepo.length >= MAX_MCP_SERVERS || ofGrant.length >= MAX_MCP_SERVERS_OF_GRANT) {
      return yield* new McpServerRefused({ reason: "limit" })
    }
    const change = credentialChange(before?.record ?? null, settings, credential !== null)
    if (change === "missing") return yield* new McpServerRefused({ reason: "credential" })
    const held = change === "none" ? null : change === "keep" ? before?.credential ?? null : credential
    const createdAt = before?.record.createdAt ?? at
    const connection = before !== undefined && keepsConnection(before.record.settings, settings, change) ? before.connection : null
    const record: McpServerRecord = {
      repo,
      name,
      settings,
      hasCredential: held !== null,
      connection: recordOf(connection),
      createdAt,
      setAt: at
    }
    put(before, { grantId, record, credential: held, connection, begun: before?.begun ?? null })
    yield* audit.append([told("mcp_server.set", key, at)])
    return record
    // No other fiber runs between the check and the write.
  }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
  list: (grantId, repo) => Effect.map(kept(grantId, repo), (servers) => servers.map(({ record }) => record)),
  remove: Effect.fnUntraced(function*(key, at) {
    const found = yield* find(key)
    if (found === undefined) return yield* new McpServerNotFound()
    remove(found)
    yield* audit.append([told("mcp_server.removed", key, at)])
  }),
  reveal: (grantId, repos) =>
    Effect.map(
      kept(grantId, null),
      (servers) =>
        servers.flatMap(({ credential, record }) => repos.some((repo) => sameRepo(repo, record.repo)) ? [{ ...record, credential }] : [])
    )
})

const connectionsOf = (
  { find, kept, replace, withVersion }: Servers,
  audit: AuditLog["Service"]
): Pick<Methods, "beginConnection" | "claimRenewal" | "connect" | "connection" | "endRenewal" | "takeConnecting"> => ({
  beginConnection: Effect.fnUntraced(function*(key, begun) {
    const found = yield* find(key)
    if (found === undefined) return yield* new McpServerNotFound()
    replace(found, { begun })
  }),
  takeConnecting: Effect.fnUntraced(function*(grantId, state, at) {
    const found = (yield* kept(grantId, null)).find(({ begun }) => begun?.state === state)
    if (found === undefined || found.begun === null) return null
    const { pending, until } = found.begun
    replace(found, { begun: null })
    const { name, repo, settings } = found.record
    return DateTime.isGreaterThan(until, at) ? { server: { grantId, repo, name }, settings, pending } : null
  }),
  connect: Effect.fnUntraced(function*(key, settings, tokens, connectedAt) {
    const found = yield* find(key)
    if (found === undefined || !keepsConnection(found.record.settings, settings, "none")) return yield* new McpServerNotFound()
    const version = Math.max((found.connection?.version ?? 0) + 1, DateTime.toEpochMillis(connectedAt))
    const { record } = replace(found, { connection: { version, tokens, connectedAt, problem: null, renewingUntil: null } })
    yield* audit.append([told("mcp_server.connected", key, connectedAt)])
    return record
  }),
  connection: (key) =>
    Effect.map(find(key), (found) => {
      if (found === undefined || found.connection === null) return null
      const { renewingUntil: _, ...connection } = found.connection
      return connection
    }),
  claimRenewal: Effect.fnUntraced(function*(key, version, at, until) {
    const it = yield* withVersion(key, version)
    const claimed = it?.connection.renewingUntil ?? null
    if (it === null || (claimed !== null && DateTime.isGreaterThan(claimed, at))) return false
    replace(it.found, { connection: { ...it.connection, renewingUntil: until } })
    return true
  }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
  endRenewal: Effect.fnUntraced(function*(key, version, renewed) {
    const it = yield* withVersion(key, version)
    if (it === null) return
    const next = renewed === null ? {} : { ...renewed, version: version + 1 }
    replace(it.found, { connection: { ...it.connection, ...next, renewingUntil: null } })
  })
})

/** Process-local, for tests and for embedding without a database. Grants are those of the `AccessStore` beneath it, if there is one. */
export const layer = Layer.effect(
  McpServerStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    const servers = makeServers(access)
    return McpServerStore.of({ ...settingsOf(servers, audit), ...connectionsOf(servers, audit) })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
