/** Our server and one written by hand, side by side: medians over rounds in which they take turns. */
import { EmbeddedPostgres } from "@slipway/adapters/embedded-postgres/EmbeddedPostgres"
import { LocalRepositories } from "@slipway/adapters/local-source/LocalRepositories"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Database from "@slipway/adapters/postgres/Database"
import * as HintsPostgres from "@slipway/adapters/postgres/HintsPostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/adapters/postgres/SandboxStorePostgres"
import { Access } from "@slipway/domain/access/Access"
import { mint } from "@slipway/domain/access/ApiKey"
import { Members } from "@slipway/domain/access/Members"
import { Ids } from "@slipway/domain/Ids"
import { offlineDemo } from "@slipway/domain/models/ModelCatalogue"
import { CreateSandbox, toCreation } from "@slipway/domain/sandbox/CreateSandbox"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { SandboxId, ID_ALPHABET } from "@slipway/domain/SandboxId"
import { Context, DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { columns } from "../../src/commands/Output.ts"
import * as Protocol from "./Protocol.ts"

const CLIENTS = 16
/** Requests are spread over this many keys, so that each has as many acceptances to remember as a busy key of the default limit. */
const KEYS = 1000
const REQUESTS_PER_MINUTE = 1000
/** Tenants have a grant and a user each: what many clients ask at once is of many tenants. Each has as many keys, enough for a list. */
const TENANTS = 25
const REQUESTS_PER_TENANT = 100_000
const SANDBOXES = 110
const LIMITED = "limited"
const LIMITED_KEYS = 50

const targets: ReadonlyArray<{ readonly target: Protocol.Target; readonly name: string; readonly reach?: number }> = [
  { target: "get", name: "GET, authenticated", reach: 0.8 },
  { target: "malformed", name: "401, malformed key", reach: 0.6 },
  { target: "unknown", name: "401, unknown key", reach: 0.6 },
  { target: "limited", name: "429, key at its limit", reach: 0.6 },
  { target: "list", name: "list of 100" },
  { target: "create", name: `create, ${CLIENTS} clients`, reach: 0.6 }
]

const streams = [
  { readers: 1, commits: 50, gapMillis: 5 },
  { readers: 100, commits: 20, gapMillis: 25 },
  { readers: 1000, commits: 6, gapMillis: 200 }
]

const seed = Effect.gen(function*() {
  const access = yield* Access
  const ids = yield* Ids
  const store = yield* SandboxStore
  const members = yield* Members
  const users = yield* Effect.forEach(
    Array.from({ length: TENANTS }),
    Effect.fnUntraced(function*(_, i) {
      yield* members.add(null, `bench-${i}`, "member")
      return (yield* members.approve(`bench-${i}`)).id
    })
  )
  const keys = (label: string, count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, i) => i % TENANTS),
      (tenant) => access.createKey({ grant: `bench-${tenant}`, userId: users[tenant], label, scopes: ["sandboxes"], kind: "live" }),
      { concurrency: 10 }
    )
  const limited = yield* keys(LIMITED, LIMITED_KEYS)
  const mintAll = (count: number) => Effect.forEach(Array.from({ length: count }), () => Effect.map(mint(ids, "live"), Redacted.value))
  const minted = yield* keys("bench", KEYS)
  const sandboxes = yield* Effect.forEach(
    Array.from({ length: TENANTS * SANDBOXES }),
    Effect.fnUntraced(function*(_, i) {
      const { grant, record } = minted[i % TENANTS]!
      const request = yield* Schema.decodeEffect(CreateSandbox)({
        repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/infra" }],
        prompt: `${i} ${"Add a retry with exponential back-off to the payment client and cover it with tests. ".repeat(6)}`,
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
        keyed: null,
        organizationId: null
      })
      return id
    }),
    { concurrency: 10 }
  )
  return {
    keys: minted.map(({ key }) => Redacted.value(key)),
    // Both go round the tenants.
    reads: minted.map(({ key }, i) => [sandboxes[i % sandboxes.length]!, Redacted.value(key)] as const),
    followed: { sandboxId: sandboxes[0]!, keys: minted.filter((_, i) => i % TENANTS === 0).map(({ key }) => Redacted.value(key)) },
    unknownKeys: yield* mintAll(200),
    limitedKeys: limited.map(({ key }) => Redacted.value(key)),
    sandboxIds: sandboxes
  } satisfies Protocol.Material
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
const useUp = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
  INSERT INTO rate_windows (key_id, times, counts)
  SELECT k.id, t.times, ARRAY(SELECT generate_series(1, ${REQUESTS_PER_MINUTE}::bigint))
  FROM api_keys k, (
    SELECT array_agg((extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${REQUESTS_PER_MINUTE}::bigint + n ORDER BY n) AS times
    FROM generate_series(1, ${REQUESTS_PER_MINUTE}::bigint) n
  ) t
  WHERE k.label = ${LIMITED}
  ON CONFLICT (key_id) DO UPDATE SET times = excluded.times, counts = excluded.counts, forgotten = 0`)

const stores = Layer.merge(Access.layer, Members.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(SandboxStorePostgres.layer, AccessStorePostgres.layer, LocalRepositories.layer)),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(Migrations.layer)
)

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] ?? Number.NaN : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

export interface Server {
  readonly name: string
  readonly port: number
  readonly child: Protocol.Child
}

export interface Round {
  readonly perSecond: number
  readonly cpu: number
  readonly p50: number
  readonly p99: number
}

const sleep = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

export const measure = async (server: Server, load: Protocol.Child, target: Protocol.Target, millis: number): Promise<Round> => {
  const before = await server.child.ask<number>({ _tag: "Cpu" })
  const loaded = await load.ask<Protocol.Loaded>({ _tag: "Load", port: server.port, target, connections: CLIENTS, millis })
  const after = await server.child.ask<number>({ _tag: "Cpu" })
  return {
    perSecond: loaded.requests / loaded.millis * 1000,
    cpu: (after - before) / loaded.requests,
    p50: loaded.p50,
    p99: loaded.p99
  }
}

const follow = async (
  server: Server,
  load: Protocol.Child,
  sandboxId: string,
  { commits, gapMillis, readers }: typeof streams[number]
): Promise<Round> => {
  await load.ask({ _tag: "Open", port: server.port, sandboxId, readers })
  const before = await server.child.ask<number>({ _tag: "Cpu" })
  const committed = new Map<number, number>()
  let last = 0
  for (let i = 0; i < commits; i++) {
    await sleep(gapMillis)
    const { at, seq } = await server.child.ask<Protocol.Committed>({ _tag: "Commit", sandboxId })
    committed.set(seq, at)
    last = seq
  }
  const arrivals = await load.ask<ReadonlyArray<ReadonlyArray<Protocol.Committed>>>({ _tag: "Close", seq: last })
  const after = await server.child.ask<number>({ _tag: "Cpu" })
  // A frame may overtake the note of its commit by some microseconds.
  const latencies = arrivals.flat().map(({ at, seq }) => Math.max(0, at - (committed.get(seq) ?? Number.NaN)) / 1e6).sort((a, b) => a - b)
  if (latencies.length !== readers * commits) throw new Error(`${latencies.length} frames instead of ${readers * commits}`)
  const quantile = (q: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * q))] ?? Number.NaN
  return { perSecond: Number.NaN, cpu: (after - before) / latencies.length, p50: quantile(0.5), p99: quantile(0.99) }
}

export const number = (value: number) => Number.isNaN(value) ? "" : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)

interface Result {
  readonly name: string
  readonly ours: Round
  readonly theirs: Round
  readonly ratio: number
  readonly reach: number | undefined
}

const medians = (rounds: ReadonlyArray<Round>): Round => ({
  perSecond: median(rounds.map(({ perSecond }) => perSecond)),
  cpu: median(rounds.map(({ cpu }) => cpu)),
  p50: median(rounds.map(({ p50 }) => p50)),
  p99: median(rounds.map(({ p99 }) => p99))
})

const table = (results: ReadonlyArray<Result>): string =>
  columns([
    ["", "", "requests/s", "ratio", "CPU µs", "p50 ms", "p99 ms"],
    ...results.flatMap(({ name, ours, ratio, theirs }) => [
      [name, "slipway", number(ours.perSecond), number(ratio), number(ours.cpu), number(ours.p50), number(ours.p99)],
      ["", "fastify", number(theirs.perSecond), "", number(theirs.cpu), number(theirs.p50), number(theirs.p99)]
    ])
  ])

/** Both servers, one after the other in each round; who begins changes, so that neither always meets the other's leavings. */
const interleaved = async (rounds: number, ours: Server, theirs: Server, once: (server: Server) => Promise<Round>) => {
  const of = new Map<Server, Array<Round>>([[ours, []], [theirs, []]])
  for (let round = 0; round < rounds; round++) {
    for (const server of round % 2 === 0 ? [ours, theirs] : [theirs, ours]) of.get(server)?.push(await once(server))
  }
  return { ours: medians(of.get(ours) ?? []), theirs: medians(of.get(theirs) ?? []) }
}

export const begin = async (
  name: string,
  module: string,
  options: unknown,
  execArgv: ReadonlyArray<string> = []
): Promise<Server> => {
  const { child, first } = await Protocol.start(path.join(import.meta.dirname, module), options, execArgv)
  return { name, child, port: Number(first) }
}

export const serverOptionsOf = (databaseUrl: string, dataDir: string): Protocol.ServerOptions => ({
  databaseUrl,
  dataDir,
  publicUrl: "http://localhost:4000",
  requestsPerMinute: REQUESTS_PER_MINUTE,
  requestsPerTenant: REQUESTS_PER_TENANT,
  collector: null,
  hasSpans: true
})

export interface Options {
  /** Fewer and shorter rounds. */
  readonly quick: boolean
  /** Only these, by the name of their target or `streams`; empty: all. */
  readonly only: ReadonlyArray<string>
  /** Folder for a CPU profile of our server; `null`: none. */
  readonly profile: string | null
}

const compare = async (
  databaseUrl: string,
  dataDir: string,
  material: Protocol.Material,
  useUp: () => Promise<unknown>,
  { only, profile, quick }: Options
) => {
  const rounds = quick ? 3 : 5
  const millis = quick ? 500 : 1500
  const serverOptions = serverOptionsOf(databaseUrl, dataDir)
  const ours = await begin(
    "slipway",
    "SlipwayServer.ts",
    serverOptions,
    profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`]
  )
  const theirs = await begin("fastify", "FastifyServer.ts", serverOptions)
  const { child: load } = await begin("load", "Load.ts", null)
  await load.ask({ _tag: "Material", material })

  const wanted = (name: string) => only.length === 0 || only.includes(name)
  const results: Array<Result> = []
  for (const { name, reach, target } of targets.filter(({ target }) => wanted(target))) {
    if (target === "limited") await useUp()
    for (const server of [ours, theirs]) await measure(server, load, target, quick ? 700 : 1500)
    const { ours: a, theirs: b } = await interleaved(rounds, ours, theirs, (server) => measure(server, load, target, millis))
    results.push({ name, ours: a, theirs: b, ratio: a.perSecond / b.perSecond, reach })
  }
  for (const stream of streams.filter(({ readers }) => wanted("streams") && (!quick || readers < 1000))) {
    // Both append to the log of the one sandbox.
    const { sandboxId } = material.followed
    for (const server of [ours, theirs]) await follow(server, load, sandboxId, stream)
    const { ours: a, theirs: b } = await interleaved(rounds, ours, theirs, (server) => follow(server, load, sandboxId, stream))
    results.push({
      name: `commit → frame, ${stream.readers} reader${stream.readers === 1 ? "" : "s"}`,
      ours: a,
      theirs: b,
      ratio: b.p50 / a.p50,
      reach: undefined
    })
  }
  for (const child of [ours.child, theirs.child, load]) await child.stop()
  return results
}

