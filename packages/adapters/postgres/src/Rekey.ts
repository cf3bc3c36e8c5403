/** Encrypts all stored secrets anew with the first key of several, so that the others can be removed. */
import { DateTime, Effect, Option, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as HostConnectionsPostgres from "./host-connections/HostConnectionsPostgres.ts"
import * as McpServerStorePostgres from "./mcp-server-store/McpServerStorePostgres.ts"
import * as ModelProviderStorePostgres from "./model-provider-store/ModelProviderStorePostgres.ts"
import * as SecretRows from "./secret-store/rows/SecretRows.ts"
import { isSealed, type Key } from "./secret-store/SecretsKey.ts"
import { guard } from "./sql/SqlFailure.ts"
import * as WebhookSecrets from "./webhook-store/rows/Secrets.ts"

/** A column with encrypted values. `list`: `[{value, until}]` as jsonb. */
interface Column {
  /** For people, in the plural. */
  readonly kind: string
  readonly table: string
  readonly column: string
  readonly type: "list" | "text"
  /** The expressions of a unique index, in its order. */
  readonly key: ReadonlyArray<readonly [expression: string, type: "text" | "uuid"]>
  /** Other columns that `read` needs. */
  readonly more: ReadonlyArray<string>
  /** Rows whose value is still of use. Default: all. */
  readonly where?: string
  /** `about`: the purpose that the value is encrypted for. `name`: for people. */
  readonly read: (row: unknown) => { readonly about: string; readonly name: string }
}

const column = <A>(
  { about, name, row, ...rest }: Omit<Column, "read"> & {
    readonly row: Schema.Codec<A, unknown>
    readonly about: (row: A) => string
    readonly name: (row: A) => string
  }
): Column => {
  const decode = Schema.decodeUnknownSync(row)
  return {
    ...rest,
    read: (found) => {
      const decoded = decode(found)
      return { about: about(decoded), name: name(decoded) }
    }
  }
}

const InRepository = Schema.Struct({ grant_id: Schema.String, repo: Schema.String, name: Schema.String })
const inRepository = {
  key: [["grant_id", "uuid"], ["lower(repo)", "text"], ["name", "text"]],
  more: ["grant_id", "repo", "name"],
  row: InRepository,
  name: ({ grant_id, name, repo }: typeof InRepository.Type) => `${name} of ${repo} in grant ${grant_id}`
} as const

const mcp = (kind: string, name: "begun" | "connection" | "sealed", where?: string) =>
  column({
    ...inRepository,
    kind,
    table: "mcp_servers",
    column: name,
    type: "text",
    ...(where === undefined ? {} : { where }),
    about: ({ grant_id: grantId, name: server, repo }) => McpServerStorePostgres.aboutOf({ grantId, repo, name: server }, name)
  })

const webhook = (kind: string, table: string) =>
  column({
    kind,
    table,
    column: "secrets",
    type: "list",
    key: [["id", "uuid"]],
    more: ["id"],
    row: Schema.Struct({ id: Schema.String }),
    about: ({ id }) => WebhookSecrets.aboutOf(id),
    name: ({ id }) => id
  })

/** All columns with encrypted values. */
export const COLUMNS: ReadonlyArray<Column> = [
  column({
    ...inRepository,
    kind: "secrets of repositories",
    table: "repository_secrets",
    column: "sealed",
    type: "text",
    about: ({ grant_id: grantId, name, repo }) => SecretRows.aboutOf({ grantId, repo, name })
  }),
  mcp("credentials of MCP servers", "sealed"),
  mcp("connections of MCP servers", "connection"),
  mcp("begun connections of MCP servers", "begun", "begun_until > now()"),
  column({
    kind: "keys of model providers",
    table: "model_providers",
    column: "sealed",
    type: "text",
    key: [["provider", "text"]],
    more: ["provider", "base_url"],
    row: Schema.Struct({ provider: Schema.String, base_url: Schema.NullOr(Schema.String) }),
    about: ({ base_url: baseUrl, provider }) => ModelProviderStorePostgres.aboutOf({ provider, baseUrl }),
    name: ({ provider }) => provider
  }),
  column({
    kind: "connections to source hosts",
    table: "source_host_connections",
    column: "sealed",
    type: "text",
    key: [["host", "text"]],
    more: ["host"],
    row: Schema.Struct({ host: Schema.String }),
    about: ({ host }) => HostConnectionsPostgres.aboutOf(host),
    name: ({ host }) => host
  }),
  webhook("secrets of webhooks", "webhook_endpoints"),
  webhook("secrets of automations", "automations")
]

export interface Rekeyed {
  readonly kind: string
  /** Values that were encrypted anew. */
  readonly anew: number
  /** Values that no key opens, and that stay as they are: the names of some. */
  readonly closed: ReadonlyArray<string>
  readonly closedCount: number
  /** Values that a process changed each time before they could be replaced. */
  readonly changed: number
}

/** A value is at most 64 KiB. */
const BATCH = 100
/** Between two reads of a value that is changed meanwhile is less than a second. */
const PASSES = 5
const MAX_NAMES = 100

/** `anew`: in place of what is stored; `null`: it is encrypted with the first key, or stays. `count`: the values that differ. */
interface Resealed {
  readonly anew: string | null
  readonly count: number
  readonly closed: number
}

const resealedText = (stored: string, about: string, key: Key): Resealed => {
  const sealed = Redacted.make(stored)
  if (key.isCurrent(sealed, about)) return { anew: null, count: 0, closed: 0 }
  const secret = key.open(sealed, about)
  return secret === null ? { anew: null, count: 0, closed: 1 } : { anew: key.seal(secret, about), count: 1, closed: 0 }
}

const resealedList = (stored: string, about: string, key: Key, now: DateTime.Utc): Resealed => {
  const secrets = Option.getOrNull(WebhookSecrets.decodeSecrets(JSON.parse(stored)))
  if (secrets === null) return { anew: null, count: 0, closed: 1 }
  let closed = 0
  let count = 0
  const anew = secrets.map(({ until, value }) => {
    const text = Redacted.value(value)
    // Earlier versions stored plain text.
    const one = isSealed(value) ? resealedText(text, about, key) : { anew: key.seal(value, about), count: 1, closed: 0 }
    count += one.count
    if (until === null || DateTime.isGreaterThan(until, now)) closed += one.closed
    return { value: one.anew ?? text, until: until === null ? null : DateTime.formatIso(until) }
  })
  return { anew: count === 0 ? null : JSON.stringify(anew), count, closed }
}

const Row = Schema.Struct({ stored: Schema.String, at: Schema.Array(Schema.String) })
const decodeRow = Schema.decodeUnknownSync(Row)

/** The next rows in the order of the key. */
const select = (sql: SqlClient.SqlClient, { column, key, more, table, where }: Column, after: ReadonlyArray<string> | null) => {
  const expressions = key.map(([expression]) => expression).join(", ")
  return guard(sql<Record<string, unknown>>`
    SELECT ${sql.literal(more.join(", "))}, ${sql.literal(column)}::text AS stored,
      ARRAY[${sql.literal(key.map(([expression]) => `${expression}::text`).join(", "))}] AS at
    FROM ${sql.literal(table)}
    WHERE ${sql.literal(column)} IS NOT NULL AND ${sql.literal(where ?? "true")}
      AND ${after === null ? sql`true` : sql`(${sql.literal(expressions)}) > (${sql.csv(values(sql, key, after))})`}
    ORDER BY ${sql.literal(expressions)} LIMIT ${BATCH}`)
}

const values = (sql: SqlClient.SqlClient, key: Column["key"], at: ReadonlyArray<string>) =>
  key.map(([, type], index) => sql`${at[index] ?? ""}::${sql.literal(type)}`)

/** Not done if the value changed since it was read: it returns no row then. */
const replace = (sql: SqlClient.SqlClient, { column, key, table, type }: Column, { at, stored }: typeof Row.Type, anew: string) => {
  const cast = sql.literal(type === "list" ? "jsonb" : "text")
  return guard(sql`
    UPDATE ${sql.literal(table)} SET ${sql.literal(column)} = ${anew}::${cast}
    WHERE (${sql.literal(key.map(([expression]) => expression).join(", "))}) = (${sql.csv(values(sql, key, at))})
      AND ${sql.literal(column)} = ${stored}::${cast}
    RETURNING 1`)
}

const pass = Effect.fnUntraced(function*(of: Column, key: Key) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* DateTime.now
  const closed: Array<string> = []
  let [anew, changed, closedCount] = [0, 0, 0]
  for (let after: ReadonlyArray<string> | null = null;;) {
    const rows: ReadonlyArray<Record<string, unknown>> = yield* select(sql, of, after)
    for (const found of rows) {
      const row = decodeRow(found)
      const { about, name } = of.read(found)
      const resealed = of.type === "list" ? resealedList(row.stored, about, key, now) : resealedText(row.stored, about, key)
      if (resealed.closed > 0) {
        closedCount += resealed.closed
        if (closed.length < MAX_NAMES) closed.push(name)
      }
      if (resealed.anew !== null) {
        if ((yield* replace(sql, of, row, resealed.anew)).length > 0) anew += resealed.count
        else changed += resealed.count
      }
      after = row.at
    }
    if (rows.length < BATCH) return { kind: of.kind, anew, closed, closedCount, changed }
  }
})

/**
 * Encrypts with the first key what another key encrypted, value by value. Safe to interrupt, to repeat, and beside running processes: a
 * value that changes meanwhile is read again. What no key opens stays as it is. One entry for each kind.
 */
export const all = Effect.fn("Rekey.all")(function*(key: Key) {
  return yield* Effect.forEach(COLUMNS, (of) =>
    Effect.gen(function*() {
      let anew = 0
      for (let left = PASSES;; left--) {
        const done: Rekeyed = yield* pass(of, key)
        anew += done.anew
        if (done.changed === 0 || left === 1) return { ...done, anew }
      }
    }))
})
