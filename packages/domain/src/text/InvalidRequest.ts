/** What callers give is unknown until it was read by a schema of ours; what does not fit is told by the name of its field. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

/** What the caller gave does not fit. Nothing was stored; the same again is refused again. Never repeats the value. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  /** Where: `repos[0].fullName`; at most 101 characters. */
  field: Schema.String,
  /** What is expected there; at most 301 characters. */
  reason: Schema.String
}) {
  override get message() {
    return `${this.field}: ${this.reason}`
  }
}

// The value itself is never repeated: it may be long, or a secret in the wrong place.
const describe = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "MissingKey"
      ? "required"
      : issue._tag === "UnexpectedKey"
      ? "unknown property"
      : SchemaIssue.defaultLeafHook(issue)
})

/** Names longer than this are cut: a property's name is the client's own text. */
const MAX_NAME = 100
const MAX_REASON = 300

const short = (text: string, maximum: number) => text.length > maximum ? `${text.slice(0, maximum)}…` : text

const nameOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (name, key) => typeof key === "number" ? `${name}[${key}]` : name === "" ? String(key) : `${name}.${String(key)}`,
    ""
  )

/** What is expected instead of the first fault, where one of several forms would do; empty: there is one form. */
const alternatives = (issue: SchemaIssue.Issue): ReadonlyArray<string> => {
  switch (issue._tag) {
    case "Pointer":
    case "Encoding":
    case "Filter":
      return alternatives(issue.issue)
    case "Composite":
      return alternatives(issue.issues[0])
    case "AnyOf": {
      const faults = issue.issues.flatMap((form) => describe(form).issues.slice(0, 1))
      const isWhole = faults.length > 1 && faults.every(({ path = [] }) => path.length === 0)
      return isWhole ? [...new Set(faults.map(({ message }) => message.replace(/^Expected /u, "")))] : []
    }
    default:
      return []
  }
}

/** The first fault. `whole`: what to call that which was read, for a fault of no field of it. */
export const firstFault = (issue: SchemaIssue.Issue, whole: string): InvalidRequest => {
  const [first] = describe(issue).issues
  const forms = alternatives(issue)
  const message = forms.length > 1 ? `Expected ${forms.join(" or ")}` : first?.message ?? ""
  const path = (first?.path ?? []).map((segment) => typeof segment === "object" ? segment.key : segment)
  return new InvalidRequest({
    field: path.length === 0 ? whole : short(nameOf(path), MAX_NAME),
    reason: short(message.replace(/^Expected (.*)$/su, "$1 expected"), MAX_REASON)
  })
}

/** Reads what a caller gave as the schema has it, as strictly as a body of the HTTP API: unknown properties are refused. */
export const reader = <A, I>(schema: Schema.Codec<A, I>, whole: string): (given: unknown) => Result.Result<A, InvalidRequest> => {
  const decode = Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })
  return (given) => Result.mapError(decode(given), ({ issue }) => firstFault(issue, whole))
}
