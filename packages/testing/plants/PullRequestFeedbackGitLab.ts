import { type Plants, plantsIn } from "./Plant.ts"

const GITLAB = "packages/adapters/gitlab"

/** `PullRequestFeedback` on GitLab, and the checks of merge requests. */
export const plants: Plants = {
  port: "PullRequestFeedbackGitLab",
  subject: [`${GITLAB}/test/PullRequestFeedbackGitLab.test.ts`],
  plants: [
    ...plantsIn(`${GITLAB}/src/Checks.ts`, [
      ["fails for a failure that is allowed", "isAllowed && (conclusion", "false && (conclusion"],
      ["waits for a person's job", "manual: \"skipped\"", "manual_: \"skipped\""],
      ["waits for jobs after a failed one", "status.status === \"created\" && over.has", "false && over.has"],
      ["counts pipelines that were replaced", "const pipelines = newestOfRefs(ofHead)", "const pipelines = ofHead"],
      ["leaves out pipelines of merged results", "|| isOfHead && pipeline.id === merged?.id", ""],
      ["takes pipelines that may not be read for none", ".pipe(onStatus(403, () => Effect.succeed(null)))",
        ".pipe(onStatus(403, () => Effect.succeed({ pipelines: [], statuses: [] })))"]
    ]),
    ...plantsIn(`${GITLAB}/src/JobLog.ts`, [
      ["sends the token to the storage", "headers: { range: `bytes=-${MAX_LOG_TAIL}` }",
        "headers: { range: `bytes=-${MAX_LOG_TAIL}`, authorization: \"Bearer x\" }"],
      ["keeps a whole log", ".subarray(-MAX_LOG_TAIL)", ""],
      ["reads a log without an end", "if (read > MAX_READ) return null", ""]
    ]),
    ...plantsIn(`${GITLAB}/src/PullRequestFeedbackGitLab.ts`, [
      ["takes its own comments for a person's", "isBot: note.author.id === own.id || ", "isBot: "],
      ["replies again", "own === undefined\n      ? { method: \"POST\"", "true\n      ? { method: \"POST\""],
      ["takes a quote of a reply for the reply", "author.id === account.id && body.endsWith", "body.endsWith"],
      ["carries out quick actions of a reply", "withoutQuickActions(text.slice(0, MAX_REPLY).toWellFormed())",
        "text.slice(0, MAX_REPLY).toWellFormed()"],
      ["loses the line of a comment on code", "      line,\n", "      line: null,\n"]
    ])
  ]
}
