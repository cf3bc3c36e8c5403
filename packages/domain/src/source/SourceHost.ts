/** Port: where repositories and pull requests live. Checked by `testing/SourceHostContract`. */
import { Context, type DateTime, Effect, Layer, type Redacted, Schema } from "effect"
import { changedLines, MemoryRepositories, type MemoryRepository } from "./MemoryRepositories.ts"
import { noChecks, type PullRequest, type PullRequestDetails } from "./PullRequest.ts"
import type { RepoName } from "./RepoRef.ts"

/** The host does not have the repository, or does not let this installation use it. Retrying does not help. */
export class RepoNotAccessible extends Schema.TaggedError<RepoNotAccessible>()("RepoNotAccessible", {
  repo: Schema.String,
  /** What to do about it, a sentence for people. */
  advice: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return `repository ${this.repo} is not accessible${this.advice === undefined ? "" : `. ${this.advice}`}`
  }
}

/** The host failed or refused. `retryable`: nothing is known to be wrong with the request. */
export class SourceHostError extends Schema.TaggedError<SourceHostError>()("SourceHostError", {
  operation: Schema.String,
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** Seconds the host asked us to wait, when it did. */
  retryAfter: Schema.optionalKey(Schema.Int)
}) {
  override get message() {
    return `source host could not ${this.operation}: ${this.detail}`
  }
}

/** Where git fetches from or pushes to, for one operation. */
export interface Remote {
  /** Free of secrets. A `file:` URL or an absolute path on this machine for local repositories. */
  readonly url: string
  /** `Authorization` value for that URL; minted for this operation, never stored, never in an argument or a file. */
  readonly authorization: Redacted.Redacted | null
}

/** A repository that the host lets us see. */
export interface Repository {
  /** As the host spells it. */
  readonly fullName: RepoName
  readonly defaultBranch: string
}

