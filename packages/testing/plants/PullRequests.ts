import { type Plants, plantsIn } from "./Plant.ts"

const merge = "repository.merge(headRef, baseRef)"
const close = "pullsOf(state, repository)[number - 1] = { ...pull, state: \"closed\" }"
const isUnknown = (what: string, says: string) => `refusal(repo, number)("unknown ${what}", "There is no such ${says}.")`

export const plants: Plants = {
  port: "PullRequests",
  subject: "packages/testing/test/source/PullRequests.suites.ts",
  plants: plantsIn("packages/domain/memory/source/SourceHostMemory.ts", [
    ["shows what came to the base", "const from = repository.mergeBase(before, headSha)", "const from = before"],
    ["lists commits that the base has", ".filter((sha) => !others.has(sha))", ""],
    ["lists the newest commit first", "own.slice(0, MAX_COMMITS).toReversed()", "own.slice(0, MAX_COMMITS)"],
    ["lists the oldest of many commits", "own.slice(0, MAX_COMMITS)", "own.slice(-MAX_COMMITS)"],
    ["counts the listed commits alone", "commitCount: own.length", "commitCount: commits.length"],
    ["lists the whole message of a commit", "title: cut(message)", "title: message"],
    ["forgets the description", "state.descriptions.set(id, body)", ""],
    ["shows nothing of a merged pull request", "const before = merged\n", "const before = false\n"],
    ["shows it the other way round", "patch(contentOf(repository, from), contentOf(repository, headSha))",
      "patch(contentOf(repository, headSha), contentOf(repository, from))"],
    ["merges a commit that no person reviewed", "if (pull.headSha !== headSha) return", "if (false) return"],
    ["merges what was closed", "if (pull.state === \"closed\") return yield* refuse(\"closed\"",
      "if (false) return yield* refuse(\"closed\""],
    ["merges what conflicts", "if (conflicts(repository, base, headSha).length > 0) return", "if (false) return"],
    ["refuses what both changed in different files", "if (conflicts(repository, base, headSha).length > 0)",
      "if (repository.mergeBase(base, headSha) !== base)"],
    ["refuses to merge again", "if (pull.merged) return { pullRequest: pull, changed: false }", ""],
    ["says that merging again did something", "if (pull.merged) return { pullRequest: pull, changed: false }",
      "if (pull.merged) return { pullRequest: pull, changed: true }"],
    ["moves the base branch to the commit", merge, "repository.branches.set(baseRef, headSha)"],
    ["takes the branch away that it merged", merge, `${merge}\n        repository.branches.delete(headRef)`],
    ["says that it merged and does not", merge, "pullsOf(state, repository)[number - 1] = { ...pull, state: \"closed\" }"],
    ["closes what was merged", "if (pull.merged) return yield* refuse(\"merged\"", "if (false) return yield* refuse(\"merged\""],
    ["says that closing again did something", "if (pull.state === \"closed\") return { pullRequest: pull, changed: false }", ""],
    ["says that what it closed was merged", close, close.replace("\"closed\"", "\"closed\", merged: true")],
    ["takes the branch away that it closed", close, `${close}\n        repository.branches.delete(pull.headRef)`],
    ["takes an unknown repository for an unknown number", isUnknown("repository", "repository"), isUnknown("number", "pull request")],
    ["takes an unknown number for an unknown repository", isUnknown("number", "pull request"), isUnknown("repository", "repository")]
  ])
}
