/** `RootSpan` as it would be without traces: spans are for the log alone, as they were before. */
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Effect } from "effect"

export { Activity, Apart, Collected, current, CurrentActivity, fromTraceparent, within } from "@slipway/domain/observability/RootSpan"

export const traced: typeof RootSpan.traced = (name, { parent } = {}) => RootSpan.within(name, parent)
export const past: typeof RootSpan.past = () => Effect.void
const nothing = Effect.succeed<RootSpan.Open>({ attribute: () => {}, end: Effect.void })
export const open: typeof RootSpan.open = () => nothing
export const annotate: typeof RootSpan.annotate = () => Effect.void
export const quiet: typeof RootSpan.quiet = (self) => self
export const traceparent: typeof RootSpan.traceparent = Effect.succeed(null)
