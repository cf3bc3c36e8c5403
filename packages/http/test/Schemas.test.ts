import { assert, describe, it, layer } from "@effect/vitest"
import { EnvironmentFile, jsonSchema, readEnvironment } from "@slipway/domain/environment/rules/Environment"
import { environmentFile } from "@slipway/testing/histories/Arbitraries"
import { Ajv2020 } from "ajv/dist/2020.js"
import { Arbitrary, Effect, Result, Schema } from "effect"
import { ask, json, layer as http } from "../testing/Harness.ts"

/** Rules that JSON Schema cannot express. */
const BEYOND_IT = new RegExp(
  [
    "climbs out of",
    "is the whole",
    "is git's own",
    "is a protected",
    "is where an agent",
    "which is private",
    "another user's home",
    "is, holds or lies in",
    "again$",
    "is in env too",
    "is set by the service",
    "the service does not set",
    "is no name with a port",
    "without NUL",
    "^is larger than"
  ].join("|"),
  "u"
)

layer(http(), { excludeTestServices: true })("the schema of environment files", (it) => {
  it.effect("is served to everybody, kept by caches, and describes each key", () =>
    Effect.gen(function*() {
      const reply = yield* ask("/schemas/environment.json")
      assert.deepStrictEqual(
        [reply.status, reply.headers["content-type"], reply.headers["cache-control"]],
        [200, "application/json; charset=utf-8", "public, no-cache"]
      )
      const schema = json(reply)
      assert.deepStrictEqual(schema, JSON.parse(JSON.stringify(jsonSchema())))
      assert.strictEqual(schema.$schema, "https://json-schema.org/draft/2020-12/schema")
      const { additionalProperties, properties } = schema.$defs.EnvironmentFile
      assert.isFalse(additionalProperties)
      assert.sameMembers(Object.keys(properties), Object.keys(EnvironmentFile.fields))
      for (const [key, { allOf = [{}], description }] of Object.entries<any>(properties)) {
        assert.match(description ?? allOf[0].description ?? "", /\w/u, key)
      }
    }))
})

describe("the schema of environment files", () => {
  const fits = new Ajv2020({ strict: false }).compile(jsonSchema())
  /** The reader's error, `null` when nothing is wrong. */
  const problem = (value: unknown) =>
    Result.match(readEnvironment("file", JSON.stringify(value)), { onFailure: ({ problem }) => problem, onSuccess: () => null })

  const key = Arbitrary.schema(Schema.Literals([...Object.keys(EnvironmentFile.fields), "setpu"]))
  const strange = Arbitrary.schema(Schema.Union([
    Schema.Json,
    Schema.Array(Schema.Json),
    Schema.Array(Schema.Literals(["", " ", "a*", "/a", "a", "A", "PATH", "a:443", "a b:1", "\0", "é", "~", "x".repeat(9_000)])),
    Schema.Record(Schema.Literals(["A", "a-b", "1", ""]), Schema.Json),
    Schema.Literals([0, 1, 1.5, 60, 61, "fail", "continue", "retry"])
  ]))
  it.prop(
    "agrees with the reader on what is wrong, but for what no schema can say",
    [environmentFile, key, strange],
    ([file, key, value]) => {
      const given = { ...file, [key]: value }
      const said = problem(given)
      if (said === null) assert.isTrue(fits(given), JSON.stringify(given))
      else if (!BEYOND_IT.test(said)) assert.isFalse(fits(given), `${JSON.stringify(given)}: ${said}`)
    },
    { arbitrary: { runs: 2_000 } }
  )

  it.prop("takes all that is right", [environmentFile], ([file]) => {
    assert.isTrue(fits(file), JSON.stringify(file))
  }, { arbitrary: { runs: 300 } })
})
