import { assert, describe, it } from "@effect/vitest"
import { normalizePath } from "@slipway/domain/source/rules/FileRules"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { derivedId, instant, path as anyPath, principal, schemas, uuid7, valueOf } from "@slipway/testing/histories/Arbitraries"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { readdirSync } from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"

const domain = path.join(import.meta.dirname, "../../../domain/src")
const files = readdirSync(domain, { recursive: true, encoding: "utf8" }).filter((file) => /\bschema\/\w+\.ts$/u.test(file))
/** All that is stored or sent, by file and name. */
const stored: Record<string, Schema.Codec<unknown>> = {}
for (const file of files) {
  const module: object = await import(pathToFileURL(path.join(domain, file)).href)
  for (const [name, value] of Object.entries(module)) if (Schema.isSchema(value)) stored[`${file} ${name}`] = value as Schema.Codec<unknown>
}

describe("arbitrary values", () => {
  for (const [name, schema] of Object.entries(schemas)) {
    it.prop(`of ${name} survive the wire`, [schema], ([value]) => {
      const Wire: Schema.Codec<unknown, string> = Schema.fromJsonString(schema)
      const json = Schema.encodeSync(Wire)(value)
      assert.strictEqual(Schema.encodeSync(Wire)(Schema.decodeSync(Wire)(json)), json)
    }, { arbitrary: { runs: 50 } })
  }

  const numbers = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0x7fff_ffff })))
  const nodesOf = (value: unknown): number =>
    typeof value !== "object" || value === null ? 1 : Object.values(value).reduce<number>((sum, part) => sum + nodesOf(part), 1)
  for (const [name, schema] of Object.entries({ ...schemas, ...stored })) {
    const make = valueOf<unknown>(schema)
    it.prop(`of ${name} are made of numbers, and the simplest of none`, [numbers], ([given]) => {
      const Wire: Schema.Codec<unknown, string> = Schema.fromJsonString(schema)
      const value = make(given)
      const json = Schema.encodeSync(Wire)(value)
      assert.strictEqual(Schema.encodeSync(Wire)(Schema.decodeSync(Wire)(json)), json)
      assert.deepStrictEqual(make([...given]), value)
      assert.isAtMost(nodesOf(make([])), nodesOf(value))
    }, { arbitrary: { runs: 20 } })
  }

  it.each([7919, 104_729, 611_953])("of numbers shrink as the numbers do, to the simplest that has what is looked for (%i)", (step) => {
    const isFound = (numbers: ReadonlyArray<number>) => valueOf("Sandbox")(numbers).publications.length > 0
    const all = Array.from({ length: 300 }, (_, i) => i * step % 1_000_003)
    let found = all.map((_, i) => all.slice(i, i + 80)).find(isFound) ?? []
    assert.isTrue(isFound(found))
    // As property testers do with arrays of numbers. It ends, because every step makes the array smaller.
    for (let next: ReadonlyArray<number> | undefined = found; next !== undefined;) {
      found = [...next]
      const shorter = [found.slice(0, found.length / 2), found.slice(0, -1)]
      const lower = found.flatMap((n, i) => n === 0 ? [] : [0, Math.floor(n / 2), n - 1].map((less) => found.with(i, less)))
      next = [...shorter, ...lower].find((one) => one.length + one.reduce((sum, n) => sum + n, 0) > 0 && isFound(one))
    }
    const { approvals, publications, turn } = valueOf("Sandbox")(found)
    assert.deepStrictEqual([publications.length, approvals, turn], [1, [], null])
  })

  it.prop("of ids have the form of their standards", [derivedId, uuid7, principal], ([five, seven, { userId }]) => {
    assert.match(five, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u)
    assert.match(seven, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/iu)
    assert.match(userId, /^user_[0-9A-Z]{26}$/u)
  })

  it.prop("of instants are written with three digits of a second", [instant], ([at]) => {
    assert.match(Schema.encodeSync(Timestamp)(at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
  })

  it.prop("of paths never leave the repository once they are normalised, and normalise once", [anyPath], ([value]) => {
    const normal = normalizePath(value)
    if (Result.isFailure(normal)) return
    assert.isFalse(normal.success.split("/").some((segment) => segment === ".." || segment === "."))
    assert.isFalse(normal.success.startsWith("/"))
    assert.deepStrictEqual(normalizePath(normal.success), normal)
  })
})
