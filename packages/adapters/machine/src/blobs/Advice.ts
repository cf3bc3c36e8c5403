/** What goes wrong with a place of blobs: an error for callers, and a line for operators that says what to do. */
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect } from "effect"

/** A sentence for people without a path or an address. */
const DETAIL = "The store of files is not available."

/** Logs `problem`, a sentence for operators without any secret, and fails. `slipway doctor` shows the message of the cause. */
export const unavailable = (problem: string, code: string): Effect.Effect<never, StoreUnavailable> =>
  Effect.andThen(
    Effect.logError(problem, { code }),
    Effect.fail(new StoreUnavailable({ cause: new Error(problem), detail: DETAIL }))
  )
