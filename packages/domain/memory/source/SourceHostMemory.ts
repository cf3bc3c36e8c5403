/** `SourceHost` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PullRequestFeedback } from "../../src/source/ports/PullRequestFeedback.ts"
import {
  type Ended,
  MAX_COMMIT_TITLE,
  MAX_COMMITS,
  type PullRequestCommit,
  PullRequestRefused,
  PullRequests
} from "../../src/source/ports/PullRequests.ts"
import {
  MAX_OPEN_PULLS,
  openPullOf,
  pageOfNames,
  RepoNotAccessible,
  SourceHostError,
  SourceHost
} from "../../src/source/ports/SourceHost.ts"
import { noChecks, type PullRequest } from "../../src/source/schema/PullRequest.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"
import { nameIn } from "../../src/source/schema/SubmoduleAddress.ts"
import { patch } from "../files/MemoryPatch.ts"
import { changedLines, MemoryRepositories, type MemoryRepository, readNote } from "../files/MemoryRepositories.ts"
import { feedback, make as makeFeedback, MemoryFeedback, toComment } from "./PullRequestFeedbackMemory.ts"

/** The state of the layer: pull requests of each repository, in the order of their numbers. */
interface Pulls {
  readonly repositories: MemoryRepositories["Service"]
  readonly kept: Map<MemoryRepository, Array<PullRequest>>
  /** Descriptions by the ids of pull requests. */
  readonly descriptions: Map<number, string>
  readonly feedback: MemoryFeedback["Service"]
  /** The newest id. */
  ids: number
}

const pullsOf = ({ kept }: Pulls, repository: MemoryRepository): Array<PullRequest> => {
  const pulls = kept.get(repository) ?? []
  kept.set(repository, pulls)
  return pulls
}

const repositoryOf = ({ repositories }: Pulls, repo: RepoName) => {
  const repository = repositories.find(repo)
  return repository === undefined ? Effect.fail(new RepoNotAccessible({ repo })) : Effect.succeed(repository)
}

const refused = (operation: string, detail: string) => new SourceHostError({ operation, detail, retryable: false })

/** The changes of the branch since it left its base. */
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

/** Closes pull requests that were merged, or whose branch was deleted, since the last look. */
const look = (state: Pulls, repository: MemoryRepository) => {
  const pulls = pullsOf(state, repository)
  for (const [i, pull] of pulls.entries()) {
    if (pull.state === "closed") continue
    const merged = repository.history(repository.branches.get(pull.baseRef) ?? "").includes(pull.headSha)
    if (merged || !repository.branches.has(pull.headRef)) {
      pulls[i] = { ...pull, state: "closed", merged, draft: pull.draft && !merged }
    }
  }
  return pulls
}

const numbered = (state: Pulls, repository: MemoryRepository, number: number) => {
  const pull = look(state, repository).find((pull) => pull.number === number)
  return pull === undefined ? Effect.fail(refused("find the pull request", "there is no such pull request")) : Effect.succeed(pull)
}

const refusal = (repo: RepoName, number: number) => (reason: PullRequestRefused["reason"], detail: string) =>
  new PullRequestRefused({ repo, number, reason, detail })

const found = Effect.fnUntraced(
  function*(state: Pulls, repo: RepoName, number: number) {
    const repository = yield* repositoryOf(state, repo)
    return { repository, pull: yield* numbered(state, repository, number), refuse: refusal(repository.fullName, number) }
  },
  (self, _, repo, number) =>
    self.pipe(
      Effect.catchTag("RepoNotAccessible", () => refusal(repo, number)("unknown repository", "There is no such repository.")),
      Effect.catchTag("SourceHostError", () => refusal(repo, number)("unknown number", "There is no such pull request."))
    )
)

const contentOf = (repository: MemoryRepository, sha: string | undefined) => ({
  files: new Map(Object.entries(repository.filesOf(sha))),
  executables: repository.executablesOf(sha)
})

/** Files that both changed differently since their common commit. */
const conflicts = (repository: MemoryRepository, one: string, other: string) => {
  const before = repository.filesOf(repository.mergeBase(one, other))
  const [ours, theirs] = [repository.filesOf(one), repository.filesOf(other)]
  return [...new Set([...Object.keys(before), ...Object.keys(ours), ...Object.keys(theirs)])].filter((path) =>
    ours[path] !== before[path] && theirs[path] !== before[path] && ours[path] !== theirs[path]
  )
}

const ended = Effect.fnUntraced(function*(state: Pulls, repository: MemoryRepository, number: number) {
  const updatedAt = yield* DateTime.now
  const pull = look(state, repository)[number - 1]
  if (pull === undefined) return yield* refusal(repository.fullName, number)("unknown number", "There is no such pull request.")
  const pullRequest = { ...pull, updatedAt }
  pullsOf(state, repository)[number - 1] = pullRequest
  const done: Ended = { pullRequest, changed: true }
  return done
})

