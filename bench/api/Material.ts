/** The data of the API's benchmarks: a durable Postgres of their own, with tenants, keys and sandboxes that the stores wrote. */
import { mint } from "@slipway/domain/access/rules/ApiKey"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId, ID_ALPHABET } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { CreateSandbox, toCreation } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as Database from "@slipway/postgres/Database"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { Context, DateTime, Effect, Layer, Redacted, References, Result, Schema } from "effect"
import { execFileSync } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import pg from "pg"
import { number } from "../Statistics.ts"
import * as Protocol from "./Protocol.ts"

/**
 * Requests are spread over so many keys, so that each has as many acceptances to remember as a busy key of the default limit. A user
 * may have 50 of them.
 */
const KEYS_OF_TENANT = 40
const REQUESTS_PER_MINUTE = 1000
const REQUESTS_PER_TENANT = 100_000
const LIMITED = "limited"
const LIMITED_KEYS = 50

/** Tenants have a grant and a user each: what many clients ask at once is of many tenants. */
export interface Size {
  readonly tenants: number
  /** Sandboxes of each tenant, written by the store. */
  readonly sandboxes: number
  /** Sandboxes of all tenants, copied from those by Postgres: they ended, with {@link EVENTS_OF_COPY} events each. 0: none. */
  readonly copies: number
}
export const USUAL: Size = { tenants: 25, sandboxes: 110, copies: 0 }
export const EVENTS_OF_COPY = 10
/** Sandboxes of one tenant whose logs grow, one for each use. The first of a tenant is what copies are made of. */
const FOLLOWED = [1, 2, 3, 4]

/** After the first one, which says that it was accepted. */
const life: ReadonlyArray<SandboxEvent> = [
  { type: "sandbox.status", data: { status: "creating", previous: "queued", reason: null, initiator: "system" } },
  { type: "sandbox.status", data: { status: "running", previous: "creating", reason: null, initiator: "system" } },
  ...Array.from({ length: EVENTS_OF_COPY - 4 }, (): SandboxEvent => ({
    type: "message.updated",
    turn_id: Protocol.TURN,
    data: { part_id: `${Protocol.TURN}:text`, message_id: Protocol.TURN, kind: "text", text: Protocol.SAID }
  })),
  { type: "sandbox.status", data: { status: "succeeded", previous: "running", reason: null, initiator: "system" } }
]

const seed = Effect.fnUntraced(function*({ copies, sandboxes: own, tenants }: Size) {
  const access = yield* Access
  const ids = yield* Ids
  const store = yield* SandboxStore
  const members = yield* Members
  const users = yield* Effect.forEach(
    Array.from({ length: tenants }),
    Effect.fnUntraced(function*(_, i) {
      yield* members.add(null, `bench-${i}`, "member")
      return (yield* members.approve(`bench-${i}`)).id
    })
  )
  const keys = (label: string, count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, i) => i % tenants),
      (tenant) => access.createKey({ grant: `bench-${tenant}`, userId: users[tenant], label, scopes: ["sandboxes"], kind: "live" }),
      { concurrency: 10 }
    )
  const limited = yield* keys(LIMITED, LIMITED_KEYS)
  const mintAll = (count: number) => Effect.forEach(Array.from({ length: count }), () => Effect.map(mint(ids, "live"), Redacted.value))
  const minted = yield* keys("bench", tenants * KEYS_OF_TENANT)
  const sandboxes = yield* Effect.forEach(
    Array.from({ length: tenants * own }),
    Effect.fnUntraced(function*(_, i) {
      const { grant, record } = minted[i % tenants]!
      const request = yield* Schema.decodeEffect(CreateSandbox)({
        repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/infra" }],
        prompt: `${i} ${Protocol.PROMPT}`,
        metadata: { ticket: `T-${i}`, team: "payments" }
      })
      const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
      yield* store.create({
        creation: toCreation(request, {
          id,
          grantId: grant.id,
          createdBy: record.userId,
          model: offlineDemo,
          at: yield* DateTime.now
        }),
        keyed: null
      })
      if (copies > 0 && i < tenants) yield* store.change(id, "policy", () => Result.succeed(life), yield* DateTime.now)
      return id
    }),
    { concurrency: 10 }
  )
  const { grant, record } = minted[0]!
  return {
    creator: { grantId: grant.id, userId: record.userId, organizationId: grant.organizationId },
    material: {
      keys: minted.map(({ key }) => Redacted.value(key)),
      // Both go round the tenants.
      reads: minted.map(({ key }, i) => [sandboxes[i % sandboxes.length]!, Redacted.value(key)] as const),
      followed: {
        sandboxIds: FOLLOWED.map((i) => sandboxes[i * tenants]!),
        keys: minted.filter((_, i) => i % tenants === 0).map(({ key }) => Redacted.value(key))
      },
      unknownKeys: yield* mintAll(200),
      limitedKeys: limited.map(({ key }) => Redacted.value(key)),
      sandboxIds: sandboxes
    }
  } satisfies { readonly creator: Protocol.Creator; readonly material: Protocol.Material }
})

