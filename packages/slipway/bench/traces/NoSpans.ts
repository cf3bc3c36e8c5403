/** `RootSpan` as if nobody had ever written it: what the service would be without traces. */
import type * as RootSpan from "@slipway/domain/RootSpan"
import { Context, Effect, Option } from "effect"

export const Collected = Context.Reference<boolean>("@slipway/domain/RootSpan/Collected", { defaultValue: () => false })
export const Apart = Context.Reference<boolean>("@slipway/domain/RootSpan/Apart", { defaultValue: () => false })
export class Activity {
  current = null
}
export const CurrentActivity = Context.Reference<Activity>("@slipway/domain/RootSpan/CurrentActivity", {
  defaultValue: () => new Activity()
})
export const within: typeof RootSpan.within = () => (self) => self
export const traced: typeof RootSpan.traced = () => (self) => self
export const past: typeof RootSpan.past = () => Effect.void
const nothing = Effect.succeed<RootSpan.Open>({ attribute: () => {}, end: Effect.void })
export const open: typeof RootSpan.open = () => nothing
export const annotate: typeof RootSpan.annotate = () => Effect.void
export const quiet: typeof RootSpan.quiet = (self) => self
export const current: typeof RootSpan.current = () => undefined
export const traceparent: typeof RootSpan.traceparent = Effect.succeed(null)
export const fromTraceparent: typeof RootSpan.fromTraceparent = () => Option.none()