/** The pull request, and the newest commit of its base without it. */
const compared = Effect.fnUntraced(function*(state: Pulls, repo: RepoName, number: number) {
  const { pull, refuse, repository } = yield* found(state, repo, number)
  const { baseRef, headSha, merged } = pull
  const base = repository.branches.get(baseRef)
  if (base === undefined) return yield* refuse("no base", `There is no branch ${baseRef}.`)
  const before = merged
    ? repository.history(base).flatMap((sha) => {
      const parents = repository.commits.get(sha)?.parents ?? []
      return parents.includes(headSha) && parents.length > 1 ? parents.slice(0, 1) : []
    }).at(0)
    : base
  if (before === undefined) return yield* refuse("merged without a merge commit", `${baseRef} was moved on to it.`)
  return { before, pull, refuse, repository }
})

/** The first characters of the first line. */
const cut = (text: string): string => (text.split("\n", 1)[0] ?? "").slice(0, MAX_COMMIT_TITLE)

const pullRequests = (state: Pulls): NonNullable<typeof PullRequests.Service> => ({
  diff: Effect.fn("PullRequests.diff")(function*(repo, number) {
    const { before, pull: { headSha }, refuse, repository } = yield* compared(state, repo, number)
    const from = repository.mergeBase(before, headSha)
    if (from === undefined) return yield* refuse("nothing in common", "The branches have no commit in common.")
    return new TextEncoder().encode(patch(contentOf(repository, from), contentOf(repository, headSha)))
  }),
  content: Effect.fn("PullRequests.content")(function*(repo, number) {
    const { before, pull: { headSha, id }, repository } = yield* compared(state, repo, number)
    const others = new Set(repository.history(before))
    const own = repository.history(headSha).filter((sha) => !others.has(sha))
    const commits = own.slice(0, MAX_COMMITS).toReversed().map((sha): PullRequestCommit => {
      const { author, message, seconds } = readNote(repository.commits.get(sha) ?? { parents: [], files: {} })
      return { sha, title: cut(message), author: cut(author.name), at: DateTime.makeUnsafe(seconds * 1_000) }
    })
    return { description: state.descriptions.get(id) ?? "", commits, commitCount: own.length }
  }),
  merge: Effect.fn("PullRequests.merge")(function*(repo, number, { headSha }) {
    const { pull, refuse, repository } = yield* found(state, repo, number)
    const { baseRef, headRef } = pull
    if (pull.merged) return { pullRequest: pull, changed: false }
    if (pull.state === "closed") return yield* refuse("closed", "It was closed without being merged.")
    if (pull.headSha !== headSha) return yield* refuse("outdated", `${headRef} was pushed to since it was looked at.`)
    const base = repository.branches.get(baseRef)
    if (base === undefined) return yield* refuse("no base", `There is no branch ${baseRef} to merge into.`)
    if (repository.mergeBase(base, headSha) === undefined) {
      return yield* refuse("nothing in common", "The branches have no commit in common.")
    }
    if (conflicts(repository, base, headSha).length > 0) return yield* refuse("conflict", `It conflicts with ${baseRef}.`)
    repository.merge(headRef, baseRef)
    return yield* ended(state, repository, number)
  }),
  review: Effect.fn("PullRequests.review")(function*(repo, number, { at, author, comments, key, text }) {
    const { pull, refuse } = yield* found(state, repo, number)
    if (pull.state === "closed") return yield* refuse(pull.merged ? "merged" : "closed", "It is closed.")
    const items = state.feedback.items(pull)
    const all = [...(text.trim() === "" ? [] : [{ path: null, line: null, text }]), ...comments]
    for (const [i, { line, path, text: body }] of all.entries()) {
      const id = `review:${key}/${i}`
      if (items.some((item) => item.id === id)) continue
      const url = `${pull.url}#${state.feedback.nextId()}`
      const kind = path === null ? "review" as const : "review_comment" as const
      items.push({ id, kind, author: { ...author, isBot: false }, body, path, line, url, at, updatedAt: at })
    }
  }),
  close: Effect.fn("PullRequests.close")(function*(repo, number) {
    const { pull, refuse, repository } = yield* found(state, repo, number)
    if (pull.merged) return yield* refuse("merged", "It was merged, which cannot be taken back by closing it.")
    if (pull.state === "closed") return { pullRequest: pull, changed: false }
    pullsOf(state, repository)[number - 1] = { ...pull, state: "closed" }
    return yield* ended(state, repository, number)
  })
})

/** The beginning of addresses of this host. */
const ADDRESS = "file:///memory/"