/** The repository that creations name. */
const addRepository = (dataDir: string) =>
  Effect.flatMap(LocalRepositories, (local) => {
    const folder = path.join(dataDir, "shop")
    execFileSync("git", ["init", "--quiet", "--initial-branch=main", folder])
    execFileSync(
      "git",
      ["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "--message", "First"],
      { cwd: folder }
    )
    return local.register("acme/shop", folder)
  })

/** Uses up the rate of the limited keys: as many acceptances as there may be, a millisecond apart, good for almost a minute. */
const USE_UP = `
  INSERT INTO rate_windows (key_id, times, counts)
  SELECT k.id, t.times, ARRAY(SELECT generate_series(1, ${REQUESTS_PER_MINUTE}::bigint))
  FROM api_keys k, (
    SELECT array_agg((extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${REQUESTS_PER_MINUTE}::bigint + n ORDER BY n) AS times
    FROM generate_series(1, ${REQUESTS_PER_MINUTE}::bigint) n
  ) t
  WHERE k.label = '${LIMITED}'
  ON CONFLICT (key_id) DO UPDATE SET times = excluded.times, counts = excluded.counts, forgotten = 0`

const COPY_LAST = `
  WITH copied AS (
    INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
    SELECT e.sandbox_id, n, e.at, e.type, e.part_id, replace(e.wire, '"id":"' || $2 || '"', '"id":"' || n || '"')
    FROM sandbox_events e, generate_series($2::bigint + 1, $2::bigint + $3::bigint) n
    WHERE e.sandbox_id = $1 AND e.seq = $2::bigint
  )
  UPDATE sandboxes SET last_seq = $2::bigint + $3::bigint, work_seq = $2::bigint + $3::bigint WHERE id = $1`

/** The id of the n-th copy; random enough to spread over an index like real ids. The first million are distinct. */
const ID_OF_COPY = "'c_' || translate(substr(md5(n::text), 1, 12), '01', 'yz')"
const COPIES_AT_ONCE = 50_000

const COPY_SANDBOXES = `
  INSERT INTO sandboxes
  SELECT copy.* FROM generate_series($2::bigint, $3::bigint) n
  JOIN sandboxes t ON t.id = ($1::text[])[1 + n % array_length($1::text[], 1)]
  CROSS JOIN LATERAL jsonb_populate_record(t, jsonb_build_object(
    'id', ${ID_OF_COPY}, 'created_at', t.created_at - interval '1 year' + n * interval '10 seconds')) copy`
const COPY_EVENTS = `
  INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
  SELECT ${ID_OF_COPY}, e.seq, e.at, e.type, e.part_id, replace(e.wire, e.sandbox_id, ${ID_OF_COPY})
  FROM generate_series($2::bigint, $3::bigint) n
  JOIN sandbox_events e ON e.sandbox_id = ($1::text[])[1 + n % array_length($1::text[], 1)]`

/** Copies what the store wrote, tenant by tenant in turns, as rows of many tenants lie among each other. Answers those from the `first`. */
const copy = async (url: string, templates: ReadonlyArray<string>, copies: number, first: number, say: (line: string) => void) => {
  const client = new pg.Client({ connectionString: url, options: "-c search_path=slipway" })
  await client.connect()
  // Looking up each event's sandbox would take longer than writing it. All are looked up at once in the end.
  const reference = "sandbox_events_sandbox_id_fkey"
  await client.query(`ALTER TABLE sandbox_events DROP CONSTRAINT ${reference}`)
  for (let next = 1; next <= copies; next += COPIES_AT_ONCE) {
    const last = Math.min(copies, next + COPIES_AT_ONCE - 1)
    await client.query(COPY_SANDBOXES, [templates, next, last])
    await client.query(COPY_EVENTS, [templates, next, last])
    say(`${number(last)} of ${number(copies)} sandboxes, ${number(last * EVENTS_OF_COPY)} events`)
  }
  await client.query(`ALTER TABLE sandbox_events ADD CONSTRAINT ${reference} FOREIGN KEY (sandbox_id) REFERENCES sandboxes`)
  await client.query("VACUUM (ANALYZE) sandboxes, sandbox_events")
  const { rows: [size] } = await client.query<{ readonly bytes: string }>("SELECT pg_database_size(current_database()) AS bytes")
  say(`${number(Number(size?.bytes) / 1024 ** 2)} MB`)
  const { rows } = await client.query<{ readonly id: string }>(
    `SELECT ${ID_OF_COPY} AS id FROM generate_series($1::bigint, $2::bigint) n ORDER BY n`,
    [first, copies]
  )
  await client.end()
  return rows.map(({ id }) => id)
}

const stores = Layer.merge(Access.layer, Members.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(SandboxStorePostgres.layer, AccessStorePostgres.layer, LocalRepositories.layer)),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(Migrations.layer)
)

