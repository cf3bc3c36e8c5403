/**
 * The cost of notifications where sandboxes are created and changed: the same writes of the store for a grant with three listening
 * endpoints, beside those for a grant without one, on one durable Postgres. Many short rounds take turns, and count processor time, of this
 * process and of its backends of Postgres: other programs that run on the machine cost none of it.
 */
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as Database from "@slipway/postgres/Database"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import { Context, DateTime, Effect, Layer, Redacted, References, Result } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import { median } from "../Statistics.ts"

const CLIENTS = 16
const ENDPOINTS = 3
/** Operations of one round. */
const TIMES = 128

const stores = Access.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      SandboxStorePostgres.layer,
      AccessStorePostgres.layer,
      WebhookStorePostgres.layer.pipe(Layer.provide(SecretsKey.layerEphemeral))
    )
  ),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(Migrations.layer)
)

const create = Effect.fnUntraced(function*(grantId: string) {
  const id = SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`)
  yield* (yield* SandboxStore).create({
    creation: {
      id,
      grantId,
      createdBy: "user_01J00000000000000000000000",
      title: "A title",
      repos: [{ fullName: "acme/shop" }],
      prompt: "a prompt",
      model: offlineDemo.id,
      agentRuntime: offlineDemo.agentRuntime,
      reasoningEffort: null,
      toolApprovalMode: "prompt",
      metadata: {},
      origin: null,
      continues: null,
      createdAt: yield* DateTime.now
    },
    keyed: null
  })
  return id
})

const event: SandboxEvent = { type: "pull_request.updated", data: { repo: "acme/shop", action_state: "publishing" } }
const change = Effect.fnUntraced(function*(id: SandboxId) {
  yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed([event]), yield* DateTime.now)
})

/** Processor time until now, in microseconds: this process and its connections' backends, each a process with one thread. */
const used = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const backends = yield* sql<{ readonly pid: number }>`
    SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()`
  const { system, user } = process.cpuUsage()
  // Nanoseconds on a processor come first. A backend that ended meanwhile counts for nothing.
  const times = yield* Effect.forEach(
    backends,
    ({ pid }) => Effect.promise(() => readFile(`/proc/${pid}/schedstat`, "utf8").then((text) => Number(text.split(" ")[0]), () => 0))
  )
  return new Map([[0, system + user], ...backends.map(({ pid }, i) => [pid, (times[i] ?? 0) / 1000] as const)])
})

/** So many effects by as many clients at once: the processor time of one, in microseconds, and their number a second. */
const costOf = Effect.fnUntraced(function*<A, E, R>(times: number, one: (n: number) => Effect.Effect<A, E, R>) {
  const before = yield* used
  const began = performance.now()
  yield* Effect.forEach(Array.from({ length: times }, (_, n) => n), one, { concurrency: CLIENTS, discard: true })
  const rate = times * 1000 / (performance.now() - began)
  const spent = Array.from(yield* used).reduce((sum, [pid, micros]) => sum + micros - (before.get(pid) ?? 0), 0)
  return { micros: spent / times, rate }
})
type Cost = Effect.Success<ReturnType<typeof costOf>>

const measureAll = Effect.fnUntraced(function*({ quick }: Options) {
  const dataDir = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-bench-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }))
  )
  const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir })), EmbeddedPostgres)
  const rounds = quick ? 30 : 100
  return yield* Effect.gen(function*() {
    const access = yield* Access
    const [heard, alone] = [(yield* access.createGrant("heard")).grant.id, (yield* access.createGrant("alone")).grant.id]
    for (let n = 0; n < ENDPOINTS; n++) {
      const id = yield* (yield* Ids).uuid7
      const endpoint = { id, grantId: heard, url: "https://hooks.example.com/", types: NOTIFICATION_TYPES, createdAt: yield* DateTime.now }
      yield* (yield* WebhookStore).register(endpoint, Redacted.make("whsec_a"))
    }
    const sandboxes = new Map<string, ReadonlyArray<SandboxId>>()
    for (const grant of [heard, alone]) {
      sandboxes.set(
        grant,
        yield* Effect.forEach(Array.from({ length: CLIENTS * 4 }), () => create(grant))
      )
    }
    const created = new Map<string, Array<Cost>>([[heard, []], [alone, []]])
    const changed = new Map<string, Array<Cost>>([[heard, []], [alone, []]])
    for (let round = 0; round < rounds; round++) {
      for (const grant of round % 2 === 0 ? [heard, alone] : [alone, heard]) {
        const own = sandboxes.get(grant) ?? []
        created.get(grant)?.push(yield* costOf(TIMES, () => create(grant)))
        changed.get(grant)?.push(yield* costOf(TIMES, (n) => change(own[n % own.length]!)))
      }
    }
    const samplesOf = (of: ReadonlyMap<string, ReadonlyArray<Cost>>, grant: string) => (of.get(grant) ?? []).map(({ micros }) => micros)
    const ratesOf = (of: ReadonlyMap<string, ReadonlyArray<Cost>>, grant: string) =>
      Math.round(median((of.get(grant) ?? []).map(({ rate }) => rate)))
    const row = (id: string, what: string, of: ReadonlyMap<string, ReadonlyArray<Cost>>, times: number): Measurement => ({
      id,
      what,
      unit: "µs",
      better: "lower",
      ours: { name: `${ENDPOINTS} endpoints`, samples: samplesOf(of, heard) },
      theirs: { name: "none", samples: samplesOf(of, alone) },
      reach: { times },
      notes: { "requests/s": ratesOf(of, heard), "without endpoints": ratesOf(of, alone) }
    })
    return [
      row("notified-create", `processor time of a creation, ${CLIENTS} clients, beside a grant without endpoints`, created, 1 / 1.1),
      row("notified-change", "processor time of a change with one notification, beside a grant without endpoints", changed, 0.5)
    ]
  }).pipe(Effect.provide(stores.pipe(Layer.provideMerge(Database.layer(connection)))))
})

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> =>
  measureAll(options).pipe(
    Effect.map((rows) => rows.filter(({ id }) => options.only.has(id))),
    Effect.scoped,
    Effect.provideService(References.MinimumLogLevel, "Warn"),
    Effect.runPromise
  )
