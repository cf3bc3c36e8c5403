/** Shows a grant's pull request to people, and merges or closes it where the source host has no pages for that. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Principal } from "../../access/schema/Principal.ts"
import { SandboxNotFound, SandboxStore } from "../../sandbox/ports/SandboxStore.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { Sandboxes } from "../../sandbox/usecases/Sandboxes.ts"
import { PullRequests } from "../../source/ports/PullRequests.ts"
import { SourceHost } from "../../source/ports/SourceHost.ts"
import type { PullRequestDetails } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { CommitAuthor } from "../rules/Publication.ts"
import { HandleNews } from "./HandleNews.ts"
import { Publishing } from "./Publishing.ts"

/** A pull request of the caller's grant. */
export interface Found extends PullRequestDetails {
  readonly repo: RepoName
  /** The newest sandbox of the grant that publishes to its branch. */
  readonly sandbox: Sandbox
}

/** `null`: the source host has its own pages. `SandboxNotFound`: no sandbox of the grant publishes to its branch. */
export const make = Effect.gen(function*() {
  const pulls = yield* PullRequests
  if (pulls === null) return null
  const sandboxes = yield* Sandboxes
  const store = yield* SandboxStore
  const host = yield* SourceHost
  const publishing = yield* Publishing
  const news = Option.getOrNull(yield* Effect.serviceOption(HandleNews))
  const author = yield* CommitAuthor

  const find = Effect.fn("Review.find")(function*(by: Principal, repo: RepoName, number: number) {
    const details = yield* host.pullRequestDetails(repo, number)
    const publishers = yield* store.publishers(repo, details.pullRequest.headRef)
    const newest = publishers.find(({ grantId }) => grantId === by.grantId)
    if (newest === undefined) return yield* new SandboxNotFound()
    const found: Found = { ...details, repo, sandbox: yield* sandboxes.get(by, newest.id) }
    return found
  })

  /** Tells everything that follows the pull request of the change, so that people see it at once instead of at the next poll. */
  const told = ({ pullRequest: { headRef, number }, repo }: Found) => <A>(changed: A) =>
    (news === null ? publishing.follow(repo, headRef) : news.sent({ _tag: "Pull", repo, branch: headRef, number })).pipe(
      Effect.catch((error) =>
        Effect.logWarning("the sandbox's events do not tell yet what became of its pull request", { reason: error.message })
      ),
      Effect.as(changed)
    )

  return {
    /** Finds the pull request with its present state, checks and comments. */
    find,
    diff: ({ pullRequest: { number }, repo }: Found) => pulls.diff(repo, number),
    content: ({ pullRequest: { number }, repo }: Found) => pulls.content(repo, number),
    /** `headSha`: the commit that the person reviewed. */
    merge: (found: Found, headSha: string) =>
      Effect.flatMap(pulls.merge(found.repo, found.pullRequest.number, { headSha, author }), told(found)),
    /** Ends its draft. Safe to repeat. */
    ready: (found: Found) => Effect.flatMap(host.readyPullRequest(found.repo, found.pullRequest.number), told(found)),
    close: (found: Found) => Effect.flatMap(pulls.close(found.repo, found.pullRequest.number), told(found))
  }
})
