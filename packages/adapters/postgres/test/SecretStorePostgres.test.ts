import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/environment/SecretStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as Rekey from "../src/Rekey.ts"
import { SecretsKey } from "../src/secret-store/SecretsKey.ts"
import * as SecretStorePostgres from "../src/secret-store/SecretStorePostgres.ts"
import { database } from "./Stores.ts"

const base = Layer.empty.pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

register(suite("postgres", SecretStorePostgres.layer.pipe(Layer.provideMerge(SecretsKey.layerEphemeral), Layer.provideMerge(base))))

const CANARY = "canary-9f2Kq-\u{1F680}-7Qm2"
const at = DateTime.makeUnsafe("2026-11-23T04:40:00.123Z")

const newKey = () => randomBytes(32).toString("base64")
const keyFile = Effect.fnUntraced(function*(...keys: ReadonlyArray<string>) {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-secrets-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const file = path.join(folder, "secrets.key")
  if (keys.length > 0) yield* Effect.promise(() => writeFile(file, `${keys.join("\n")}\n`))
  return file
})
/** A process with these keys, on the same database. */
const processWith = Effect.fnUntraced(function*(file: string, shared = false) {
  const context = yield* Layer.build(
    Layer.fresh(SecretStorePostgres.layer).pipe(Layer.provideMerge(Layer.fresh(SecretsKey.layer({ file, shared }))))
  )
  return { store: Context.get(context, SecretStore), key: Context.get(context, SecretsKey) }
})
/** As a service does when it starts. */
const start = Effect.fnUntraced(function*(file: string) {
  const started = yield* processWith(file)
  const key = yield* started.key.check
  if (key !== null && !key.isAlone) {
    yield* Rekey.all(key)
    yield* started.key.settle
  }
  return started.store
})
const fresh = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.scoped(Effect.provide(self, Layer.fresh(base)))
const newGrant = Effect.flatMap(Access, (access) => Effect.map(access.createGrant("acme"), ({ grant }) => grant.id))

const reveal = (store: SecretStore["Service"], grantId: string, name = "TOKEN", repo = "acme/shop") =>
  Effect.map(store.reveal({ grantId, repo }, [name]), (values) => Redacted.value(values.get(name) ?? Redacted.make("")))
const problemOf = (refused: Effect.Effect<unknown, { readonly _tag: string; readonly message: string }>) =>
  Effect.map(Effect.flip(refused), ({ _tag, message }) => {
    assert.strictEqual(_tag, "SecretsUnusable")
    assert.notInclude(message, "7Qm2")
    return message
  })

