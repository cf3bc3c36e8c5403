/** The amount of changes in a repository since the commit that a sandbox started from. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { RepoName } from "./RepoRef.ts"

/** Changed files and lines of one repository. */
export const ChangeCounts = Schema.Struct({
  repo: RepoName,
  /** Lines. */
  additions: Counter,
  deletions: Counter,
  changedFiles: Counter
})
export type ChangeCounts = typeof ChangeCounts.Type
