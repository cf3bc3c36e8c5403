import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "FeedbackWatches",
  anew: ["packages/testing/test/sandbox"],
  subject: "packages/testing/test/publishing/FeedbackWatches.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/FeedbackWatchesMemory.ts", [
    ["watches sandboxes without feedback", "if (sandbox.feedback === null) continue", ""],
    ["watches what was not published", "if (number === null) continue", ""],
    ["gives a claimed watch again", "claimedUntil: DateTime.addDuration(now, CLAIM_TIME)", "claimedUntil: null"],
    ["never gives the watch of a dead worker", "claimedUntil === null || DateTime.isLessThanOrEqualTo(claimedUntil, now)",
      "claimedUntil === null"],
    ["takes the record of an earlier claim", "if (known === undefined || known.fence !== fence) return false",
      "if (known === undefined) return false"],
    ["forgets failed looks", "          failures,\n          claimedUntil: null,", "          claimedUntil: null,"],
    ["forgets what is noticed during a look", "lookAt: known.noticed === noticed ? lookAt : known.lookAt", "lookAt"],
    ["misses a change of the sandbox", "JSON.stringify([feedback, publications, status, turn?.id, turn?.state])",
      "JSON.stringify([feedback === null, status])"],
    ["notices by the exact name alone", "watch.repo.toLowerCase() !== repo.toLowerCase()", "watch.repo !== repo"],
    ["follows a branch of its own while its sandbox continues another one", "continuedBranch(sandbox, repo)?.branch ?? ", ""],
    ["notices every branch", "|| branch !== null && watch.branch !== branch", ""],
    ["gives more than are asked for", ".slice(0, limit)", ""]
  ])
}
