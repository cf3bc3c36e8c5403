import { type Plants, plantsIn } from "./Plant.ts"

const LOCAL = "packages/adapters/local-source"

/** `SourceHost` on repositories of this machine. */
export const plants: Plants = {
  port: "SourceHostLocal",
  subject: [`${LOCAL}/test/SourceHostLocal.test.ts`],
  plants: plantsIn(`${LOCAL}/src/SourceHostLocal.ts`, [
    ["takes a deleted branch for open", "const state = merged || head === undefined ?", "const state = merged ?"],
    ["takes a merged one for open", "const state = merged || head === undefined ?", "const state = head === undefined ?"],
    ["opens without a base", "if (base === undefined) return yield* refuse(`There is no branch",
      "if (false) return yield* refuse(`There is no branch"],
    ["opens at another commit", "if (tips.get(draft.headRef) !== draft.headSha) {", "if (false) {"],
    ["knows a pull request that is not there", "if (Option.isNone(row)) return null\n      const seen",
      "if (Option.isNone(row)) return yield* noSuch(\"x\")\n      const seen"],
    ["lists closed pull requests", "seen.filter(({ state }) => state === \"open\").map(openPullOf)", "seen.map(openPullOf)"],
    ["finds a closed pull request",
      "return seen.state === \"open\" ? toPullRequest(local.options, repository, seen) : null\n    }))\n)\n\nconst openDraft",
      "return toPullRequest(local.options, repository, seen)\n    }))\n)\n\nconst openDraft"],
    ["takes labels", "return [...labels, ...reviewers]", "return reviewers"],
    ["ends no draft", "yield* guard(ready(local.sql, seen.id, at))", ""],
    ["lets accounts write to what is not there", "mayWrite: (repo) => Effect.as(repository(local, repo), true)",
      "mayWrite: () => Effect.succeed(true)"],
    ["reads branches by any name", "isRefName(name) ? LocalGit.tips(path, name)", "true ? LocalGit.tips(path, name)"]
  ])
}