/** Everything that is stored: each row of each table, as text. */
const everything = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`
  const rows = yield* Effect.forEach(tables, ({ name }) => sql<{ readonly row: string }>`SELECT t::text AS row FROM ${sql.literal(name)} t`)
  assert.includeMembers(tables.map(({ name }) => name.replace(/^.*\./u, "")), ["repository_secrets", "audit_log", "secrets"])
  return rows.flat().map(({ row }) => row).join("\n")
})

it.live("no row has a value as it is, nor in the encodings that rows have", () =>
  fresh(Effect.gen(function*() {
    const { store } = yield* processWith(yield* keyFile())
    const grantId = yield* newGrant
    const key = { grantId, repo: "acme/shop", name: "TOKEN" }
    yield* store.set(key, Redacted.make("an-earlier-7Qm2"), at)
    yield* store.set(key, Redacted.make(CANARY), at)
    yield* reveal(store, grantId)
    const rows = yield* everything
    assert.include(rows, "acme/shop")
    const bytes = Buffer.from(CANARY)
    for (const form of ["7Qm2", bytes.toString("hex"), bytes.toString("base64").slice(0, 20)]) assert.notInclude(rows, form)
    // The same value never looks the same: a reader of the table does not see which values are equal.
    yield* store.set({ ...key, name: "SAME" }, Redacted.make(CANARY), at)
    const sql = yield* SqlClient.SqlClient
    assert.lengthOf(yield* sql`SELECT DISTINCT substr(sealed, 1, 30) FROM repository_secrets`, 2)
  })))

it.live("a row that is moved to another grant, repository or name, or changed, opens nothing and says so", () =>
  fresh(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { store } = yield* processWith(yield* keyFile())
    const mine = yield* newGrant
    const other = (yield* (yield* Access).createGrant("other")).grant.id
    const set = store.set({ grantId: mine, repo: "acme/shop", name: "TOKEN" }, Redacted.make(CANARY), at)
    yield* set
    yield* sql`UPDATE repository_secrets SET name = 'MOVED'`
    assert.match(yield* problemOf(reveal(store, mine, "MOVED")), /The stored secret MOVED of acme\/shop cannot be decrypted/u)
    yield* sql`UPDATE repository_secrets SET name = 'TOKEN', repo = 'acme/site'`
    yield* problemOf(reveal(store, mine, "TOKEN", "acme/site"))
    yield* sql`UPDATE repository_secrets SET repo = 'acme/shop', grant_id = ${other}`
    yield* problemOf(reveal(store, other))
    // The case of the repository is no other repository.
    yield* sql`UPDATE repository_secrets SET repo = 'ACME/shop', grant_id = ${mine}`
    assert.strictEqual(yield* reveal(store, mine), CANARY)
    yield* sql`UPDATE repository_secrets SET sealed = substr(sealed, 1, 60)`
    yield* problemOf(reveal(store, mine))
    yield* sql`UPDATE repository_secrets SET sealed = 'sealed:1:'`
    yield* problemOf(reveal(store, mine))
    // A plain value in the table is no secret.
    assert.strictEqual((yield* Effect.exit(sql`UPDATE repository_secrets SET sealed = 'plain'`))._tag, "Failure")
    yield* set
    assert.strictEqual(yield* reveal(store, mine), CANARY)
  })))

it.live("a process with another key, or without one, neither reads nor sets, and says what to do; listing and removing need none", () =>
  fresh(Effect.gen(function*() {
    const { store: first } = yield* processWith(yield* keyFile())
    const grantId = yield* newGrant
    const key = { grantId, repo: "acme/shop", name: "TOKEN" }
    yield* first.set(key, Redacted.make(CANARY), at)
    const { store: wrong } = yield* processWith(yield* keyFile(newKey()))
    const { store: without } = yield* processWith(yield* keyFile())
    for (
      const [store, said] of [[wrong, /another key\..*the option secretsKeyFile/u], [without,
        /is not there\..*the option secretsKeyFile/u]] as const
    ) {
      assert.match(yield* problemOf(reveal(store, grantId)), said)
      assert.match(yield* problemOf(store.set(key, Redacted.make("other"), at)), said)
      assert.lengthOf(yield* store.list(grantId, null), 1)
    }
    assert.strictEqual(yield* reveal(first, grantId), CANARY)
    yield* wrong.remove(key, at)
    assert.deepStrictEqual(yield* first.list(grantId, null), [])
  })))

it.live("on a database that others share, the key has to be given before the first secret is set", () =>
  fresh(Effect.gen(function*() {
    const file = yield* keyFile()
    const { store } = yield* processWith(file, true)
    const grantId = yield* newGrant
    const set = store.set({ grantId, repo: "acme/shop", name: "TOKEN" }, Redacted.make(CANARY), at)
    assert.match(yield* problemOf(set), /is not there\. Make it once, .*openssl rand -base64 32.*the option secretsKeyFile/u)
    assert.deepStrictEqual(yield* store.list(grantId, null), [])
    yield* Effect.promise(() => writeFile(file, newKey()))
    yield* set
    assert.strictEqual(yield* reveal(store, grantId), CANARY)
  })))

it.live("a key is replaced while processes go on: both in the file, then the new one first, then the new one alone", () =>
  fresh(Effect.gen(function*() {
    const [old, next] = [newKey(), newKey()]
    const { store: first } = yield* processWith(yield* keyFile(old))
    const grantId = yield* newGrant
    const keyed = (name: string) => ({ grantId, repo: "acme/shop", name })
    yield* first.set(keyed("TOKEN"), Redacted.make(CANARY), at)

    const both = yield* start(yield* keyFile(old, next))
    yield* both.set(keyed("SECOND"), Redacted.make("second"), at)
    assert.strictEqual(yield* reveal(first, grantId, "SECOND"), "second")

    const rotated = yield* start(yield* keyFile(next, old))
    yield* rotated.set(keyed("THIRD"), Redacted.make("third"), at)
    for (const [name, value] of [["TOKEN", CANARY], ["SECOND", "second"], ["THIRD", "third"]] as const) {
      for (const store of [both, rotated]) assert.strictEqual(yield* reveal(store, grantId, name), value)
    }

    const alone = yield* start(yield* keyFile(next))
    for (const [name, value] of [["TOKEN", CANARY], ["SECOND", "second"], ["THIRD", "third"]] as const) {
      assert.strictEqual(yield* reveal(alone, grantId, name), value)
    }
    // A process with the old key alone is told so.
    const { key } = yield* processWith(yield* keyFile(old))
    assert.match((yield* Effect.flip(key.check)).message, /another key/u)
  })))