/** Checked by `testing/SourceHostContract`. */
export class SourceHost extends Context.Service<SourceHost, {
  /** Short name that goes into ids of pull requests, e.g. `github.com` or `local`. */
  readonly name: string
  /**
   * Why sandboxes cannot start from one of the repositories, with advice; `null`: nothing is known against them. Says what
   * is known here without asking anybody, so that a request can wait for it: `repository` and `remote` may yet refuse.
   */
  refusal(repos: ReadonlyArray<RepoName>): Effect.Effect<RepoNotAccessible | null>
  repository(repo: RepoName): Effect.Effect<Repository, RepoNotAccessible | SourceHostError>
  /** Credentials limited to one repository and to what `access` needs. */
  remote(repo: RepoName, access: "read" | "write"): Effect.Effect<Remote, RepoNotAccessible | SourceHostError>
  /** The open pull request whose head is `headRef`, if there is one. Reads what the host holds now, not a cache. */
  findOpenPullRequest(repo: RepoName, headRef: string): Effect.Effect<PullRequest | null, RepoNotAccessible | SourceHostError>
  /** Opens a draft. Never retried blindly: look for an open one by head first. */
  openDraftPullRequest(repo: RepoName, draft: {
    readonly title: string
    readonly body: string
    readonly baseRef: string
    readonly headRef: string
    readonly headSha: string
    readonly at: DateTime.Utc
  }): Effect.Effect<PullRequest, RepoNotAccessible | SourceHostError>
  /** Tells the host that the branch was pushed to. Hosts that notice by themselves return the pull request as it is. */
  pullRequestPushed(repo: RepoName, number: number, push: { readonly headSha: string; readonly at: DateTime.Utc }): Effect.Effect<
    PullRequest,
    RepoNotAccessible | SourceHostError
  >
  /** Everything the interface shows of a pull request, as the host knows it now. */
  pullRequestDetails(repo: RepoName, number: number): Effect.Effect<PullRequestDetails, RepoNotAccessible | SourceHostError>
}>()("@slipway/domain/SourceHost") {
  /** Process-local, on `MemoryRepositories`; for tests and for embedding. Nobody comments and nothing is checked there. */
  static readonly layerMemory = Layer.effect(
    SourceHost,
    Effect.map(MemoryRepositories, (repositories) => {
      const kept = new Map<MemoryRepository, Array<PullRequest>>()
      let ids = 0

      const pullsOf = (repository: MemoryRepository) => {
        const pulls = kept.get(repository) ?? []
        kept.set(repository, pulls)
        return pulls
      }
      const repositoryOf = (repo: RepoName) => {
        const repository = repositories.find(repo)
        return repository === undefined ? Effect.fail(new RepoNotAccessible({ repo })) : Effect.succeed(repository)
      }
      const refused = (operation: string, detail: string) => new SourceHostError({ operation, detail, retryable: false })

      /** What the branch changed since it left its base. */
      const counted = (repository: MemoryRepository, baseRef: string, headSha: string) => {
        const base = repository.mergeBase(repository.branches.get(baseRef) ?? "", headSha)
        const [before, after] = [repository.filesOf(base), repository.filesOf(headSha)]
        const changed = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((path) => before[path] !== after[path])
        const lines = changed.map((path) => changedLines(before[path] ?? "", after[path] ?? ""))
        return {
          additions: lines.reduce((sum, { additions }) => sum + additions, 0),
          deletions: lines.reduce((sum, { deletions }) => sum + deletions, 0),
          changedFiles: changed.length
        }
      }

      /** Closes what was merged, or lost its branch, since somebody last looked. */
      const look = (repository: MemoryRepository) => {
        const pulls = pullsOf(repository)
        for (const [i, pull] of pulls.entries()) {
          if (pull.state === "closed") continue
          const merged = repository.history(repository.branches.get(pull.baseRef) ?? "").includes(pull.headSha)
          if (merged || !repository.branches.has(pull.headRef)) {
            pulls[i] = { ...pull, state: "closed", merged, draft: pull.draft && !merged }
          }
        }
        return pulls
      }
      const numbered = (repository: MemoryRepository, number: number) => {
        const pull = look(repository).find((pull) => pull.number === number)
        return pull === undefined ? Effect.fail(refused("find the pull request", "there is no such pull request")) : Effect.succeed(pull)
      }

      return SourceHost.of({
        name: "memory",
        refusal: (repos) =>
          Effect.sync(() => {
            const repo = repos.find((repo) => repositories.find(repo) === undefined)
            return repo === undefined ? null : new RepoNotAccessible({ repo, advice: "Add it to MemoryRepositories." })
          }),
        repository: (repo) => Effect.map(repositoryOf(repo), ({ defaultBranch, fullName }) => ({ fullName, defaultBranch })),
        remote: (repo) => Effect.map(repositoryOf(repo), ({ fullName }) => ({ url: `file:///memory/${fullName}`, authorization: null })),
        findOpenPullRequest: (repo, headRef) =>
          Effect.map(
            repositoryOf(repo),
            (repository) => look(repository).find((pull) => pull.state === "open" && pull.headRef === headRef) ?? null
          ),
        openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")(function*(repo, { at, baseRef, headRef, headSha, title }) {
          const repository = yield* repositoryOf(repo)
          const operation = "open the pull request"
          for (const ref of [baseRef, headRef]) {
            if (!repository.branches.has(ref)) return yield* refused(operation, `there is no branch ${ref}`)
          }
          const pulls = look(repository)
          if (pulls.some((pull) => pull.state === "open" && pull.headRef === headRef)) {
            return yield* refused(operation, `${headRef} has an open pull request`)
          }
          const number = pulls.length + 1
          const id = ++ids
          const pull: PullRequest = {
            id,
            nodeId: `PR_${id}`,
            number,
            url: `https://memory.invalid/${repository.fullName}/pull/${number}`,
            title,
            state: "open",
            draft: true,
            merged: false,
            baseRef,
            headRef,
            headSha,
            createdAt: at,
            updatedAt: at,
            ...counted(repository, baseRef, headSha)
          }
          pulls.push(pull)
          return pull
        }),
        pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")(function*(repo, number, { at, headSha }) {
          const repository = yield* repositoryOf(repo)
          const pull = yield* numbered(repository, number)
          if (pull.state === "closed") return pull
          const pushed = { ...pull, headSha, updatedAt: at, ...counted(repository, pull.baseRef, headSha) }
          pullsOf(repository)[number - 1] = pushed
          return pushed
        }),
        pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")(function*(repo, number) {
          const pullRequest = yield* numbered(yield* repositoryOf(repo), number)
          return { pullRequest, checks: noChecks, comments: [], pending: false }
        })
      })
    })
  )
}
