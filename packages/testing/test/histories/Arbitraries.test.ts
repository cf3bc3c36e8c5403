import { assert, describe, it } from "@effect/vitest"
import { normalizePath } from "@slipway/domain/source/rules/FileRules"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { derivedId, instant, path, principal, schemas, uuid7 } from "@slipway/testing/histories/Arbitraries"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

describe("arbitrary values", () => {
  for (const [name, schema] of Object.entries(schemas)) {
    it.prop(`of ${name} survive the wire`, [schema], ([value]) => {
      const Wire: Schema.Codec<unknown, string> = Schema.fromJsonString(schema)
      const json = Schema.encodeSync(Wire)(value)
      assert.strictEqual(Schema.encodeSync(Wire)(Schema.decodeSync(Wire)(json)), json)
    }, { arbitrary: { runs: 50 } })
  }

  it.prop("of ids have the form of their standards", [derivedId, uuid7, principal], ([five, seven, { userId }]) => {
    assert.match(five, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u)
    assert.match(seven, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/iu)
    assert.match(userId, /^user_[0-9A-Z]{26}$/u)
  })

  it.prop("of instants are written with three digits of a second", [instant], ([at]) => {
    assert.match(Schema.encodeSync(Timestamp)(at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
  })

  it.prop("of paths never leave the repository once they are normalised, and normalise once", [path], ([value]) => {
    const normal = normalizePath(value)
    if (Result.isFailure(normal)) return
    assert.isFalse(normal.success.split("/").some((segment) => segment === ".." || segment === "."))
    assert.isFalse(normal.success.startsWith("/"))
    assert.deepStrictEqual(normalizePath(normal.success), normal)
  })
})
