/** `SourceHost` in memory: for tests and for embedding without a database. State dies with the layer. */
import { Effect, Layer } from "effect"
import { noChecks, type PullRequest } from "../src/source/PullRequest.ts"
import type { RepoName } from "../src/source/RepoRef.ts"
import { RepoNotAccessible, SourceHostError, SourceHost } from "../src/source/SourceHost.ts"
import { changedLines, MemoryRepositories, type MemoryRepository } from "./MemoryRepositories.ts"

/** Process-local, on `MemoryRepositories`; for tests and for embedding. Nobody comments and nothing is checked there. */
export const layer = Layer.effect(
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
