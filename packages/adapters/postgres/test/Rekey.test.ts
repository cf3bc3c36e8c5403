import { assert, describe, it } from "@effect/vitest"
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { Context, DateTime, Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import * as AutomationStorePostgres from "../src/automation-store/AutomationStorePostgres.ts"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import * as HostConnectionsPostgres from "../src/host-connections/HostConnectionsPostgres.ts"
import * as McpServerStorePostgres from "../src/mcp-server-store/McpServerStorePostgres.ts"
import * as ModelProviderStorePostgres from "../src/model-provider-store/ModelProviderStorePostgres.ts"
import * as Rekey from "../src/Rekey.ts"
import { type Key, SecretsKey } from "../src/secret-store/SecretsKey.ts"
import * as SecretStorePostgres from "../src/secret-store/SecretStorePostgres.ts"
import * as WebhookStorePostgres from "../src/webhook-store/WebhookStorePostgres.ts"
import { stores } from "./Stores.ts"

const base = stores(CheckpointsPostgres.layer)
const fresh = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.scoped(Effect.provide(self, Layer.fresh(base)))

const at = DateTime.makeUnsafe("2026-11-30T10:00:00.000Z")
const newKey = () => randomBytes(32).toString("base64")

/** A process with these keys, on the same database. */
const processWith = Effect.fnUntraced(function*(...keys: ReadonlyArray<string>) {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-rekey-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const file = path.join(folder, "secrets.key")
  yield* Effect.promise(() => writeFile(file, keys.join("\n")))
  const context = yield* Layer.build(
    Layer.fresh(Layer.mergeAll(
      SecretStorePostgres.layer,
      McpServerStorePostgres.layer,
      ModelProviderStorePostgres.layer,
      WebhookStorePostgres.layer,
      AutomationStorePostgres.layer,
      HostConnectionsPostgres.layer
    )).pipe(Layer.provideMerge(Layer.fresh(SecretsKey.layer({ file }))))
  )
  return {
    secrets: Context.get(context, SecretStore),
    servers: Context.get(context, McpServerStore),
    providers: Context.get(context, ModelProviderStore),
    webhooks: Context.get(context, WebhookStore),
    automations: Context.get(context, AutomationStore),
    connections: Context.get(context, HostConnections),
    key: Context.get(context, SecretsKey)
  }
})
type Process = Effect.Success<ReturnType<typeof processWith>>

const ENDPOINT = "0193aaaa-0000-7000-8000-000000000001"
const AUTOMATION = "0193aaaa-0000-7000-8000-000000000002"
const SERVER = {
  url: "https://wiki.example.com/mcp",
  authentication: { type: "header" as const, name: "Authorization" },
  onByDefault: true,
  tools: {}
}
const OAUTH = { ...SERVER, authentication: { type: "oauth" as const } }

/** One value of each kind. */
const storeAll = Effect.fnUntraced(function*({ automations, connections, providers, secrets, servers, webhooks }: Process) {
  const grantId = yield* (yield* StoreFixture).grant
  const repo = "acme/Shop"
  yield* secrets.set({ grantId, repo, name: "TOKEN" }, Redacted.make("canary-secret"), at)
  yield* servers.set({ grantId, repo, name: "wiki" }, SERVER, Redacted.make("canary-credential"), at)
  const oauth = { grantId, repo, name: "tracker" }
  yield* servers.set(oauth, OAUTH, null, at)
  yield* servers.connect(oauth, OAUTH, Redacted.make("canary-tokens"), at)
  const until = DateTime.makeUnsafe("2100-01-01T00:00:00Z")
  yield* servers.beginConnection(oauth, { state: "state", pending: Redacted.make("canary-pending"), until })
  yield* providers.set(
    { provider: "openai", key: Redacted.make("canary-provider"), baseUrl: "https://models.example", model: null, isDefault: true },
    at
  )
  yield* connections.set("git.example", { accessToken: Redacted.make("canary-host"), refreshToken: null, expiresAt: null }, at)
  yield* webhooks.register(
    { id: ENDPOINT, grantId, url: "https://hooks.example", types: null, createdAt: at },
    Redacted.make("whsec_Y2FuYXJ5LWhvb2s")
  )
  yield* automations.create(
    {
      id: AUTOMATION,
      grantId,
      createdBy: "user_01J00000000000000000000000",
      test: false,
      createdAt: at,
      settings: {
        name: "Nightly",
        repos: [{ fullName: "acme/shop" }],
        prompt: "Do it.",
        toolApprovalMode: "auto",
        maxRunning: 1,
        maxPerDay: 1,
        trigger: { type: "webhook" }
      }
    },
    Redacted.make("whsec_Y2FuYXJ5LWF1dG8")
  )
  return grantId
})

const endpointSecret = (key: Key) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly value: string }>`
      SELECT secrets -> 0 ->> 'value' AS value FROM webhook_endpoints WHERE id = ${ENDPOINT}`
    return Redacted.value(key.open(Redacted.make(row?.value ?? ""), `webhook/${ENDPOINT}`) ?? Redacted.make(""))
  })

