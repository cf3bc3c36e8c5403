/**
 * Puts contents in place of pointers of Git LFS, in a tree that is on its site. Afterwards the host's repository of the tree has
 *
 *     <repository>/lfs/contents    entries of its index for these files, in the order of bytes: the ids are those of contents
 *     <repository>/lfs/pointers    the same files with the ids of their pointers
 *
 * each ended by a NUL. The contents themselves are no objects of the repository: the script of `BoxScript` puts the pointers in their place
 * before git asks for them.
 */
import type { LfsMissing } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { isThere } from "@slipway/machine/node/IsThere"
import { Clock, Duration, Effect } from "effect"
import { chmod, constants, copyFile, lstat, mkdir, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { eachField, git, terminated } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import type { CheckoutLimits } from "../mirror/CheckoutSize.ts"
import type { Mirrors } from "../mirror/Mirrors.ts"
import { setAttributes } from "../RepositoryLayout.ts"
import { decodeName } from "../tree/Changes.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import type { TreePlace } from "../tree/TreePlace.ts"
import * as AgentFilter from "./AgentFilter.ts"
import { serverOf } from "./LfsApi.ts"
import * as LfsFiles from "./LfsFiles.ts"
import type { Destinations } from "./LfsHttp.ts"
import * as LfsStore from "./LfsStore.ts"

/** Files of one tree that get their contents. */
const MOST = 5_000
/** Time for all of a tree: far below what a boot has. */
const WITHIN = Duration.minutes(4)
/** Time in which git reads the contents. */
const TIMEOUT = "5 minutes"
/** Bytes of the list of an index. */
const MAXIMUM_NAMES_BYTES = 134_217_728
/** Files that are told of, and characters of the path of each. */
const TOLD = 32
const MAX_SHOWN = 500
const TAB = 0x09

/** Why a file stays a pointer, for people. */
const REASONS = {
  folder: "The repository is a folder of this machine, which has no Git LFS server.",
  late: `There was no time for it: contents have ${Duration.toMinutes(WITHIN)} minutes together.`,
  machine: "Machines of their own do not get the contents of Git LFS.",
  many: `More than ${MOST} files do not get their contents.`,
  own: "The tree had this pointer when it was saved.",
  size: "The files of the tree would be larger than a checkout may be.",
  sizes: "Another pointer gives its content another size."
} as const

interface Means {
  readonly destinations: Destinations
  readonly limits: CheckoutLimits
  readonly mirrors: Mirrors
  readonly place: TreePlace
}

const folderOf = (gitDir: string): string => join(gitDir, "lfs")

/** Which of the pointers are wanted, by their contents, and why the others are not. */
const choose = (
  { bytes, pointers }: { readonly bytes: number; readonly pointers: ReadonlyArray<LfsFiles.PointerFile> },
  isOwn: (file: LfsFiles.PointerFile) => boolean,
  { checkoutBytes }: CheckoutLimits
) => {
  const reasons = new Map<LfsFiles.PointerFile, string>()
  const wanted = new Map<string, LfsFiles.PointerFile>()
  let [left, count] = [checkoutBytes - bytes, 0]
  for (const file of pointers) {
    const same = wanted.get(file.oid)
    if (isOwn(file)) reasons.set(file, REASONS.own)
    else if (count === MOST) reasons.set(file, REASONS.many)
    else if (file.size > left) reasons.set(file, REASONS.size)
    else if (same !== undefined && same.size !== file.size) reasons.set(file, REASONS.sizes)
    else {
      left -= file.size
      count++
      if (same === undefined) wanted.set(file.oid, file)
    }
  }
  return { reasons, wanted: [...wanted.values()] }
}

/** In place of the pointer, with its mode. The folders above are git's own: no one else has seen the tree. */
const putContent = async (tree: string, objects: string, { oid, path }: LfsFiles.PointerFile, draft: string): Promise<void> => {
  const file = Buffer.concat([Buffer.from(`${tree}/`), path])
  const { mode } = await lstat(file)
  await rm(draft, { force: true })
  await copyFile(LfsStore.fileOf(objects, oid), draft, constants.COPYFILE_FICLONE)
  await chmod(draft, mode & 0o777)
  await rename(draft, file)
}

/** Entries of the index, as `update-index --index-info` takes them, of these paths. */
const stagedOf = Effect.fnUntraced(function*(env: Readonly<Record<string, string>>, paths: ReadonlySet<string>) {
  const said = yield* git(["ls-files", "--stage", "-z"], { timeout: TIMEOUT, env, maximumBytes: MAXIMUM_NAMES_BYTES })
  const found: Array<Buffer> = []
  yield* inPieces(eachField(said), (entry) => {
    if (paths.has(entry.subarray(entry.indexOf(TAB) + 1).toString("latin1"))) found.push(entry)
  })
  return found.sort(Buffer.compare)
})

/** The index of the tree has the ids of these contents, with the stats of their files. */
const enter = Effect.fnUntraced(function*(gitDir: string, tree: string, files: ReadonlyArray<LfsFiles.PointerFile>) {
  const env = { GIT_DIR: gitDir, GIT_WORK_TREE: tree }
  const input = terminated(files.map(({ path }) => path))
  yield* git(["update-index", "--info-only", "-z", "--stdin"], { timeout: TIMEOUT, env, input })
  const contents = yield* stagedOf(env, new Set(files.map(({ path }) => path.toString("latin1"))))
  const pointers = terminated(files.map(({ id, mode, path }) => Buffer.concat([Buffer.from(`${mode} ${id} 0\t`), path])))
  yield* Effect.promise(async () => {
    const folder = folderOf(gitDir)
    await writeFile(join(folder, "contents"), terminated(contents))
    await writeFile(join(folder, "pointers"), pointers)
    // Boxes of other users read them.
    await chmod(folder, 0o755)
    await Promise.all(["index", "lfs/contents", "lfs/pointers"].map((name) => chmod(join(gitDir, name), 0o644)))
  })
})

/** The agent's git makes pointers of contents. In its index the files have no stats: with those of pointers they would count as changed. */
const setFilter = Effect.fnUntraced(function*(tree: string, store: string, files: ReadonlyArray<LfsFiles.PointerFile>) {
  const gitDir = join(tree, ".git")
  const filter = AgentFilter.fileOf(gitDir, store)
  yield* Effect.promise(async () => {
    await mkdir(dirname(filter.path), { recursive: true })
    await writeFile(filter.path, filter.content)
    await writeFile(join(gitDir, "config"), AgentFilter.CONFIG, { flag: "a" })
    await setAttributes(gitDir, { hasFilter: true })
  })
  if (files.length === 0) return
  const env = { GIT_DIR: gitDir, GIT_INDEX_FILE: join(gitDir, "index") }
  const staged = yield* stagedOf(env, new Set(files.map(({ path }) => path.toString("latin1"))))
  if (staged.length > 0) yield* git(["update-index", "-z", "--index-info"], { timeout: TIMEOUT, env, input: terminated(staged) })
})

/** The pointers of the commit that are not as in the commit that the tree started from. */
const changedIn = Effect.fnUntraced(function*(repository: { readonly gitDir: string }, { baseSha }: HostRepository.Making, sha: string) {
  if (sha === baseSha) return new Set<string>()
  const said = yield* HostRepository.run(repository, ["diff-tree", "-r", "-z", "--name-only", "--no-renames", baseSha, sha], {
    maximumBytes: MAXIMUM_NAMES_BYTES
  })
  return new Set(Array.from(eachField(said), (path) => path.toString("latin1")))
})

/** A tree is made although its pointers cannot be listed: then they stay. */
const listed = (making: HostRepository.Making, sha: string) => {
  const repository = { gitDir: HostRepository.madeIn(making), baseSha: making.baseSha }
  return Effect.all([LfsFiles.pointersIn(repository, sha), changedIn(repository, making, sha)]).pipe(
    Effect.catchTag(
      "GitFailed",
      (failure) => Effect.as(Effect.logWarning("git could not list files of LFS", { repo: making.repo, failure: failure.message }), null)
    )
  )
}

const NOTHING: { readonly pointers: number; readonly missing: ReadonlyArray<LfsMissing> } = { pointers: 0, missing: [] }

/**
 * Fills what it can of the commit, whose tree is on its site, and says which files stay pointers. A file that is not as in the commit that
 * the tree started from stays as it is.
 */
export const fill = Effect.fn("FillPointers.fill")(
  function*({ destinations, limits, mirrors, place }: Means, making: HostRepository.Making, sha: string, remote: Remote) {
    const gitDir = HostRepository.madeIn(making)
    const all = yield* listed(making, sha)
    if (all === null) return NOTHING
    const [found, changed] = all
    const onSite = place.onSite?.(making)
    const server = serverOf(remote, destinations)
    const { objects } = making
    yield* Effect.promise(() => mkdir(folderOf(gitDir), { recursive: true }))
    const { reasons, wanted } = choose(found, ({ path }) => changed.has(path.toString("latin1")), limits)
    const absent = onSite === undefined ? wanted : yield* Effect.promise(async () => {
      const there = await Promise.all(wanted.map((object) => LfsStore.has(objects, object)))
      return wanted.filter((_, i) => there[i] !== true)
    })
    const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(WITHIN)
    const missing: ReadonlyMap<string, string> = absent.length === 0
      ? new Map()
      : onSite === undefined || server === undefined
      ? new Map(absent.map(({ oid }) => [oid, onSite === undefined ? REASONS.machine : REASONS.folder]))
      : yield* LfsStore.bring(mirrors, server, objects, absent, until - (yield* Clock.currentTimeMillis), REASONS.late)
    const files = found.pointers.filter((file) => !reasons.has(file) && !missing.has(file.oid))
    if (onSite !== undefined) {
      if (files.length > 0) {
        const draft = join(making.site, "content")
        yield* Effect.promise(async () => {
          for (const file of files) await putContent(onSite.tree, objects, file, draft)
        })
        yield* enter(gitDir, onSite.tree, files)
      }
      // Without a server, contents that the agent commits would be nowhere.
      if (server !== undefined) yield* setFilter(onSite.tree, LfsStore.folderOf(onSite.objectsInBox), files)
    }
    const left = found.pointers.flatMap((file) => {
      const reason = reasons.get(file) ?? missing.get(file.oid)
      return reason === undefined ? [] : [{ path: file.path, reason }]
    })
    return { pointers: left.length, missing: told(left) }
  }
)

/** Whether the commit that the tree started from gives files to Git LFS. */
export const isUsed = (gitDir: string): Promise<boolean> => isThere(folderOf(gitDir))

/** The first, without those whose paths cannot be shown. */
const told = (left: ReadonlyArray<{ readonly path: Buffer; readonly reason: string }>): ReadonlyArray<LfsMissing> => {
  const shown: Array<LfsMissing> = []
  for (const { path, reason } of left) {
    const name = decodeName(path)
    if (name !== undefined && name.length <= MAX_SHOWN) shown.push({ path: name, reason })
    if (shown.length === TOLD) break
  }
  return shown
}
