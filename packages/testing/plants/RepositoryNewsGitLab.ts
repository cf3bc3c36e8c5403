import { type Plants, plantsIn } from "./Plant.ts"

const GITLAB = "packages/adapters/gitlab"

/** News of projects on GitLab, by webhooks and by polls. */
export const plants: Plants = {
  port: "RepositoryNewsGitLab",
  subject: [`${GITLAB}/test/RepositoryNewsGitLab.test.ts`, `${GITLAB}/test/Webhooks.test.ts`],
  plants: [
    ...plantsIn(`${GITLAB}/src/SourceHostEventsGitLab.ts`, [
      ["takes any secret", "isSame(sent.headers[\"x-gitlab-token\"] ?? \"\", Redacted.value(secret))", "true"],
      ["takes an empty secret", "Redacted.value(secret) !== \"\" && isSame", "isSame"],
      ["takes requests that nothing proves", "(secret !== null || signingToken !== undefined) && isTold", "isTold"],
      ["takes recorded requests", "|| age > Duration.toMillis(TOLERANCE)", ""],
      ["signs the body alone", "`${id}.${timestamp}.${body}`", "body"],
      ["tells of confidential issues", "payload === null || payload.object_attributes.confidential === true", "payload === null"],
      ["tells of internal notes", "note.internal !== true && issue", "issue"],
      ["tells again of a note that was edited", "const isNew = note.action == null || note.action === \"create\"", "const isNew = true"],
      ["tells of pipelines that run", "|| !isEnded(payload.object_attributes.status)", ""],
      ["tells again of labels that were there", "after.filter(({ id }) => !before.has(id))", "after"]
    ]),
    ...plantsIn(`${GITLAB}/src/RepositoryNewsGitLab.ts`, [
      ["asks for everything each time", "headers: tag === undefined ? {} : { \"if-none-match\": tag }", "headers: {}"],
      ["tells twice of a change in the same millisecond", "|| !place.known.includes(id))", "|| true)"],
      ["tells of confidential issues", "changed.filter(({ confidential }) => confidential !== true)", "changed"],
      ["tells of internal notes", "|| note.internal === true || note.confidential === true", ""],
      ["reads one page of comments", "const isFull = fresh.length === PER_PAGE", "const isFull = false"],
      ["tells of labels that were taken away", "action !== \"add\" || label", "label"]
    ]),
    ...plantsIn(`${GITLAB}/src/News.ts`, [
      ["counts a label that was added again as known", ":${Math.floor(at.epochMilliseconds / MINUTE)}:", ":"],
      ["answers itself", "author.isBot || OWN_MARK.test(body)", "author.isBot"]
    ])
  ]
}
