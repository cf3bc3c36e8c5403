/**
 * The number of sandboxes that this process's worker is booting, for work that can leave the processors to the first boot for a moment.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"

/** `first`: a single boot after a time without one. It is fastest if nothing else runs. */
export type Boots = "none" | "first" | "more"

/** The worker reports its boots here. Without a worker it is `more`: no request waits. */
export const BootsHere = Context.Reference<{
  /** The present state; cheap. */
  current(): Boots
  /** Sets the source of `current`. */
  report(current: () => Boots): void
}>("@slipway/domain/BootsHere", { defaultValue: () => ({ current: () => "more", report: () => {} }) })

/** One state, shared by everything built on this layer. */
export const layer: Layer.Layer<never> = Layer.sync(BootsHere, () => {
  let ask = (): Boots => "more"
  return {
    current: () => ask(),
    report: (current) => void (ask = current)
  }
})
