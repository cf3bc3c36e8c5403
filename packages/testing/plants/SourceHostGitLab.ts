import { type Plants, plantsIn } from "./Plant.ts"

const GITLAB = "packages/adapters/gitlab"

/** `SourceHost` on GitLab. */
export const plants: Plants = {
  port: "SourceHostGitLab",
  subject: [`${GITLAB}/test/SourceHostGitLab.test.ts`, `${GITLAB}/test/Groups.test.ts`, `${GITLAB}/test/Failures.test.ts`],
  plants: [
    ...plantsIn(`${GITLAB}/src/SourceHostGitLab.ts`, [
      ["lets reporters write", "const DEVELOPER = 30", "const DEVELOPER = 20"],
      ["lets an account write that took over a login", "String(id) === author.id && username", "String(id) === author.id || username"],
      ["lets members write whose time is over", "&& !isOver &&", "&&"],
      ["lets blocked members write", "&& state === \"active\"", ""],
      ["gives git the token as another account", "`oauth2:${", "`${"]
    ]),
    ...plantsIn(`${GITLAB}/src/Projects.ts`, [
      ["lists projects of strangers", "groups.length === 0 ? found : found.filter", "groups.length >= 0 ? found : found.filter"],
      ["finds no project in a subgroup", "include_subgroups: true", "include_subgroups: false"],
      ["takes one of several projects", "if (others.length > 0) {", "if (false) {"],
      ["keeps the number of a project that is gone", ".pipe(onStatus(404, () => afresh))", ""],
      ["reads one page of projects", "if (listed.length < PER_PAGE) break\n      }\n      // A", "break\n      }\n      // A"],
      ["lists paths of the same short name", "all.length === 1 && short > from", "short > from"]
    ]),
    ...plantsIn(`${GITLAB}/src/MergeRequests.ts`, [
      ["opens what is ready", "title: draftTitle(title)", "title"],
      ["carries out quick actions of a description", "description: withoutQuickActions(body)", "description: body"],
      ["opens one between branches that are not there", "for (const name of [headRef, baseRef])", "for (const name of [baseRef])"],
      ["does not say which one is there", "${open === null ? \"\" : `: ${open.url}`}", ""],
      ["waits for no preparation", "look < LOOKS && !isSettled()", "false"],
      ["makes labels", "const known = yield* Effect.filter(labels, (name) => hasLabel(api, access, name))", "const known = labels"],
      ["takes a number of a label for its name", "Effect.map((label) => label.name === name)", "Effect.as(true)"],
      ["takes away the reviewers of people", "[...new Set([...present, ...added])]", "added"],
      ["says that all reviewers were taken", "id !== null && taken.has(id) ? [] : [name]", "id !== null ? [] : [name]"],
      ["finds a merge request of a fork", "one.source_branch === headRef && one.source_project_id === access.id",
        "one.source_branch === headRef"],
      ["ends no draft", "body: { title: plainTitle(mergeRequest.title) }", "body: { title: mergeRequest.title }"],
      ["counts what was pushed first", "const key = `${id} ${refs.base_sha} ${refs.start_sha} ${refs.head_sha}`", "const key = `${id}`"]
    ])
  ]
}
