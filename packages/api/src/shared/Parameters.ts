/** Parameters that several endpoints share. Numbers are digits and nothing else: no sign, no exponent, no blanks. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { Schema, SchemaTransformation } from "effect"

/** A number as digits. `expected`: the message for any other text. */
export const digits = <S extends Schema.Codec<number, number>>(number: S, expected = "digits") =>
  Schema.String.check(Schema.isPattern(/^\d+$/u, { expected })).pipe(
    Schema.decodeTo(number, SchemaTransformation.transform({ decode: Number, encode: String }))
  )

/** Position in an event log: the id of the last event that was read, 0 for its beginning. */
export const Cursor = digits(Counter)

/** Most items a page may have; also the default. */
export const MAX_LIMIT = 100

/** Items of a page, 1 to {@link MAX_LIMIT}. */
export const Limit = digits(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_LIMIT }, { expected: `1 to ${MAX_LIMIT}` })))

/** Path parameter of the endpoints below a sandbox. */
export const inSandbox = { sandboxId: SandboxId }

/** Which of the sandbox's repositories; may be left out when there is one. */
export const repoQuery = { repo: Schema.optionalKey(RepoName) }
