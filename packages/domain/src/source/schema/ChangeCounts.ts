/** How much of a repository differs from the commit that a sandbox started from. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { RepoName } from "./RepoRef.ts"

export const ChangeCounts = Schema.Struct({
  repo: RepoName,
  /** Lines. */
  additions: Counter,
  deletions: Counter,
  changedFiles: Counter
})
export type ChangeCounts = typeof ChangeCounts.Type
