/** Selects the repository of a request. */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { Sandbox } from "./Sandbox.ts"

/** The sandbox has several repositories and the request names none. */
export class RepoRequired extends Data.TaggedError("RepoRequired") {
  override get message() {
    return "The sandbox has several repositories: name one with repo."
  }
}
/** The repository is not one of the sandbox's. */
export class RepoNotFound extends Data.TaggedError("RepoNotFound") {
  override get message() {
    return "The sandbox has no such repository."
  }
}

/** The repository of a request, spelled as in the sandbox. */
export const selectRepo = (
  sandbox: Sandbox,
  repo: RepoName | undefined
): Result.Result<RepoName, RepoRequired | RepoNotFound> => {
  const [first, second] = sandbox.repos
  if (repo === undefined) {
    return first === undefined || second !== undefined ? Result.fail(new RepoRequired()) : Result.succeed(first.fullName)
  }
  const found = sandbox.repos.find(({ fullName }) => sameRepo(fullName, repo))
  return found === undefined ? Result.fail(new RepoNotFound()) : Result.succeed(found.fullName)
}
