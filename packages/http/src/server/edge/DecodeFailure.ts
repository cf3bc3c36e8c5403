/** The refusal of a request that does not fit its schema: it names the first fault by its field. */
import { InvalidCursor, InvalidIdempotencyKey, InvalidRequest, type Refusal } from "@slipway/api/shared/Errors"
import { firstFault } from "@slipway/domain/text/InvalidRequest"
import type { HttpApiError } from "effect/http-api"

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
  const { field, message } = firstFault(cause.issue, slots[kind])
  const refusal = kind === "Query" || kind === "Headers" ? refusals[field] : undefined
  return (refusal ?? InvalidRequest).make(message)
}