/** All that `storeAll` stored, as this process reads it. */
const readAll = Effect.fnUntraced(function*({ automations, connections, key, providers, secrets, servers }: Process, grantId: string) {
  const repo = "acme/shop"
  const plain = (value: Redacted.Redacted | null | undefined) => value === null || value === undefined ? null : Redacted.value(value)
  const revealed = yield* servers.reveal(grantId, [repo])
  return [
    plain((yield* secrets.reveal({ grantId, repo }, ["TOKEN"])).get("TOKEN")),
    plain(revealed.find(({ name }) => name === "wiki")?.credential),
    plain((yield* servers.connection({ grantId, repo, name: "tracker" }))?.tokens),
    plain((yield* providers.keys).get("openai")),
    plain((yield* connections.current("git.example", at, () => Effect.die("was renewed")))?.accessToken),
    plain((yield* automations.secretsOf(AUTOMATION)).secrets[0]?.value),
    yield* endpointSecret(yield* key.get)
  ]
})
const ALL = ["canary-secret", "canary-credential", "canary-tokens", "canary-provider", "canary-host", "whsec_Y2FuYXJ5LWF1dG8",
  "whsec_Y2FuYXJ5LWhvb2s"]

const sealedIn = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const texts = yield* Effect.forEach(
    Rekey.COLUMNS,
    ({ column, table }) =>
      sql<{ readonly text: string | null }>`SELECT ${sql.literal(column)}::text AS text FROM ${sql.literal(table)} ORDER BY 1`
  )
  return texts.flat().map(({ text }) => text)
})

describe("all stored secrets", () => {
  it.live("are read by the new key alone after they were encrypted anew, and by each process before", () =>
    fresh(Effect.gen(function*() {
      const [a, b] = [newKey(), newKey()]
      const first = yield* processWith(a)
      const grantId = yield* storeAll(first)
      assert.deepStrictEqual(yield* readAll(first, grantId), ALL)

      const both = yield* processWith(b, a)
      assert.deepStrictEqual(yield* readAll(both, grantId), ALL)
      const done = yield* Rekey.all(yield* both.key.get)
      assert.deepStrictEqual(done.map(({ anew, changed, closedCount }) => [anew, changed, closedCount]), done.map(() => [1, 0, 0]))
      yield* both.key.settle

      const last = yield* processWith(b)
      assert.deepStrictEqual(yield* readAll(last, grantId), ALL)
      // The process of before knows the new key at the end of its file already.
      assert.deepStrictEqual(yield* readAll(yield* processWith(a, b), grantId), ALL)
      assert.match((yield* Effect.flip((yield* processWith(a)).key.get)).message, /another key/u)

      const before = yield* sealedIn
      const again = yield* Rekey.all(yield* last.key.get)
      assert.deepStrictEqual(again.map(({ anew, closedCount }) => [anew, closedCount]), again.map(() => [0, 0]))
      assert.deepStrictEqual(yield* sealedIn, before)
      assert.strictEqual(
        Redacted.value((yield* last.servers.takeConnecting(grantId, "state", at))?.pending ?? Redacted.make("")),
        "canary-pending"
      )
    })))

  it.live("that no key opens stay as they are and are named, and hold up no other", () =>
    fresh(Effect.gen(function*() {
      const [a, b, lost] = [newKey(), newKey(), newKey()]
      const first = yield* processWith(a)
      const grantId = yield* storeAll(first)
      const before = yield* sealedIn
      const both = yield* processWith(b, a)
      const other = yield* processWith(lost, a)
      const key = { grantId, repo: "acme/Shop", name: "LOST" }
      yield* other.secrets.set(key, Redacted.make("canary-lost"), at)
      const done = yield* Rekey.all(yield* both.key.get)
      const [secrets] = done
      assert.deepStrictEqual([secrets?.anew, secrets?.closedCount, secrets?.closed], [1, 1, [`LOST of acme/Shop in grant ${grantId}`]])
      assert.deepStrictEqual(done.slice(1).map(({ closedCount }) => closedCount), done.slice(1).map(() => 0))
      assert.notInclude(JSON.stringify(done), "canary")
      assert.lengthOf((yield* sealedIn).filter((text) => text !== null && before.includes(text)), 0)
      assert.strictEqual(Redacted.value((yield* other.secrets.reveal(key, ["LOST"])).get("LOST") ?? Redacted.make("")), "canary-lost")
    })))

  it.live("are encrypted anew in batches", () =>
    fresh(Effect.gen(function*() {
      const [a, b] = [newKey(), newKey()]
      const { key } = yield* processWith(a)
      const sealing = yield* key.get
      const sql = yield* SqlClient.SqlClient
      const grantId = yield* (yield* StoreFixture).grant
      yield* Effect.forEach(Array.from({ length: 250 }), (_, index) => {
        const [repo, name] = [`acme/${index % 2 === 0 ? "Shop" : "site"}`, `TOKEN_${index}`]
        const sealed = sealing.seal(Redacted.make("canary"), `repository/${grantId}/${repo.toLowerCase()}/${name}`)
        return sql`INSERT INTO repository_secrets VALUES (${grantId}, ${repo}, ${name}, ${sealed}, 6, now(), now())`
      })
      const both = yield* (yield* processWith(b, a)).key.get
      assert.strictEqual((yield* Rekey.all(both))[0]?.anew, 250)
      assert.strictEqual((yield* Rekey.all(both))[0]?.anew, 0)
    })))

  it.live("that change meanwhile keep their new value", () =>
    fresh(Effect.gen(function*() {
      const [a, b] = [newKey(), newKey()]
      const { key: before, secrets } = yield* processWith(a)
      const grantId = yield* (yield* StoreFixture).grant
      const secret = { grantId, repo: "acme/shop", name: "TOKEN" }
      yield* secrets.set(secret, Redacted.make("canary-old"), at)
      const sealing = yield* before.get
      const both = yield* processWith(b, a)
      const key = yield* both.key.get
      const sql = yield* SqlClient.SqlClient
      const written = yield* Deferred.make<void>()
      const rekeying = yield* Effect.forkChild(Effect.andThen(Deferred.await(written), Rekey.all(key)))
      yield* sql.withTransaction(Effect.gen(function*() {
        const sealed = sealing.seal(Redacted.make("canary-new"), `repository/${grantId}/acme/shop/TOKEN`)
        yield* sql`UPDATE repository_secrets SET sealed = ${sealed}`
        yield* Deferred.succeed(written, undefined)
        // It has read the value of before, and waits for this row.
        yield* Effect.eventually(Effect.flatMap(
          sql`SELECT FROM pg_locks WHERE NOT granted`,
          (waiting) => waiting.length > 0 ? Effect.void : Effect.fail("not yet")
        ))
      }))
      const done = (yield* Fiber.join(rekeying))[0]
      assert.deepStrictEqual([done?.anew, done?.changed], [1, 0])
      yield* both.key.settle
      const last = yield* processWith(b)
      assert.strictEqual(Redacted.value((yield* last.secrets.reveal(secret, ["TOKEN"])).get("TOKEN") ?? Redacted.make("")), "canary-new")
    })))
})

