/** Summarizes the checks of a commit in one word and one line. */
import { type Checks, noChecks } from "../schema/PullRequest.ts"

type Run = Pick<Checks["checkRuns"][number], "conclusion" | "status">
type State = "pending" | "success" | "failure"

const PASSED = new Set(["success", "neutral", "skipped"])

/**
 * Counts like GitHub's own command; `stale` is a check that GitHub gave up waiting for.
 * https://github.com/cli/cli/blob/trunk/api/queries_pr.go
 */
export const stateOf = ({ conclusion, status }: Run): State =>
  status !== "completed" || conclusion === undefined || conclusion === "stale" ? "pending" : PASSED.has(conclusion) ? "success" : "failure"

/** A failure is reported before the other checks have finished. */
const overall = (states: ReadonlyArray<State>): State =>
  states.includes("failure") ? "failure" : states.includes("pending") ? "pending" : "success"

/** People look at check runs. The jobs of a workflow are check runs too, but a workflow may have none yet, or never. */
export const summarize = (runs: Checks["runs"], checkRuns: Checks["checkRuns"]): Checks => {
  const shown = checkRuns.length > 0 ? checkRuns : runs
  if (shown.length === 0) return noChecks
  const passed = shown.filter((run) => stateOf(run) === "success").length
  const changes = [...runs.map(({ updatedAt }) => updatedAt),
    ...checkRuns.flatMap(({ completedAt, startedAt }) => completedAt ?? startedAt ?? [])].sort()
  const last = changes.at(-1)
  return {
    label: `${passed} of ${shown.length} ${shown.length === 1 ? "check" : "checks"} passed`,
    runs,
    checkRuns,
    state: overall([...checkRuns, ...runs].map(stateOf)),
    ...(last === undefined ? {} : { updatedAt: last })
  }
}
