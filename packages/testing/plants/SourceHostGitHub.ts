import { type Plants, plantsIn } from "./Plant.ts"

const GITHUB = "packages/adapters/github"

/** `SourceHost` on GitHub. */
export const plants: Plants = {
  port: "SourceHostGitHub",
  subject: [`${GITHUB}/test/SourceHostGitHub.test.ts`, `${GITHUB}/test/PullRequestStatus.test.ts`, `${GITHUB}/test/Failures.test.ts`],
  plants: [
    ...plantsIn(`${GITHUB}/src/SourceHostGitHub.ts`, [
      ["lets an account write that took over a login", "String(user?.id) === id && [", "["],
      ["lets readers write", "[\"admin\", \"maintain\", \"write\"]", "[\"admin\", \"maintain\", \"write\", \"read\"]"],
      ["says that accounts which it does not know may write", "onStatus(404, () => Effect.succeed(false))\n  )\n\n/** The operations",
        "onStatus(404, () => Effect.succeed(true))\n  )\n\n/** The operations"],
      ["refuses without advice", ", advice: `Install the GitHub App for ${repo.split(\"/\")[0]}, with this repository.` }", " }"],
      ["lists in no order", "return pageOfNames(names, query)", "return names"],
      ["reads all branches where none is named", "name !== \"\" && isRefName(name)", "isRefName(name)"],
      ["gives a remote with the token in its URL", "url: api.remoteUrl(minted),", "url: api.remoteUrl(minted).replace(\"//\", \"//x:y@\"),"]
    ]),
    ...plantsIn(`${GITHUB}/src/PullRequests.ts`, [
      ["protects no branch", "isProtected: branch.protected", "isProtected: false"],
      ["lists pull requests of forks", ".filter(({ head }) => head.repo?.full_name.toLowerCase() === fullName)", ""],
      ["lists the oldest first", "direction: \"desc\"", "direction: \"asc\""],
      ["opens what is ready", "draft: true })", "draft: false })"],
      ["makes labels",
        "const known = yield* Effect.filter(labels, (name) => taken(api.request(access, \"GET\", \"/labels/{name}\", { name })))",
        "const known = labels"],
      ["asks a team of another organization", "if (team !== undefined && owner.toLowerCase()", "if (false && owner.toLowerCase()"],
      ["asks a team as a person", "team === undefined ? { reviewers: [name] }", "team === undefined || true ? { reviewers: [name] }"],
      ["sorts comments the other way", "a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1",
        "a.createdAt < b.createdAt ? 1 : a.createdAt > b.createdAt ? -1"]
    ])
  ]
}
