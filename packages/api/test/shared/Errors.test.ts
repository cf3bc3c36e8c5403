import { assert, describe, it } from "@effect/vitest"
import * as Errors from "@slipway/api/shared/Errors"
import { FileTooLarge as FileAboveLimit } from "@slipway/domain/files/ports/WorkingTrees"
import { InvalidReasoningEffort as EffortRefused } from "@slipway/domain/models/schema/ModelCatalogue"
import { ConcurrencyLimitExceeded as TooManyActive } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { Schema } from "effect"

const { Refusal, ...rows } = Errors

const schemas = Object.entries(rows).map(([name, row]) =>
  [name, ("schema" in row ? row.schema : row) as Schema.Codec<Error, unknown>] as const
)

const codeOf = (schema: Schema.Top): string =>
  /"code":\{"type":"string","enum":\["(\w+)"\]/u.exec(JSON.stringify(Schema.toJsonSchemaDocument(Schema.toEncoded(schema))))?.[1] ?? ""

describe("an error on the wire", () => {
  it("has the code of its row and its own message", () => {
    const encoded = (schema: Schema.Codec<Error, unknown>, error: Error) => Schema.encodeUnknownSync(schema)(error)
    const tooMany = new TooManyActive({ limit: 3 })
    assert.deepStrictEqual(encoded(Errors.ConcurrencyLimitExceeded, tooMany), {
      error: { code: "concurrency_limit_exceeded", message: tooMany.message }
    })
    assert.deepStrictEqual(encoded(Errors.NotFound.schema, Errors.NotFound.make("Nothing.")), {
      error: { code: "not_found", message: "Nothing." }
    })
    assert.throws(() => encoded(Errors.NotFound.schema, Errors.Forbidden.make("No.")))
    assert.throws(() => encoded(Errors.FileTooLarge, tooMany))
  })

  it.each(schemas)("is a refusal to its reader, in the words of the server: %s", (_name, schema) => {
    const code = codeOf(schema)
    const read = Schema.decodeUnknownSync(schema)({ error: { code, message: "As it was said." } })
    assert(read instanceof Refusal)
    assert.deepStrictEqual([read.code, read.message], [code, "As it was said."])
    // Encoding it again gives the same body.
    assert.deepStrictEqual(Schema.encodeUnknownSync(schema)(read), { error: { code, message: "As it was said." } })
  })

  it("tells its reader what it told of, too", () => {
    for (
      const [schema, error] of [
        [Errors.FileTooLarge, new FileAboveLimit({ maximumBytes: 1024 })],
        [Errors.InvalidReasoningEffort, new EffortRefused({ model: "offline/demo", efforts: [] })]
      ] as const
    ) {
      const codec = schema as Schema.Codec<Error, unknown>
      assert.strictEqual(Schema.decodeUnknownSync(codec)(Schema.encodeUnknownSync(codec)(error)).message, error.message)
    }
  })
})
