import { assert, it } from "@effect/vitest"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { suite } from "@slipway/testing/contracts/models/ModelProviderStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import * as ModelProviderStorePostgres from "../src/model-provider-store/ModelProviderStorePostgres.ts"
import * as Rekey from "../src/Rekey.ts"
import { SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { database } from "./Stores.ts"

const base = database()

register(
  suite("postgres", ModelProviderStorePostgres.layer.pipe(Layer.provideMerge(SecretsKey.layerEphemeral), Layer.provideMerge(base)))
)

const CANARY = "sk-canary-9f2Kq-7Qm2"
const at = DateTime.makeUnsafe("2026-11-29T04:40:00.123Z")
const change = { provider: "openai", key: Redacted.make(CANARY), baseUrl: null, model: null, isDefault: true } as const

/** A process with these keys, on the same database. */
const processWith = Effect.fnUntraced(function*(...keys: ReadonlyArray<string>) {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-providers-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const file = path.join(folder, "secrets.key")
  yield* Effect.promise(() => writeFile(file, `${keys.join("\n")}\n`))
  const context = yield* Layer.build(
    Layer.fresh(ModelProviderStorePostgres.layer).pipe(Layer.provideMerge(Layer.fresh(SecretsKey.layer({ file }))))
  )
  return { store: Context.get(context, ModelProviderStore), key: Context.get(context, SecretsKey) }
})
const keyOf = (store: ModelProviderStore["Service"]) =>
  Effect.map(store.keys, (keys) => Redacted.value(keys.get("openai") ?? Redacted.make("")))
const newKey = () => randomBytes(32).toString("base64")

it.live("no row has the key as it is, and a row that is changed opens nothing and says so", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { store } = yield* processWith(newKey())
    yield* store.set(change, at)
    const rows = yield* sql<{ readonly row: string }>`
      SELECT t::text AS row FROM model_providers t UNION ALL SELECT t::text FROM audit_log t`
    const stored = rows.map(({ row }) => row).join("\n")
    assert.include(stored, "model_provider.set")
    for (const form of ["7Qm2", Buffer.from(CANARY).toString("base64").slice(0, 16)]) assert.notInclude(stored, form)

    for (const moved of [sql`provider = 'xai'`, sql`base_url = 'https://elsewhere.example'`]) {
      yield* sql`UPDATE model_providers SET ${moved}`
      const { message } = yield* Effect.flip(store.keys)
      assert.match(message, /cannot be decrypted/u)
      assert.notInclude(message, "7Qm2")
      yield* sql`UPDATE model_providers SET provider = 'openai', base_url = NULL`
    }
    assert.strictEqual(yield* keyOf(store), CANARY)
  }).pipe(Effect.scoped, Effect.provide(Layer.fresh(base))))

it.live("a replaced key of the service opens what the one before encrypted, and encrypts it anew", () =>
  Effect.gen(function*() {
    const [first, second] = [newKey(), newKey()]
    yield* (yield* processWith(first)).store.set(change, at)
    const both = yield* processWith(second, first)
    yield* Rekey.all(yield* both.key.get)
    yield* both.key.settle
    assert.strictEqual(yield* keyOf((yield* processWith(second)).store), CANARY)
    assert.match((yield* Effect.flip((yield* processWith(first)).store.keys)).message, /another key/u)
  }).pipe(Effect.scoped, Effect.provide(Layer.fresh(base))))