/** Not encrypted: random values that all processes share, and the digest of the key. */
const OTHERS = new Set(["secrets.value"])

describe("every column with encrypted values is known", () => {
  it.live("by the checks and the names of the schema", () =>
    fresh(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const known = (type: string) => Rekey.COLUMNS.filter((of) => of.type === type).map(({ column, table }) => `${table}.${column}`).sort()
      const checked = yield* sql<{ readonly at: string }>`
        SELECT c.relname || '.' || a.attname AS at FROM pg_constraint k
        JOIN pg_class c ON c.oid = k.conrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(k.conkey)
        WHERE k.contype = 'c' AND pg_get_constraintdef(k.oid) LIKE '%sealed:%'`
      assert.deepStrictEqual(checked.map(({ at }) => at).sort(), known("text"))
      const named = yield* sql<{ readonly at: string }>`
        SELECT table_name || '.' || column_name AS at FROM information_schema.columns
        WHERE table_schema = current_schema() AND data_type IN ('text', 'json', 'jsonb', 'bytea', 'ARRAY')
          AND (column_name ~ 'secret|seal' OR table_name ~ 'secret' AND column_name ~ 'value')`
      const found = named.map(({ at }) => at).filter((at) => !OTHERS.has(at) && !known("text").includes(at))
      assert.deepStrictEqual(found.sort(), known("list"))
    })))

  it.live("by the modules that encrypt", () =>
    Effect.gen(function*() {
      const src = path.join(import.meta.dirname, "../src")
      const found: Array<string> = []
      for (const file of yield* Effect.promise(() => readdir(src, { recursive: true }))) {
        if (!file.endsWith(".ts")) continue
        const text = yield* Effect.promise(() => readFile(path.join(src, file), "utf8"))
        if (/\.seal\(|secretsText\(/u.test(text)) found.push(path.dirname(file))
      }
      // A module in another folder needs its columns in Rekey.COLUMNS, and its folder here.
      assert.deepStrictEqual([...new Set(found)].sort(), [
        ".",
        "automation-store",
        "host-connections",
        "mcp-server-store",
        "model-provider-store",
        "secret-store",
        "webhook-store",
        "webhook-store/rows"
      ])
    }))
})
