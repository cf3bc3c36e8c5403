/** A repository to try Slipway with. The form of a new sandbox offers it where this service is given. */
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, type Effect } from "effect"

export class SampleRepository extends Context.Service<SampleRepository, {
  /** Makes it on this machine, and lets sandboxes start from it. Safe to repeat. */
  readonly add: Effect.Effect<void, StoreUnavailable>
}>()("@slipway/pages/SampleRepository") {}
