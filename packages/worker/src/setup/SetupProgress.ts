/** Observes a running setup. The service observes nothing; `SetupTrial` does. */
import { Context } from "effect"
import type { Result } from "./SetupMessages.ts"

export interface SetupProgress {
  /** Output of the commands, without secrets, while they run. */
  output(text: string): void
  /** The result of one repository's setup. */
  ended(result: Result): void
  /** Files with credentials that were removed from the home, relative to it. */
  removed(paths: ReadonlyArray<string>): void
}

export const SetupProgress = Context.Reference<SetupProgress>("@slipway/worker/SetupProgress", {
  defaultValue: () => ({ output: () => {}, ended: () => {}, removed: () => {} })
})
