/** Who looks on while a setup runs: nobody, in a service. */
import { Context } from "effect"
import type { Result } from "./SetupMessages.ts"

export interface SetupProgress {
  /** What the commands write, as it comes, free of secrets. */
  output(text: string): void
  /** How the setup of a repository went. */
  ended(result: Result): void
  /** Files with credentials that it had left in the home, relative to it. */
  removed(paths: ReadonlyArray<string>): void
}

export const SetupProgress = Context.Reference<SetupProgress>("@slipway/worker/SetupProgress", {
  defaultValue: () => ({ output: () => {}, ended: () => {}, removed: () => {} })
})
