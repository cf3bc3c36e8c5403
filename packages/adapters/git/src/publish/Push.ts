/** Pushes commits of a working tree, each on top of what was pushed before: nothing on the other side is ever replaced. */
import { BranchMoved, PushFailed, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import { isThere, namesIn, textIn } from "@slipway/machine/node/IsThere"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { mkdir, readdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type GitFailed, line } from "../Git.ts"
import { explain, type Explanation, knownTips, transport, unsupported } from "../Remotes.ts"
import { replaceFile } from "../RepositoryLayout.ts"
import { type HostRepository, run } from "../tree/HostRepository.ts"

const TIMEOUT = "2 minutes"

/** A file for each commit that we ever tried to push to the branch: a push may arrive without us living to see it. */
const attempts = (repository: HostRepository, headRef: string): string =>
  join(repository.gitDir, "pushed", createHash("sha256").update(headRef).digest("hex"))

/** As many attempts as anybody may still find on the other side, of as many branches as anybody publishes to. */
const KEPT = { attempts: 1_000, branches: 100 }

/** The attempts to push that `push` compares with the remote. */
export interface Memory {
  readonly published: string | null
  /** Every attempt to push, by the SHA-256 of the branch. */
  readonly pushed: ReadonlyArray<{ readonly branch: string; readonly commits: ReadonlyArray<string> }>
}

/** The memory of the repository, for the place where the tree goes on. */
export const remembered = (repository: HostRepository): Effect.Effect<Memory> =>
  Effect.promise(async () => {
    const folder = join(repository.gitDir, "pushed")
    const branches = (await namesIn(folder)).slice(0, KEPT.branches)
    return {
      published: await saved(repository),
      pushed: await Promise.all(branches.map(async (branch) => ({ branch, commits: await newest(join(folder, branch)) })))
    }
  })

/** A merge with the base has any number of its commits. A checkpoint need not have them: the remote does. */
const saved = async (repository: HostRepository): Promise<string | null> => {
  const published = await textIn(publishedFile(repository), null)
  return published === await textIn(mergedFile(repository), "") ? null : published
}

const newest = async (folder: string): Promise<ReadonlyArray<string>> => {
  const names = await readdir(folder)
  if (names.length <= KEPT.attempts) return names.sort()
  const dated = await Promise.all(names.map(async (name) => ({ name, at: (await stat(join(folder, name))).mtimeMs })))
  return dated.sort((a, b) => b.at - a.at).slice(0, KEPT.attempts).map(({ name }) => name)
}

/** The repository goes by what another one remembered. */
export const remember = (repository: Pick<HostRepository, "gitDir">, { published, pushed }: Memory): Effect.Effect<void> =>
  Effect.promise(async () => {
    for (const { branch, commits } of pushed) {
      const folder = join(repository.gitDir, "pushed", branch)
      await mkdir(folder, { recursive: true })
      for (const sha of commits) await writeFile(join(folder, sha), "")
    }
    if (published !== null) await writeFile(publishedFile(repository), published)
  })

const publishedFile = (repository: Pick<HostRepository, "gitDir">): string => join(repository.gitDir, "published")

/** The commit that was pushed last of those that were merged with the base. */
const mergedFile = (repository: Pick<HostRepository, "gitDir">): string => join(repository.gitDir, "published-merged")

/** Joins the memory of `other`: no attempt is ever forgotten. */
export const joined = (memory: Memory, other: Memory): Memory => {
  const branches = new Set([...memory.pushed, ...other.pushed].map(({ branch }) => branch))
  const commitsOf = ({ pushed }: Memory, name: string) => pushed.find(({ branch }) => branch === name)?.commits ?? []
  return {
    published: memory.published,
    pushed: Array.from(branches, (branch) => ({ branch, commits: [...new Set([memory, other].flatMap((one) => commitsOf(one, branch)))] }))
  }
}

/** The commit that was pushed last, if any. */
export const published = (repository: HostRepository): Effect.Effect<string | undefined> =>
  Effect.promise(() => textIn(publishedFile(repository), undefined))

type Failing = Pick<HostRepository, "gitDir" | "repo">

export const refuse = ({ repo }: Pick<HostRepository, "repo">, explanation: Explanation) => new PushFailed({ repo, ...explanation })

/** In words for people; the log has git's. */
export const failed = (repository: Failing) => (failure: GitFailed) =>
  Effect.andThen(
    Effect.logWarning("git could not push", { repo: repository.repo, failure: failure.message }),
    refuse(repository, explain(failure))
  )

/** The commits that branches of the remote point to, by their names; those that are not there are left out. */
export const tipsOf = Effect.fnUntraced(function*(repository: Failing, remote: Remote, branches: ReadonlyArray<string>) {
  const via = transport(remote)
  if (via === undefined) return yield* refuse(repository, unsupported)
  const names = branches.filter((branch) => isRefName(branch) && !isCommitId(branch))
  const known = yield* knownTips(via, names)
  if (known !== undefined) return known
  const refs = names.map((name) => `refs/heads/${name}`)
  const advertised = yield* run(repository, ["ls-remote", "--heads", ...via.fetchArguments, "--end-of-options", via.url, ...refs], {
    ...via.options,
    timeout: TIMEOUT
  }).pipe(Effect.catchTag("GitFailed", failed(repository)))
  const tips = new Map<string, string>()
  for (const entry of line(advertised).split("\n")) {
    const [tip = "", ref = ""] = entry.split("\t")
    // The request is a pattern for the end of a name.
    if (refs.includes(ref)) tips.set(ref.slice("refs/heads/".length), tip)
  }
  return tips
})

/** Whether we ever tried to push the commit to the branch. */
export const isTried = (repository: HostRepository, headRef: string, sha: string): Effect.Effect<boolean> =>
  Effect.promise(() => isThere(join(attempts(repository, headRef), sha)))

/** Whether `descendant` goes on from `ancestor`, or is it. What is not there goes on from nothing. */
export const goesOnFrom = (repository: HostRepository, descendant: string, ancestor: string): Effect.Effect<boolean> =>
  Effect.match(run(repository, ["merge-base", "--is-ancestor", ancestor, descendant]), {
    onSuccess: () => true,
    onFailure: () => false
  })

export const push = Effect.fn("Push.push")(function*(
  repository: HostRepository,
  { expected = null, headRef, isMerged = false, remote, sha }: Parameters<WorkingTrees["Service"]["push"]>[1]
) {
  const via = transport(remote)
  if (via === undefined) return yield* refuse(repository, unsupported)
  if (!isCommitId(sha) || !isRefName(headRef)) {
    return yield* refuse(repository, { detail: "The branch or the commit has no valid name.", retryable: false })
  }
  const base = repository.baseRef === null ? [] : [repository.baseRef]
  const look = tipsOf(repository, remote, [headRef, ...base])
  const moved = new BranchMoved({ repo: repository.repo, branch: headRef })
  const tips = yield* look
  const current = tips.get(headRef)
  if (current !== sha) {
    if (current !== (expected ?? undefined)) return yield* moved
    // With this no push ever takes a commit away: the other side has to be at what the new commit goes on from.
    if (expected !== null && !(yield* goesOnFrom(repository, sha, expected))) {
      return yield* refuse(repository, { detail: "The commit does not go on from what was published.", retryable: false })
    }
    const tried = attempts(repository, headRef)
    yield* Effect.promise(async () => {
      await mkdir(tried, { recursive: true })
      await writeFile(join(tried, sha), "", { flush: true })
    })
    // Else what is sent is all that no branch there points to: the whole history, once the base has moved on.
    const negotiates = expected === null && !base.some((name) => tips.get(name) === repository.baseSha)
    const ref = `refs/heads/${headRef}`
    const failure = yield* run(repository, [
      "push",
      "--quiet",
      "--no-verify",
      // Names the commit that is expected there. What is pushed goes on from it, so nothing is forced.
      `--force-with-lease=${ref}:${expected ?? ""}`,
      ...via.pushArguments(),
      "--end-of-options",
      via.url,
      `${sha}:${ref}`
    ], {
      ...via.options,
      config: [...via.options.config ?? [], `push.negotiate=${negotiates}`],
      timeout: TIMEOUT
    }).pipe(Effect.match({ onSuccess: () => null, onFailure: (failure) => failure }))
    if (failure !== null) {
      // The push may have arrived without an answer, or another push was faster.
      const now = (yield* Effect.catchTag(look, "PushFailed", () => failed(repository)(failure))).get(headRef)
      if (now !== sha) return yield* now === current ? failed(repository)(failure) : moved
    }
  }
  yield* Effect.promise(async () => {
    const aside = join(repository.gitDir, "scratch")
    if (isMerged) await replaceFile(mergedFile(repository), sha, aside)
    await replaceFile(publishedFile(repository), sha, aside)
  })
})