/** A database with what is asked for, until `use` is through with it. */
export const withMaterial = (
  use: (at: {
    readonly url: string
    readonly dataDir: string
    readonly material: Protocol.Material
    readonly useUp: () => Promise<unknown>
  }) => Promise<void>
): Promise<void> =>
  Effect.gen(function*() {
    const dataDir = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-bench-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }))
    )
    const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir })), EmbeddedPostgres)
    const url = `postgres:///${connection.database}?${new URLSearchParams({
      host: path.dirname(connection.path),
      user: connection.username
    })}`
    const database = Database.layer(connection)
    const material = yield* Effect.provide(Effect.andThen(addRepository(dataDir), seed), stores.pipe(Layer.provide(database)))
    yield* Effect.promise(() => use({ url, dataDir, material, useUp: () => Effect.runPromise(Effect.provide(useUp, database)) }))
  }).pipe(Effect.scoped, Effect.runPromise)

/** Prints the table and whether our budget is reached. */
export const run = (options: Options): Promise<void> =>
  withMaterial(async ({ dataDir, material, url, useUp }) => {
    const results = await compare(url, dataDir, material, useUp, options)
    const verdicts = results.flatMap(({ name, ratio, reach }) =>
      reach === undefined ? [] : [`${name} ${ratio.toFixed(2)} of ${reach} ${ratio >= reach ? "ok" : "missed"}`]
    )
    process.stdout.write(`${table(results)}\n\nreach: ${verdicts.join("; ")}\n`)
  })
