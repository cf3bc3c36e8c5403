/** Pushes commits of a working tree, replacing nothing on the other side that we did not push there ourselves. */
import { PushFailed } from "@slipway/domain/files/WorkingTrees"
import { isCommitId, isRefName } from "@slipway/domain/source/Naming"
import type { Remote } from "@slipway/domain/source/SourceHost"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { mkdir, readdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { isThere, namesIn, textIn } from "../node/IsThere.ts"
import { type GitFailed, line } from "./Git.ts"
import { replaceFile } from "./GitDir.ts"
import { type HostRepository, run } from "./HostRepository.ts"
import { explain, type Explanation, knownTips, transport, unsupported } from "./Remotes.ts"

const TIMEOUT = "2 minutes"

/** A file for each commit that we ever tried to push to the branch: a push may arrive without us living to see it. */
const attempts = (repository: HostRepository, headRef: string): string =>
  join(repository.gitDir, "pushed", createHash("sha256").update(headRef).digest("hex"))

/** As many attempts as anybody may still find on the other side, of as many branches as anybody publishes to. */
const KEPT = { attempts: 1_000, branches: 100 }

/** What `push` goes by. */
export interface Memory {
  readonly published: string | null
  /** What we ever tried to push, by the SHA-256 of the branch. */
  readonly pushed: ReadonlyArray<{ readonly branch: string; readonly commits: ReadonlyArray<string> }>
}

/** What `push` goes by, for where the tree goes on. */
export const remembered = (repository: HostRepository): Effect.Effect<Memory> =>
  Effect.promise(async () => {
    const folder = join(repository.gitDir, "pushed")
    const branches = (await namesIn(folder)).slice(0, KEPT.branches)
    return {
      published: await textIn(publishedFile(repository), null),
      pushed: await Promise.all(branches.map(async (branch) => ({ branch, commits: await newest(join(folder, branch)) })))
    }
  })

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

/** The commit that was pushed last, if any. */
export const published = (repository: HostRepository): Effect.Effect<string | undefined> =>
  Effect.promise(() => textIn(publishedFile(repository), undefined))

export const push = Effect.fn("Push.push")(function*(
  repository: HostRepository,
  options: { readonly sha: string; readonly headRef: string; readonly remote: Remote }
) {
  const { headRef, remote, sha } = options
  const refuse = (explanation: Explanation) => new PushFailed({ repo: repository.repo, ...explanation })
  const failed = (failure: GitFailed) =>
    Effect.andThen(
      Effect.logWarning("git could not push", { repo: repository.repo, failure: failure.message }),
      refuse(explain(failure))
    )
  const via = transport(remote)
  if (via === undefined) return yield* refuse(unsupported)
  if (!isCommitId(sha) || !isRefName(headRef)) {
    return yield* refuse({ detail: "The branch or the commit has no valid name.", retryable: false })
  }
  const [ref, ours] = [`refs/heads/${headRef}`, attempts(repository, headRef)]

  const base = repository.baseRef === null ? [] : [`refs/heads/${repository.baseRef}`]
  const ask = Effect.map(
    run(repository, ["ls-remote", "--heads", ...via.fetchArguments, "--end-of-options", via.url, ref, ...base], {
      ...via.options,
      timeout: TIMEOUT
    }).pipe(Effect.catchTag("GitFailed", failed)),
    (advertised) =>
      new Map(
        line(advertised).split("\n").map((entry) => {
          const [tip = "", name = ""] = entry.split("\t")
          return [name, tip]
        })
      )
  )

  const look = Effect.flatMap(
    knownTips(via, [headRef, ...repository.baseRef === null ? [] : [repository.baseRef]]),
    (known) => known === undefined ? ask : Effect.succeed(new Map(Array.from(known, ([branch, tip]) => [`refs/heads/${branch}`, tip])))
  )

  /** Answers what kept it from arriving, if anything did. */
  const send = Effect.fnUntraced(function*(tips: ReadonlyMap<string, string>) {
    const current = tips.get(ref) ?? ""
    if (current === sha) return null
    const isOurs = current === "" || (yield* Effect.promise(() => isThere(join(ours, current))))
    if (!isOurs) return yield* refuse({ detail: "The branch holds commits that are not from this sandbox.", retryable: false })
    yield* Effect.promise(async () => {
      await mkdir(ours, { recursive: true })
      await writeFile(join(ours, sha), "", { flush: true })
    })
    // Else what is sent is all that no branch there points to: the whole history, once the base has moved on.
    const negotiates = current === "" && !base.some((name) => tips.get(name) === repository.baseSha)
    return yield* run(repository, [
      "push",
      "--quiet",
      "--no-verify",
      `--force-with-lease=${ref}:${current}`,
      ...via.pushArguments(),
      "--end-of-options",
      via.url,
      `${sha}:${ref}`
    ], {
      ...via.options,
      config: [...via.options.config ?? [], `push.negotiate=${negotiates}`],
      timeout: TIMEOUT
    }).pipe(Effect.match({ onSuccess: () => null, onFailure: (failure) => failure }))
  })

  const tips = yield* look
  const failure = yield* send(tips)
  if (failure !== null) {
    // The git of a worker that was killed may have pushed in between, and ours may have arrived though nobody told us.
    const now = failure.reason === "exit" ? yield* look : tips
    const again = now.get(ref) === tips.get(ref) ? failure : yield* send(now)
    if (again !== null) return yield* failed(again)
  }
  yield* Effect.promise(() => replaceFile(publishedFile(repository), sha, join(repository.gitDir, "scratch")))
})