const sourceHost = (state: Pulls): SourceHost["Service"] => ({
  names: ["memory"],
  nameOf: () => Effect.succeed("memory"),
  refusal: (repos) =>
    Effect.sync(() => {
      const repo = repos.find((repo) => state.repositories.find(repo) === undefined)
      return repo === undefined ? null : new RepoNotAccessible({ repo, advice: "Add it to MemoryRepositories." })
    }),
  repositories: (query) => Effect.sync(() => pageOfNames(state.repositories.names(), query)),
  repository: (repo) => Effect.map(repositoryOf(state, repo), ({ defaultBranch, fullName }) => ({ fullName, defaultBranch })),
  repositoryAt: (address) =>
    Effect.sync(() => {
      const name = address.startsWith(ADDRESS) ? nameIn(address.slice(ADDRESS.length)) : null
      return name === null ? null : state.repositories.find(name)?.fullName ?? null
    }),
  mayWrite: (repo) => Effect.map(repositoryOf(state, repo), () => true),
  remote: (repo) => Effect.map(repositoryOf(state, repo), ({ fullName }) => ({ url: `file:///memory/${fullName}`, authorization: null })),
  branch: (repo, name) =>
    Effect.map(repositoryOf(state, repo), ({ branches, protectedBranches }) => {
      const headSha = branches.get(name)
      return headSha === undefined ? null : { headSha, isProtected: protectedBranches.has(name) }
    }),
  pullRequestSource: (repo, number) =>
    Effect.map(repositoryOf(state, repo), (repository) => {
      const pullRequest = look(state, repository).find((pull) => pull.number === number)
      return pullRequest === undefined ? null : { pullRequest, headRepo: repository.fullName }
    }),
  openPullRequests: (repo) =>
    Effect.map(
      repositoryOf(state, repo),
      (repository) => look(state, repository).filter((pull) => pull.state === "open").toReversed().slice(0, MAX_OPEN_PULLS).map(openPullOf)
    ),
  findOpenPullRequest: (repo, headRef) =>
    Effect.map(
      repositoryOf(state, repo),
      (repository) => look(state, repository).find((pull) => pull.state === "open" && pull.headRef === headRef) ?? null
    ),
  openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")(function*(repo, { at, baseRef, body, headRef, headSha, title }) {
    const repository = yield* repositoryOf(state, repo)
    const operation = "open the pull request"
    for (const ref of [baseRef, headRef]) {
      if (!repository.branches.has(ref)) return yield* refused(operation, `there is no branch ${ref}`)
    }
    const pulls = look(state, repository)
    if (pulls.some((pull) => pull.state === "open" && pull.headRef === headRef)) {
      return yield* refused(operation, `${headRef} has an open pull request`)
    }
    const number = pulls.length + 1
    const id = ++state.ids
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
    state.descriptions.set(id, body)
    return pull
  }),
  pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")(function*(repo, number, { at, headSha }) {
    const repository = yield* repositoryOf(state, repo)
    const pull = yield* numbered(state, repository, number)
    if (pull.state === "closed") return pull
    const pushed = { ...pull, headSha, updatedAt: at, ...counted(repository, pull.baseRef, headSha) }
    pullsOf(state, repository)[number - 1] = pushed
    return pushed
  }),
  // It has neither labels nor reviewers.
  decoratePullRequest: Effect.fn("SourceHost.decoratePullRequest")(function*(repo, number, { labels, reviewers }) {
    yield* numbered(state, yield* repositoryOf(state, repo), number)
    return [...labels, ...reviewers]
  }),
  readyPullRequest: Effect.fn("SourceHost.readyPullRequest")(function*(repo, number) {
    const repository = yield* repositoryOf(state, repo)
    const pull = yield* numbered(state, repository, number)
    if (pull.state === "closed" || !pull.draft) return pull
    const ready = { ...pull, draft: false, updatedAt: yield* DateTime.now }
    pullsOf(state, repository)[number - 1] = ready
    return ready
  }),
  pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")(function*(repo, number) {
    const pullRequest = yield* numbered(state, yield* repositoryOf(state, repo), number)
    return { pullRequest, checks: noChecks, comments: state.feedback.items(pullRequest).map(toComment), pending: false }
  })
})

/** Process-local, on `MemoryRepositories`, with `PullRequests`; for tests and for embedding. `MemoryFeedback` adds comments and checks. */
export const layer = Layer.effectContext(
  Effect.map(MemoryRepositories, (repositories) => {
    const state: Pulls = { repositories, kept: new Map(), descriptions: new Map(), feedback: makeFeedback(), ids: 0 }
    const find = (repo: RepoName, number: number) =>
      Effect.flatMap(repositoryOf(state, repo), (repository) => numbered(state, repository, number))
    return Context.make(SourceHost, sourceHost(state)).pipe(
      Context.add(PullRequests, pullRequests(state)),
      Context.add(MemoryFeedback, state.feedback),
      Context.add(PullRequestFeedback, feedback(state.feedback, find))
    )
  })
)
