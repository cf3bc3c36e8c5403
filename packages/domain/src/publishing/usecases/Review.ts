/** Shows a grant's pull request to people, and merges or closes it where the source host has no pages for that. */
import * as Effect from "effect/Effect"
import type { Principal } from "../../access/schema/Principal.ts"
import { SandboxNotFound } from "../../sandbox/ports/SandboxStore.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { Sandboxes } from "../../sandbox/usecases/Sandboxes.ts"
import { type Ended, PullRequests } from "../../source/ports/PullRequests.ts"
import { SourceHost } from "../../source/ports/SourceHost.ts"
import { sandboxOf } from "../../source/schema/PullRequest.ts"
import type { PullRequestDetails } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { CommitAuthor } from "../rules/Publication.ts"
import { Publishing } from "./Publishing.ts"

/** A pull request of the caller's grant. */
export interface Found extends PullRequestDetails {
  readonly repo: RepoName
  /** The sandbox that publishes to its branch. */
  readonly sandbox: Sandbox
}

/** `null`: the source host has its own pages. `SandboxNotFound`: no sandbox of the grant publishes to its branch. */
export const make = Effect.gen(function*() {
  const pulls = yield* PullRequests
  if (pulls === null) return null
  const sandboxes = yield* Sandboxes
  const host = yield* SourceHost
  const publishing = yield* Publishing
  const author = yield* CommitAuthor

  const find = Effect.fn("Review.find")(function*(by: Principal, repo: RepoName, number: number) {
    const details = yield* host.pullRequestDetails(repo, number)
    const id = sandboxOf(details.pullRequest.headRef)
    if (id === undefined) return yield* new SandboxNotFound()
    const found: Found = { ...details, repo, sandbox: yield* sandboxes.get(by, id) }
    return found
  })

  /** Records the end, so that the sandbox's readers see it at once instead of at their next poll. */
  const told = ({ pullRequest: { headRef }, repo }: Found) => (ended: Ended) =>
    publishing.follow(repo, headRef).pipe(
      Effect.catch((error) =>
        Effect.logWarning("the sandbox's events do not tell yet what became of its pull request", { reason: error.message })
      ),
      Effect.as(ended)
    )

  return {
    /** Finds the pull request with its present state, checks and comments. */
    find,
    diff: ({ pullRequest: { number }, repo }: Found) => pulls.diff(repo, number),
    content: ({ pullRequest: { number }, repo }: Found) => pulls.content(repo, number),
    /** `headSha`: the commit that the person reviewed. */
    merge: (found: Found, headSha: string) =>
      Effect.flatMap(pulls.merge(found.repo, found.pullRequest.number, { headSha, author }), told(found)),
    close: (found: Found) => Effect.flatMap(pulls.close(found.repo, found.pullRequest.number), told(found))
  }
})
