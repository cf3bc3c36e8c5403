/** How many sandboxes the worker of this process boots, for those who can leave the processors to the first one for a moment. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"

/** `first`: one alone, after none for a while; it is over soonest where nothing else runs. */
export type Boots = "none" | "first" | "more"

/** Where the worker tells of them, and those who would stand back look. `more` where no worker runs: nobody waits for anything. */
export const BootsHere = Context.Reference<{
  /** As it is now; cheap. */
  current(): Boots
  /** From now on `current` asks this. */
  report(current: () => Boots): void
}>("@slipway/domain/BootsHere", { defaultValue: () => ({ current: () => "more", report: () => {} }) })

/** One that those built on it share. */
export const layer: Layer.Layer<never> = Layer.sync(BootsHere, () => {
  let ask = (): Boots => "more"
  return {
    current: () => ask(),
    report: (current) => void (ask = current)
  }
})
