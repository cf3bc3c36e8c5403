/** Decodes the input of callers, which may be anything, and reports the first invalid field by its name. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

/** The caller's input is invalid. Nothing was stored, and a retry fails again. The error never contains the value. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  /** The path of the field, such as `repos[0].fullName`; at most 101 characters. */
  field: Schema.String,
  /** The expected form; at most 301 characters. */
  reason: Schema.String
}) {
  override get message() {
    return `${this.field}: ${this.reason}`
  }
}

// Leave out the value: it may be long, or a secret in the wrong place.
const describe = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "MissingKey"
      ? "required"
      : issue._tag === "UnexpectedKey"
      ? "unknown property"
      : SchemaIssue.defaultLeafHook(issue)
})

/** Characters of a property's name in an error. The client chooses the name. */
const MAX_NAME = 100
const MAX_REASON = 300

const short = (text: string, maximum: number) => text.length > maximum ? `${text.slice(0, maximum)}…` : text

const nameOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (name, key) => typeof key === "number" ? `${name}[${key}]` : name === "" ? String(key) : `${name}.${String(key)}`,
    ""
  )

const EXPECTED = /^Expected /u

/** The expected forms at the first fault, if several are allowed; empty: there is one form. */
const alternatives = (issue: SchemaIssue.Issue): ReadonlyArray<string> => {
  switch (issue._tag) {
    case "Pointer":
    case "Encoding":
    case "Filter":
      return alternatives(issue.issue)
    case "Composite":
      return alternatives(issue.issues[0])
    case "AnyOf": {
      const faults = issue.issues.flatMap((form) => describe(form).issues)
      const isWhole = faults.every(({ path }) => path?.length === 0)
      return isWhole ? [...new Set(faults.map(({ message }) => message.replace(EXPECTED, "")))] : []
    }
    default:
      return []
  }
}

/** The error for the first fault. `whole`: the name of the input, for a fault that is in no field. */
export const firstFault = (issue: SchemaIssue.Issue, whole: string): InvalidRequest => {
  const first = describe(issue).issues[0]!
  const forms = alternatives(issue)
  const message = forms.length > 1 ? `Expected ${forms.join(" or ")}` : first.message
  const path = (first.path ?? []).map((segment) => typeof segment === "object" ? segment.key : segment)
  return new InvalidRequest({
    field: path.length === 0 ? whole : short(nameOf(path), MAX_NAME),
    reason: short(EXPECTED.test(message) ? `${message.replace(EXPECTED, "")} expected` : message, MAX_REASON)
  })
}

/** A decoder for a caller's input, as strict as for bodies of the HTTP API: unknown properties are refused. */
export const reader = <A, I>(schema: Schema.Codec<A, I>, whole: string): (given: unknown) => Result.Result<A, InvalidRequest> => {
  const decode = Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })
  return (given) => Result.mapError(decode(given), ({ issue }) => firstFault(issue, whole))
}
