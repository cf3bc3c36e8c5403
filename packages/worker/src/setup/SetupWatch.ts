/** Who looks on while a setup runs: nobody, in a service. */
import { Context } from "effect"
import type { Result } from "./SetupTold.ts"

export interface SetupWatch {
  /** What the commands write, as it comes, free of secrets. */
  output(text: string): void
  /** How the setup of a repository went. */
  ended(result: Result): void
  /** Files with credentials that it had left in the home, relative to it. */
  removed(paths: ReadonlyArray<string>): void
}

export const SetupWatch = Context.Reference<SetupWatch>("@slipway/worker/SetupWatch", {
  defaultValue: () => ({ output: () => {}, ended: () => {}, removed: () => {} })
})
