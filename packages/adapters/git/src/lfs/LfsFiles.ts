/**
 * Files that a repository gives to Git LFS by `filter=lfs` in its `.gitattributes`, read from objects. Where LFS itself is not at work,
 * trees have the pointers of such files, and a file that is no pointer must not be published in its place.
 */
import { Effect } from "effect"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { eachField, type GitFailed, line, terminated } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { layOut } from "../RepositoryLayout.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"

type Ask = typeof run
type Repository = Pick<HostRepository, "baseSha" | "gitDir">

/** A file that differs from the commit that the tree started from. */
export interface Plain {
  readonly path: Buffer
  /** Its entry in that commit, as `update-index --index-info` takes it; `null`: it has none there. */
  readonly before: string | null
}

/** The attribute in `.gitattributes` that gives a file to LFS. */
export const FILTER = "filter=lfs"
const LFS = "lfs"
/** Bytes of a pointer: the format allows fewer than 1,024. */
const MAX_POINTER = 1_023
/** A pointer begins with the first, and has a line of each of the others. */
const POINTER = [/^version https:\/\/(?:git-lfs|hawser)\.github\.com\/spec\/v1\n/u, /^oid sha256:[0-9a-f]{64}$/mu, /^size \d{1,19}$/mu]
/** Exit code of `git grep` without a match. */
const NONE = 1
/** Bytes of the list of a commit's files. */
const MAXIMUM_NAMES_BYTES = 67_108_864
const ABSENT = "000000"
const TAB = 0x09
const LINE_FEED = 0x0a

const latin1 = (bytes: Buffer): string => bytes.toString("latin1")

/** Whether these are the bytes of a pointer to an object of LFS. */
const isPointer = (bytes: Buffer): boolean => {
  const text = latin1(bytes)
  return bytes.length <= MAX_POINTER && POINTER.every((part) => part.test(text))
}

/** Whether a `.gitattributes` of the tree gives files to LFS. */
const isUsed = (repository: Repository, tree: string, ask: Ask) =>
  Effect.map(
    ask(repository, ["grep", "-l", "-z", "-F", "-e", FILTER, tree, "--", "**/.gitattributes"], { answers: [NONE], isGlob: true }),
    (found) => found.length > 0
  )

/**
 * Those of the paths that are given to LFS. Git looks them up in a repository without the attributes that the host sets everywhere else:
 * it runs no filter for that.
 */
const given = Effect.fnUntraced(function*(repository: Repository, tree: string, paths: ReadonlyArray<Buffer>, ask: Ask) {
  if (paths.length === 0) return []
  const gitDir = yield* scratch(repository)
  yield* Effect.promise(async () => {
    await layOut(gitDir, { head: "ref: refs/heads/none", objects: join(repository.gitDir, "objects"), shallow: [] })
    await rm(join(gitDir, "info", "attributes"))
  })
  yield* ask({ gitDir }, ["read-tree", tree])
  const said = yield* ask({ gitDir }, ["check-attr", "--cached", "-z", "--stdin", "filter"], {
    input: terminated(paths),
    maximumBytes: 2 * MAXIMUM_NAMES_BYTES
  })
  const found: Array<Buffer> = []
  const parts = eachField(said)
  // Path, attribute, value.
  yield* inPieces(parts, (path) => {
    parts.next()
    if (parts.next().value?.toString("latin1") === LFS) found.push(path)
  })
  return found
}, Effect.scoped)

/** Bytes of small blobs that are read at once. */
const MAXIMUM_BLOBS_BYTES = 134_217_728

/** Those of these blobs that are neither pointers nor empty. */
const plainOf = Effect.fnUntraced(function*<A extends { readonly id: string }>(repository: Repository, files: ReadonlyArray<A>, ask: Ask) {
  const input = (some: ReadonlyArray<A>) => some.map(({ id }) => `${id}\n`).join("")
  const told = yield* ask(repository, ["cat-file", "--batch-check=%(objectsize)"], { input: input(files) })
  const sizes = line(told).split("\n").map(Number)
  const large = files.filter((_, i) => (sizes[i] ?? 0) > MAX_POINTER)
  // An empty file is stored as it is.
  const small = files.filter((_, i) => (sizes[i] ?? 0) > 0 && (sizes[i] ?? 0) <= MAX_POINTER)
  if (small.length === 0) return large
  const said = yield* ask(repository, ["cat-file", "--batch=%(objectsize)"], { input: input(small), maximumBytes: MAXIMUM_BLOBS_BYTES })
  let at = 0
  const plain = small.filter(() => {
    const start = said.indexOf(LINE_FEED, at) + 1
    const end = start + Number(said.subarray(at, start).toString("latin1"))
    at = end + 1
    return !isPointer(said.subarray(start, end))
  })
  const all = new Set([...large, ...plain])
  return files.filter((file) => all.has(file))
})

