/** Finds the branch that a creation continues, and whether it may (docs/decisions/24). The source host is asked once, with a time limit. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AccessStore } from "../../access/ports/AccessStore.ts"
import { RepoNotAccessible, type SourceHost } from "../../source/ports/SourceHost.ts"
import { type BranchRule, DEFAULT_BRANCH_RULES } from "../../source/schema/BranchRules.ts"
import type { PullRequest } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { branchProblem, PullRequestNotWritable, pullRequestProblem } from "../../source/schema/WritableBranch.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Continues } from "../rules/Sandbox.ts"
import { continuedRepo, type CreateSandbox } from "./CreateSandbox.ts"

/** How long a creation waits for the source host. */
export const HOST_WAIT = Duration.seconds(10)

/** The source host could not be read now, so nothing was created. A retry helps. */
export class SourceUnreadable extends Schema.TaggedError<SourceUnreadable>()("SourceUnreadable", {
  /** A sentence for people. */
  detail: Schema.String,
  /** Seconds to wait, at least 1. */
  retryAfter: Schema.Int
}) {
  override get message() {
    return this.detail
  }
}

/** The branches that a grant may push to. */
export type BranchRulesOf = (grantId: string) => Effect.Effect<ReadonlyArray<BranchRule>, StoreUnavailable>

/** The rules of this store. Without one each grant may push to the branches of sandboxes alone. */
export const branchRulesOf = (access: Option.Option<AccessStore["Service"]>): BranchRulesOf => (grantId) =>
  Option.isNone(access) ? Effect.succeed(DEFAULT_BRANCH_RULES) : access.value.branchRules(grantId)

/** Reads the pull request or branch, and what is known of it. */
const read = Effect.fnUntraced(
  function*(host: SourceHost["Service"], repo: RepoName, asked: NonNullable<CreateSandbox["continue"]>) {
    const number = asked.pullRequest
    const refuse = (reason: string) => new PullRequestNotWritable({ reason })
    const found = number === undefined ? null : yield* host.pullRequestSource(repo, number)
    const problem = number === undefined ? null : pullRequestProblem(repo, number, found)
    if (problem !== null) return yield* refuse(problem)
    const branch = found?.pullRequest.headRef ?? asked.branch ?? ""
    const [{ defaultBranch }, state, open] = yield* Effect.all([
      host.repository(repo),
      host.branch(repo, branch),
      found === null ? host.findOpenPullRequest(repo, branch) : Effect.succeed(found.pullRequest)
    ], { concurrency: 3 })
    return { branch, defaultBranch, state, open }
  },
  (self, _host, repo) =>
    self.pipe(
      Effect.timeoutOrElse({
        duration: HOST_WAIT,
        orElse: () => new SourceUnreadable({ detail: "The source host did not answer in time. Try again.", retryAfter: 5 })
      }),
      Effect.catchTag("SourceHostError", ({ message, retryAfter }) =>
        Effect.fail(new SourceUnreadable({ detail: `${message} Try again.`, retryAfter: Math.max(retryAfter ?? 5, 1) }))),
      // A hidden repository is reported like a missing one, without another detail.
      Effect.catchTag("RepoNotAccessible", () =>
        Effect.fail(new RepoNotAccessible({ repo })))
    )
)

const continuesOf = (repo: RepoName, branch: string, headSha: string, open: PullRequest | null): Continues => ({
  repo,
  branch,
  pullRequest: open?.number ?? null,
  headSha,
  ...(open === null ? {} : { details: open })
})

/** The branch of `continue`; `null`: the request continues none. */
export const resolve = Effect.fn("Continuation.resolve")(function*(
  { branchRules, source }: { readonly source: Option.Option<SourceHost["Service"]>; readonly branchRules: BranchRulesOf },
  grantId: string,
  request: CreateSandbox
) {
  const asked = request.continue
  if (asked === undefined) return null
  const repo = continuedRepo(request)
  // The schema of a creation refuses it.
  if (repo === undefined) return yield* Effect.die("a creation continues a repository that it does not have")
  if (Option.isNone(source)) return yield* new PullRequestNotWritable({ reason: "The service has no source host, so it has no branches." })
  const { fullName } = repo
  const rules = yield* branchRules(grantId)
  const { branch, defaultBranch, open, state } = yield* read(source.value, fullName, asked)
  const problem = branchProblem({ repo: fullName, branch, defaultBranch, state, rules })
  if (problem !== null || state === null) return yield* new PullRequestNotWritable({ reason: problem ?? "There is no such branch." })
  return continuesOf(fullName, branch, state.headSha, open)
})
