import { type Plants, plantsIn } from "./Plant.ts"

const names = "pageOfNames(state.repositories.names(), query)"
const isFound = "pull.state === \"open\" && pull.headRef === headRef) ?? null"
const again = "if (pulls.some((pull) => pull.state === \"open\" && pull.headRef === headRef)) {"
const base = "repository.mergeBase(repository.branches.get(baseRef) ?? \"\", headSha)"

export const plants: Plants = {
  port: "SourceHost",
  subject: "packages/testing/test/source/SourceHost.suites.ts",
  plants: plantsIn("packages/domain/memory/source/SourceHostMemory.ts", [
    ["refuses for the first repository alone", "repos.find((repo) => state.repositories.find(repo) === undefined)",
      "repos.slice(0, 1).find((repo) => state.repositories.find(repo) === undefined)"],
    ["refuses without advice", ", advice: \"Add it to MemoryRepositories.\" }", " }"],
    ["lists more than were asked for", names, "pageOfNames(state.repositories.names(), { ...query, limit: query.limit + 1 })"],
    ["lists in the order in which they were made", names, "state.repositories.names().slice(0, query.limit)"],
    ["looks for no part of the name", names, "pageOfNames(state.repositories.names(), { ...query, search: \"\" })"],
    ["lists names in lower case", names, `${names}.map((name) => name.toLowerCase())`],
    ["spells a repository as it was asked for", "({ defaultBranch, fullName }) => ({ fullName,",
      "({ defaultBranch }) => ({ fullName: repo,"],
    ["takes main for every default branch", "defaultBranch, fullName }) => ({ fullName, defaultBranch })",
      "fullName }) => ({ fullName, defaultBranch: \"main\" })"],
    ["gives a remote with a secret in its URL", "`file:///memory/${fullName}`", "`https://x:secret@memory.invalid/${fullName}`"],
    ["gives a remote of what is not there",
      "remote: (repo) => Effect.map(repositoryOf(state, repo), ({ fullName }) => ({ url: `file:///memory/${fullName}`",
      "remote: (repo) => Effect.map(Effect.void, () => ({ url: `file:///memory/${repo}`"],
    ["finds a closed pull request", isFound, "pull.headRef === headRef) ?? null"],
    ["finds a pull request by the beginning of its branch", isFound,
      isFound.replace("pull.headRef === headRef", "pull.headRef.startsWith(headRef)")],
    ["finds a branch in another case", isFound,
      isFound.replace("pull.headRef === headRef", "pull.headRef.toLowerCase() === headRef.toLowerCase()")],
    ["opens what is ready", "draft: true", "draft: false"],
    ["opens a second one of a branch", again, "if (false) {"],
    ["opens none of a branch that had one", again, "if (pulls.some((pull) => pull.headRef === headRef)) {"],
    ["opens one to a branch that is not there", "of [baseRef, headRef]", "of [headRef]"],
    ["says that a request which is wrong may be sent again", "detail, retryable: false }", "detail, retryable: true }"],
    ["gives a number again", "pulls.length + 1", "pulls.filter(({ state }) => state === \"open\").length + 1"],
    ["counts ids by repository", "const id = ++state.ids", "const id = pulls.length + 1"],
    ["gives all of a repository one page", "/pull/${number}`", "/pulls`"],
    ["counts what came to the base", base, "repository.branches.get(baseRef)"],
    ["counts files that are gone as none",
      "[...Object.keys(before), ...Object.keys(after)])].filter((path) => before[path] !== after[path])",
      "Object.keys(after))].filter((path) => before[path] !== after[path])"],
    ["does not move when it changed last", "{ ...pull, headSha, updatedAt: at,", "{ ...pull, headSha,"],
    ["counts what was pushed first", "updatedAt: at, ...counted(repository, pull.baseRef, headSha) }", "updatedAt: at }"],
    ["takes a merged one for closed", "state: \"closed\", merged, draft", "state: \"closed\", merged: false, draft"],
    ["takes one whose branch is gone for open", "if (merged || !repository.branches.has(pull.headRef))", "if (merged)"],
    ["takes one whose branch is gone for merged", "state: \"closed\", merged, draft", "state: \"closed\", merged: true, draft"]
  ])
}
