import { type Plants, plantsIn } from "./Plant.ts"

const FORGEJO = "packages/adapters/forgejo"

export const plants: Plants = {
  port: "PullRequestFeedbackForgejo",
  subject: [`${FORGEJO}/test/PullRequestFeedbackForgejo.test.ts`],
  plants: [
    ...plantsIn(`${FORGEJO}/src/PullRequestFeedbackForgejo.ts`, [
      ["lists reviews without a text", "if ((body ?? \"\").trim() === \"\") continue", ""],
      ["reads comments of a closed pull request", "items: isOpen ? yield* readItems(api, place, number, since) : []",
        "items: yield* readItems(api, place, number, since)"],
      ["writes a second reply", "answer = own === undefined", "answer = true"],
      ["writes over a person's comment", "user?.id === account && body", "body"],
      ["writes replies of any length", "text.slice(0, MAX_REPLY)", "text"],
      ["says that checks failed while others run", ": states.includes(\"pending\")\n    ? \"running\" as const",
        ": false\n    ? \"running\" as const"],
      ["reads known checks again", "state !== \"failed\" || known.has(headSha)", "state !== \"failed\""],
      ["reads the whole log", "headers: { range: `bytes=-${MAX_LOG_TAIL}` },", ""],
      ["keeps half a character of a log", ".replace(/^\\ufffd+/u, \"\")", ""],
      ["takes an outage for a missing log", "failure.retryable ? Effect.fail(failure) : Effect.succeed(otherwise)",
        "Effect.succeed(otherwise)"],
      ["fails for a log that is gone", "failure.retryable ? Effect.fail(failure) : Effect.succeed(otherwise)", "Effect.fail(failure)"],
      ["forgets workflows that could not begin",
        ": failedRuns.map(({ run }): FailingCheck => ({ name: run.name, url: run.url, summary: \"\", annotations: [], log: \"\" }))",
        ": []"]
    ]),
    ...plantsIn(`${FORGEJO}/src/Answers.ts`, [
      ["takes our own comments for a person's", "isBot: user.id === own || user.id < GHOST", "isBot: user.id < GHOST"],
      ["takes the account of Actions for a person's", "isBot: user.id === own || user.id < GHOST", "isBot: user.id === own"],
      ["takes deleted accounts for programs", "user.id < GHOST }", "user.id < 0 }"],
      ["fails for a warning", "CONCLUSIONS[status.status] ?? status.status", "status.status"],
      ["shows addresses of any scheme", "return url !== null && /^https?:$/u.test(url.protocol) ? url.href : \"\"",
        "return url?.href ?? \"\""],
      ["loses the lines of removed code", "old != null && old > 0 ? old : null", "null"]
    ]),
    ...plantsIn(`${FORGEJO}/src/Reviews.ts`, [
      ["reads what is still being written", "state !== \"PENDING\" && ", ""],
      ["reads requests for a review", " && state !== \"REQUEST_REVIEW\"", ""]
    ]),
    ...plantsIn(`${FORGEJO}/src/PullRequests.ts`, [
      ["counts earlier runs of a workflow", "if ((newest.get(key)?.id ?? -1) < run.id) newest.set(key, run)",
        "newest.set(String(run.id), run)"]
    ])
  ]
}
