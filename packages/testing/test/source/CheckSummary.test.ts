import { assert, it } from "@effect/vitest"
import * as CheckSummary from "@slipway/domain/source/rules/CheckSummary"
import type { Checks as AllChecks } from "@slipway/domain/source/schema/PullRequest"

type CheckRun = AllChecks["checkRuns"][number]
type WorkflowRun = AllChecks["runs"][number]

const check = (status: string, conclusion?: string): CheckRun => ({
  id: 1,
  name: "c",
  url: "",
  status,
  ...(conclusion === undefined ? {} : { conclusion })
})
const passed = check("completed", "success")
const failed = check("completed", "failure")
const running = check("in_progress")
const workflow = (status: string, conclusion?: string): WorkflowRun => ({
  ...check(status, conclusion),
  createdAt: "2026-11-21T00:00:00Z",
  updatedAt: "2026-11-21T00:00:01Z",
  event: "push",
  headBranch: "b",
  headSha: "s",
  runNumber: 1
})

it("tells what runs on a commit in one line and one word", () => {
  for (
    const [runs, checkRuns, label, state] of [
      [[], [], "No checks", "idle"],
      [[], [passed], "1 of 1 check passed", "success"],
      [[], [passed, check("completed", "neutral"), check("completed", "skipped")], "3 of 3 checks passed", "success"],
      [[], [passed, running], "1 of 2 checks passed", "pending"],
      [[], [passed, check("completed", "stale")], "1 of 2 checks passed", "pending"],
      [[], [passed, running, failed], "1 of 3 checks passed", "failure"],
      ...["failure", "cancelled", "timed_out", "action_required", "startup_failure"].map((conclusion) =>
        [[], [passed, check("completed", conclusion)], "1 of 2 checks passed", "failure"] as const
      ),
      // A workflow without jobs yet, a workflow that never got any, and a workflow whose jobs are the checks.
      [[workflow("queued")], [], "0 of 1 check passed", "pending"],
      [[workflow("completed", "startup_failure")], [passed], "1 of 1 check passed", "failure"],
      [[workflow("completed", "success")], [passed, passed], "2 of 2 checks passed", "success"]
    ] as const
  ) {
    const { label: said, state: known } = CheckSummary.summarize(runs, checkRuns)
    assert.deepStrictEqual([said, known], [label, state], JSON.stringify([runs, checkRuns]))
  }
})

it("dates the checks by what happened last", () => {
  const started = { ...running, startedAt: "2026-11-21T00:00:03Z" }
  const completed = { ...passed, startedAt: "2026-11-21T00:00:00Z", completedAt: "2026-11-21T00:00:02Z" }
  assert.strictEqual(CheckSummary.summarize([workflow("queued")], [started, completed]).updatedAt, "2026-11-21T00:00:03Z")
  assert.strictEqual(CheckSummary.summarize([workflow("queued")], [completed]).updatedAt, "2026-11-21T00:00:02Z")
  assert.notProperty(CheckSummary.summarize([], [running]), "updatedAt")
})
