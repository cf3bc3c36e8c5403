/** Plain variables of one sandbox, named at its creation. */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { utf8Length } from "../../text/Utf8.ts"
import { VariableName } from "./VariableName.ts"

/** Variables of a sandbox. */
export const MAX_VARIABLES = 50
/** Characters of a value, as in the file of a repository. */
export const MAX_VALUE = 8_192
/** Bytes of all names and values in UTF-8: a quarter of what Linux takes as one argument (`MAX_ARG_STRLEN`). */
export const MAX_BYTES = 32 * 1024

/** Variables by name, for setup and the agent. They are not secret. */
export const SandboxVariables = Schema.Record(
  VariableName.check(Schema.makeFilter((name: string) => name !== "__proto__", {
    expected: "a name other than __proto__",
    toJsonSchema: () => [{}, true]
  })),
  text(0, MAX_VALUE)
).check(
  Schema.isMaxProperties(MAX_VARIABLES),
  Schema.makeFilter(
    (variables: Readonly<Record<string, string>>) => utf8Length(Object.entries(variables).flat().join("")) <= MAX_BYTES,
    { expected: `at most ${MAX_BYTES} bytes of names and values`, toJsonSchema: () => [{}, true] }
  )
)
export type SandboxVariables = typeof SandboxVariables.Type
