/** Whether a commit is in the history of branches and tags of a remote, which is told without the files of any commit. */
import { isCommitId } from "@slipway/domain/source/schema/Naming"
import { isThere } from "@slipway/machine/node/IsThere"
import { Effect } from "effect"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { git, line } from "../Git.ts"
import type { Transport } from "../Remotes.ts"

/** Tips whose history is fetched, at most: a pattern may stand for thousands of branches. */
const MAX_TIPS = 64
/** Generations that are fetched one after the other, before all are: what sandboxes start from is nearly always young. */
const DEPTHS = [100, 5_000]
const TIMEOUT = "2 minutes"

const CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tpartialClone = source\n"

const layOut = async (gitDir: string): Promise<void> => {
  await mkdir(join(gitDir, "objects", "pack"), { recursive: true })
  await mkdir(join(gitDir, "refs"), { recursive: true })
  await writeFile(join(gitDir, "HEAD"), "ref: refs/heads/none\n")
  await writeFile(join(gitDir, "config"), CONFIG)
}

/** The commits that the branches and tags of the remote point to, by their full names. An annotated tag stands for its commit. */
const tipsOf = (via: Transport, patterns: ReadonlyArray<string>) =>
  git(["ls-remote", "--heads", "--tags", ...via.fetchArguments, "--end-of-options", via.url, ...patterns], via.options).pipe(
    Effect.map((advertised) => {
      const tips = new Map<string, string>()
      for (const entry of line(advertised).split("\n")) {
        const [sha = "", ref = ""] = entry.split("\t")
        const name = ref.endsWith("^{}") ? ref.slice(0, -3) : ref
        if (isCommitId(sha) && (name !== ref || !tips.has(name))) tips.set(name, sha)
      }
      return tips
    })
  )

/** Those that `ref` stands for: a branch goes before a tag of the same name, and `release/*` is all below that folder. */
const tipsFor = (tips: ReadonlyMap<string, string>, ref: string): ReadonlyArray<string> => {
  if (!ref.endsWith("/*")) return [tips.get(`refs/heads/${ref}`) ?? tips.get(`refs/tags/${ref}`) ?? []].flat()
  const folders = [`refs/heads/${ref.slice(0, -1)}`, `refs/tags/${ref.slice(0, -1)}`]
  return Array.from(tips).flatMap(([name, sha]) => folders.some((folder) => name.startsWith(folder)) ? [sha] : [])
}

/**
 * One of `refs` that has `sha` in its history at the remote, as near to the first as can be told without reading all histories; `null`:
 * none. A ref is a branch, a tag, or a pattern such as `release/*`. `site`: a folder for what is fetched, which is not there yet.
 */
export const find = Effect.fn("Ancestry.find")(function*(via: Transport, sha: string, refs: ReadonlyArray<string>, site: string) {
  const tips = yield* tipsOf(via, refs.flatMap((ref) => [`refs/heads/${ref}`, `refs/tags/${ref}`]))
  const wanted = refs.map((ref) => ({ ref, tips: tipsFor(tips, ref) }))
  const same = wanted.find((one) => one.tips.includes(sha))
  if (same !== undefined) return same.ref
  const fetched = Array.from(new Set(wanted.flatMap((one) => one.tips))).slice(0, MAX_TIPS)
  if (fetched.length === 0) return null

  yield* Effect.promise(() => layOut(site))
  const env = { GIT_DIR: site }
  const fetch = (depth: string) =>
    git([
      "fetch",
      "--quiet",
      "--no-write-fetch-head",
      "--no-tags",
      "--no-auto-maintenance",
      "--filter=tree:0",
      depth,
      ...via.fetchArguments,
      "--end-of-options",
      "source",
      ...fetched.map((tip) => `${tip}:refs/tips/${tip}`)
    ], {
      ...via.options,
      config: [...via.options.config ?? [], `remote.source.url=${via.url}`, "remote.source.promisor=true"],
      env,
      timeout: TIMEOUT
    })
  /** Without the way to the remote: what is not here is not asked for. */
  const has = (tip: string) =>
    git(["merge-base", "--is-ancestor", sha, tip], { env, timeout: TIMEOUT }).pipe(
      Effect.as(true),
      Effect.catchIf(({ reason }) => reason === "exit", () => Effect.succeed(false))
    )
  const isShallow = Effect.promise(() => isThere(join(site, "shallow")))
  for (const depth of [...DEPTHS.map((depth) => `--depth=${depth}`), "--unshallow"]) {
    yield* fetch(depth)
    for (const { ref, tips } of wanted) {
      for (const tip of tips) if (fetched.includes(tip) && (yield* has(tip))) return ref
    }
    if (!(yield* isShallow)) return null
  }
  return null
})
