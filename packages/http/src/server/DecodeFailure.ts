/** What is told of a request that does not fit its schema: the first fault, by the name of its field. */
import { SchemaIssue } from "effect"
import type { HttpApiError } from "effect/http-api"
import { InvalidCursor, InvalidIdempotencyKey, InvalidRequest, type Refusal } from "../api/Errors.ts"

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

const nameOf = (path: ReadonlyArray<PropertyKey>): string => {
  const name = path.reduce<string>(
    (name, key) => typeof key === "number" ? `${name}[${key}]` : name === "" ? String(key) : `${name}.${String(key)}`,
    ""
  )
  return name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name
}

const refusals: Record<string, { make(reason: string): Refusal } | undefined> = {
  "idempotency-key": InvalidIdempotencyKey,
  "last-event-id": InvalidCursor,
  after: InvalidCursor,
  since: InvalidCursor
}

const slots = { Params: "path", Query: "query", Headers: "headers", Payload: "body" } as const

/** `null`: what does not fit is our own response. */
export const refusalOf = ({ cause, kind }: HttpApiError.HttpApiSchemaError): Refusal | null => {
  if (kind === "Body" || kind === "ResponseHeaders") return null
  const [issue] = describe(cause.issue).issues
  const path = (issue?.path ?? []).map((segment) => typeof segment === "object" ? segment.key : segment)
  const message = (issue?.message ?? "").replace(/^Expected (.*)$/su, "$1 expected")
  const refusal = kind === "Query" || kind === "Headers" ? refusals[String(path[0])] : undefined
  return (refusal ?? InvalidRequest).make(`${path.length === 0 ? slots[kind] : nameOf(path)}: ${message}`)
}
