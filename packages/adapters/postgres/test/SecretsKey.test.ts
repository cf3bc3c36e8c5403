import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { database } from "./Stores.ts"

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-secrets-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)
/** Another process with that file, on the same database. */
const processWith = (file: string) =>
  Effect.map(Layer.build(Layer.fresh(SecretsKey.layer({ file }))), (context) => Context.get(context, SecretsKey))

const CANARY = Redacted.make("whsec_canary")
const fresh = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.scoped(Effect.provide(self, database()))

it.live("the first secret makes the key, for its account alone; looking makes nothing", () =>
  fresh(Effect.gen(function*() {
    const file = path.join(yield* folder, "made", "secrets.key")
    const { check, get } = yield* processWith(file)
    yield* check
    assert.isNull(yield* Effect.promise(() => stat(file).catch(() => null)))
    const key = yield* get
    assert.strictEqual((yield* Effect.promise(() => stat(file))).mode & 0o777, 0o600)
    assert.deepStrictEqual(yield* Effect.promise(() => readdir(path.dirname(file))), ["secrets.key"])
    assert.strictEqual(Redacted.value(key.unseal(Redacted.make(key.seal(CANARY, "one")), "one")), "whsec_canary")
    // The database knows which key it is, and not the key.
    const sql = yield* SqlClient.SqlClient
    const text = (yield* Effect.promise(() => readFile(file, "utf8"))).trim()
    assert.notInclude(JSON.stringify(yield* sql`SELECT * FROM secrets`), text)
  })))

it.live("processes that make it at once end with one key", () =>
  fresh(Effect.gen(function*() {
    const file = path.join(yield* folder, "secrets.key")
    const keys = yield* Effect.forEach(Array.from({ length: 8 }), () => Effect.flatMap(processWith(file), ({ get }) => get), {
      concurrency: "unbounded"
    })
    const sealed = Redacted.make(keys[0]?.seal(CANARY, "one") ?? "")
    for (const key of keys) assert.strictEqual(Redacted.value(key.unseal(sealed, "one")), "whsec_canary")
  })))

it.live("a process without the database's key, or with another one, is told so and makes none", () =>
  fresh(Effect.gen(function*() {
    const [first, other] = [path.join(yield* folder, "secrets.key"), path.join(yield* folder, "secrets.key")]
    yield* (yield* processWith(first)).get
    const without = yield* processWith(other)
    for (const use of [without.check, without.get]) {
      const { message } = yield* Effect.flip(use)
      assert.match(message, /is not there\. .*the option secretsKeyFile/u)
    }
    assert.isNull(yield* Effect.promise(() => stat(other).catch(() => null)))
    yield* Effect.promise(() => writeFile(other, Buffer.alloc(32, 7).toString("base64")))
    assert.match((yield* Effect.flip(without.check)).message, /another key/u)
    yield* Effect.promise(() => writeFile(other, "too short"))
    assert.match((yield* Effect.flip(without.get)).message, /32 bytes in base64/u)
    yield* Effect.promise(() => writeFile(other, "").then(() => chmod(other, 0o600)))
    assert.match((yield* Effect.flip(without.get)).message, /32 bytes in base64/u)
  })))

it.live("what was sealed opens only for what it belongs to, unchanged, and never looks the same twice", () =>
  Effect.gen(function*() {
    const key = yield* (yield* SecretsKey).get
    const sealed = key.seal(CANARY, "one")
    assert.notStrictEqual(key.seal(CANARY, "one"), sealed)
    assert.throws(() => key.unseal(Redacted.make(sealed), "two"))
    const bytes = Buffer.from(sealed.slice("sealed:1:".length), "base64")
    for (let i = 0; i < bytes.length; i++) {
      const changed = Buffer.from(bytes)
      changed[i] = (changed[i] ?? 0) ^ 1
      assert.throws(() => key.unseal(Redacted.make(`sealed:1:${changed.toString("base64")}`), "one"))
    }
  }).pipe(Effect.provide(SecretsKey.layerEphemeral)))
