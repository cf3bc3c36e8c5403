/** The reply while the source host cannot answer. */
import { Unavailable } from "@slipway/api/shared/Errors"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Effect } from "effect"
import { respond } from "./Respond.ts"

/** Seconds to wait for a source host that did not say how long. */
const RETRY_SECONDS = 5

/** 503 with the time to wait. */
export const busy = ({ retryAfter = RETRY_SECONDS }: SourceHostError) =>
  Effect.succeed(respond(Unavailable.make("The source host cannot answer now.", { "retry-after": String(Math.max(1, retryAfter)) })))