/** Files of the tree that differ from the commit it started from, are given to LFS by the tree itself, and are no pointers. */
export const plainIn = Effect.fn("LfsFiles.plainIn")(
  function*(repository: Repository, tree: string, ask: Ask = run): Effect.fn.Return<ReadonlyArray<Plain>, GitFailed> {
    if (!(yield* isUsed(repository, tree, ask))) return []
    const changed = new Map<string, { readonly path: Buffer; readonly id: string; readonly before: string | null }>()
    const parts = eachField(
      yield* ask(repository, ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", `${repository.baseSha}^{tree}`,
        `${tree}^{tree}`], {
        maximumBytes: MAXIMUM_NAMES_BYTES
      })
    )
    yield* inPieces(parts, (head) => {
      const [oldMode = "", newMode = "", oldId = "", id = ""] = latin1(head).slice(1).split(" ")
      const path = parts.next().value ?? Buffer.alloc(0)
      if (newMode.startsWith("100")) changed.set(latin1(path), { path, id, before: oldMode === ABSENT ? null : `${oldMode} ${oldId}` })
    })
    const paths = yield* given(repository, tree, Array.from(changed.values(), ({ path }) => path), ask)
    const found = paths.flatMap((path) => changed.get(latin1(path)) ?? [])
    return found.length === 0 ? [] : yield* plainOf(repository, found, ask)
  }
)

/** Whether one of these files is given to LFS by the commit, and is no pointer. */
export const hasPlain = Effect.fn("LfsFiles.hasPlain")(
  function*(repository: Repository, commit: string, files: ReadonlyArray<{ readonly path: Buffer; readonly id: string }>, ask: Ask) {
    if (files.length === 0 || !(yield* isUsed(repository, commit, ask))) return false
    const paths = new Set((yield* given(repository, commit, files.map(({ path }) => path), ask)).map(latin1))
    const found = files.filter(({ path }) => paths.has(latin1(path)))
    return found.length > 0 && (yield* plainOf(repository, found, ask)).length > 0
  }
)

/** The tree with these files as they were in the commit that it started from. */
export const reset = Effect.fnUntraced(function*(repository: Repository, tree: string, files: ReadonlyArray<Plain>) {
  const env = { GIT_INDEX_FILE: yield* scratch(repository) }
  const nothing = `0 ${"0".repeat(repository.baseSha.length)}`
  const input = terminated(files.map(({ before, path }) => Buffer.concat([Buffer.from(`${before ?? nothing}\t`), path])))
  yield* run(repository, ["read-tree", tree], { env })
  yield* run(repository, ["update-index", "-z", "--index-info"], { env, input })
  return line(yield* run(repository, ["write-tree"], { env }))
}, Effect.scoped)

/** The number of files of the commit that the repository gives to LFS and that are pointers. */
export const countPointers = Effect.fn("LfsFiles.countPointers")(function*(repository: Repository, commit: string) {
  if (!(yield* isUsed(repository, commit, run))) return 0
  const said = yield* run(repository, ["ls-tree", "-r", "-z", "--format=%(objectmode) %(objectsize) %(objectname)%x09%(path)", commit], {
    maximumBytes: MAXIMUM_NAMES_BYTES
  })
  const small = new Map<string, { readonly path: Buffer; readonly id: string }>()
  yield* inPieces(eachField(said), (entry) => {
    const tab = entry.indexOf(TAB)
    const [mode = "", size = "", id = ""] = latin1(entry.subarray(0, tab)).split(" ")
    const path = entry.subarray(tab + 1)
    if (mode.startsWith("100") && Number(size) > 0 && Number(size) <= MAX_POINTER) small.set(latin1(path), { path, id })
  })
  const paths = yield* given(repository, commit, Array.from(small.values(), ({ path }) => path), run)
  const found = paths.flatMap((path) => small.get(latin1(path)) ?? [])
  return found.length === 0 ? 0 : found.length - (yield* plainOf(repository, found, run)).length
})