export const serverOptionsOf = (databaseUrl: string, dataDir: string): Protocol.ServerOptions => ({
  databaseUrl,
  dataDir,
  publicUrl: "http://localhost:4000",
  requestsPerMinute: REQUESTS_PER_MINUTE,
  requestsPerTenant: REQUESTS_PER_TENANT,
  collector: null,
  hasSpans: true
})

export interface At {
  readonly url: string
  readonly dataDir: string
  readonly material: Protocol.Material
  /** Whose sandboxes are those that are created without HTTP. */
  readonly creator: Protocol.Creator
  readonly useUp: () => Promise<unknown>
  /** Copies the last event of a log so many times after itself. */
  readonly copyLast: (sandboxId: string, seq: number, times: number) => Promise<unknown>
}

const urlOf = ({ database, path: socket, username }: EmbeddedPostgres["Service"]["connection"]) =>
  `postgres:///${database}?${new URLSearchParams({ host: path.dirname(socket), user: username })}`

/** Fills a database, which is durable only once it is full, and what was written is on the disk. */
const fill = Effect.fnUntraced(function*(dataDir: string, size: Size, say: (line: string) => void) {
  const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir, durable: false })), EmbeddedPostgres)
  const database = Database.layer(connection)
  const seeded = yield* Effect.provide(Effect.andThen(addRepository(dataDir), seed(size)), stores.pipe(Layer.provide(database)))
  if (size.copies === 0) return seeded
  const { material } = seeded
  const templates = material.sandboxIds.slice(0, size.tenants)
  // As many of the newest as there are keys, beginning with one of the first tenant: the n-th is of tenant n modulo their number.
  const first = size.copies - size.copies % size.tenants - material.keys.length
  const copies = yield* Effect.promise(() => copy(urlOf(connection), templates, size.copies, Math.max(size.tenants, first), say))
  const reads = material.keys.flatMap((key, i) => copies[i] === undefined ? [] : [[copies[i], key] as const])
  return { ...seeded, material: { ...material, sandboxIds: copies, reads } }
}, Effect.scoped)

/** A database with what is asked for, until `use` is through with it. */
export const withMaterial = <A>(size: Size, use: (at: At) => Promise<A>, say: (line: string) => void = () => {}): Promise<A> =>
  Effect.gen(function*() {
    const dataDir = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-bench-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }))
    )
    const seeded = yield* fill(dataDir, size, say)
    execFileSync("sync")
    const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir })), EmbeddedPostgres)
    const url = urlOf(connection)
    const pool = yield* Effect.acquireRelease(
      Effect.sync(() => new pg.Pool({ connectionString: url, max: 1, options: "-c search_path=slipway" })),
      (pool) => Effect.promise(() => pool.end())
    )
    return yield* Effect.promise(() =>
      use({
        ...seeded,
        url,
        dataDir,
        useUp: () => pool.query(USE_UP),
        copyLast: (sandboxId, seq, times) => pool.query(COPY_LAST, [sandboxId, seq, times])
      })
    )
  }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "Warn"), Effect.runPromise)
