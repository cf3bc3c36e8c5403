/**
 * Files that a repository gives to Git LFS by `filter=lfs` in its `.gitattributes`, read from objects. Commits have the pointers of such
 * files, and a file that is no pointer must not be published in its place.
 */
import { Effect } from "effect"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { eachField, type GitFailed, line, terminated } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { layOut } from "../RepositoryLayout.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"
import * as Submodules from "../tree/Submodules.ts"
import { type LfsObject, MAX_POINTER, parse } from "./LfsPointer.ts"

type Ask = typeof run
type Repository = Pick<HostRepository, "baseSha" | "gitDir">

/** A file that differs from the commit that the tree started from. */
export interface Plain {
  readonly path: Buffer
  /** Its entry in that commit, as `update-index --index-info` takes it; `null`: it has none there. */
  readonly before: string | null
  readonly mode: string
  /** The blob with its content. */
  readonly id: string
}

/** A pointer in a commit. */
export interface PointerFile extends LfsObject {
  readonly path: Buffer
  readonly mode: string
  readonly id: string
}

/** The attribute in `.gitattributes` that gives a file to LFS. */
export const FILTER = "filter=lfs"
const LFS = "lfs"
/** Exit code of `git grep` without a match. */
const NONE = 1
/** Bytes of the list of a commit's files. */
const MAXIMUM_NAMES_BYTES = 67_108_864
/** Time to match all names with all patterns of a repository, which may be made to take long. */
const TIMEOUT = "1 minute"
const ABSENT = "000000"
const TAB = 0x09
const LINE_FEED = 0x0a

const latin1 = (bytes: Buffer): string => bytes.toString("latin1")

/** Whether a `.gitattributes` of the tree gives files to LFS. */
export const isUsed = (repository: Repository, tree: string, ask: Ask = run) =>
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
    maximumBytes: 2 * MAXIMUM_NAMES_BYTES,
    timeout: TIMEOUT,
    isLimited: true
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

/** The blobs that are pointers, by their ids, and which others are not empty. */
const read = Effect.fnUntraced(function*(repository: Repository, files: ReadonlyArray<{ readonly id: string }>, ask: Ask) {
  const ids = [...new Set(files.map(({ id }) => id))]
  const input = (some: ReadonlyArray<string>) => some.map((id) => `${id}\n`).join("")
  const told = yield* ask(repository, ["cat-file", "--batch-check=%(objectsize)"], { input: input(ids), maximumBytes: MAXIMUM_BLOBS_BYTES })
  const sizes = line(told).split("\n").map(Number)
  const plain = new Set(ids.filter((_, i) => (sizes[i] ?? 0) > MAX_POINTER))
  // An empty file is stored as it is.
  const small = ids.filter((_, i) => (sizes[i] ?? 0) > 0 && (sizes[i] ?? 0) <= MAX_POINTER)
  const pointers = new Map<string, LfsObject>()
  if (small.length === 0) return { plain, pointers }
  const said = yield* ask(repository, ["cat-file", "--batch=%(objectsize)"], { input: input(small), maximumBytes: MAXIMUM_BLOBS_BYTES })
  let at = 0
  yield* inPieces(small, (id) => {
    const start = said.indexOf(LINE_FEED, at) + 1
    const end = start + Number(said.subarray(at, start).toString("latin1"))
    at = end + 1
    const pointer = parse(said.subarray(start, end))
    if (pointer === undefined) plain.add(id)
    else pointers.set(id, pointer)
  })
  return { plain, pointers }
})

/** Those of these files that are neither pointers nor empty. */
const plainOf = <A extends { readonly id: string }>(repository: Repository, files: ReadonlyArray<A>, ask: Ask) =>
  Effect.map(read(repository, files, ask), ({ plain }) => files.filter(({ id }) => plain.has(id)))

/**
 * Files of the tree that differ from the commit it started from, are given to LFS by the tree itself, and are no pointers. For a tree that
 * uses LFS.
 */
export const plainIn = Effect.fn("LfsFiles.plainIn")(
  function*(repository: Repository, tree: string, ask: Ask = run): Effect.fn.Return<ReadonlyArray<Plain>, GitFailed> {
    const changed = new Map<string, Plain>()
    const parts = eachField(
      yield* ask(repository, ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", `${repository.baseSha}^{tree}`,
        `${tree}^{tree}`], {
        maximumBytes: MAXIMUM_NAMES_BYTES
      })
    )
    yield* inPieces(parts, (head) => {
      const [oldMode = "", newMode = "", oldId = "", id = ""] = latin1(head).slice(1).split(" ")
      const path = parts.next().value ?? Buffer.alloc(0)
      if (newMode.startsWith("100")) {
        changed.set(latin1(path), { path, id, mode: newMode, before: oldMode === ABSENT ? null : `${oldMode} ${oldId}` })
      }
    })
    const paths = yield* given(repository, tree, Array.from(changed.values(), ({ path }) => path), ask)
    const found = paths.flatMap((path) => changed.get(latin1(path)) ?? [])
    return found.length === 0 ? [] : yield* plainOf(repository, found, ask)
  }
)

/** Whether one of these files is given to LFS by the commit, and is no pointer; `null`: the commit gives none to LFS. */
export const hasPlain = Effect.fn("LfsFiles.hasPlain")(
  function*(repository: Repository, commit: string, files: ReadonlyArray<{ readonly path: Buffer; readonly id: string }>, ask: Ask) {
    if (files.length === 0 || !(yield* isUsed(repository, commit, ask))) return null
    const paths = new Set((yield* given(repository, commit, files.map(({ path }) => path), ask)).map(latin1))
    const found = files.filter(({ path }) => paths.has(latin1(path)))
    return found.length > 0 && (yield* plainOf(repository, found, ask)).length > 0
  }
)

/** As a publication tells of files that are left out, and why. */
export const told = ({ reason, refused }: { readonly refused: ReadonlyArray<Plain>; readonly reason: string | null }) => {
  const lfs = Submodules.told(refused.map(({ path }) => path))
  return { ...(lfs.length === 0 ? {} : { lfs }), ...(lfs.length === 0 || reason === null ? {} : { lfsReason: reason }) }
}

/** The tree with these entries, in place of those at their paths. An entry is as `update-index --index-info` takes it; `null`: none. */
const entered = Effect.fnUntraced(
  function*(
    repository: Repository,
    tree: string,
    entries: ReadonlyArray<{ readonly path: Buffer; readonly entry: string | null }>,
    env: Readonly<Record<string, string>>
  ) {
    const index = { ...env, GIT_INDEX_FILE: yield* scratch(repository) }
    const nothing = `0 ${"0".repeat(repository.baseSha.length)}`
    const input = terminated(entries.map(({ entry, path }) => Buffer.concat([Buffer.from(`${entry ?? nothing}\t`), path])))
    yield* run(repository, ["read-tree", tree], { env: index })
    yield* run(repository, ["update-index", "-z", "--index-info"], { env: index, input })
    return line(yield* run(repository, ["write-tree", "--missing-ok"], { env: index }))
  },
  Effect.scoped
)

/** The tree with these files as they were in the commit that it started from. */
export const reset = (repository: Repository, tree: string, files: ReadonlyArray<Plain>) =>
  entered(repository, tree, files.map(({ before, path }) => ({ path, entry: before })), {})

/** The tree with pointers, by the blobs of the contents, in place of these files. `env`: where the objects are to be. */
export const withPointers = (
  repository: Repository,
  tree: string,
  files: ReadonlyArray<Plain>,
  pointers: ReadonlyMap<string, string>,
  env: Readonly<Record<string, string>> = {}
) =>
  entered(
    repository,
    tree,
    files.flatMap(({ id, mode, path }) => {
      const pointer = pointers.get(id)
      return pointer === undefined ? [] : [{ path, entry: `${mode} ${pointer}` }]
    }),
    env
  )

/** The files of the commit that the repository gives to LFS and that are pointers, in the order of their paths, and bytes of all files. */
export const pointersIn = Effect.fn("LfsFiles.pointersIn")(function*(repository: Repository, commit: string) {
  const none: ReadonlyArray<PointerFile> = []
  if (!(yield* isUsed(repository, commit))) return { bytes: 0, pointers: none }
  const said = yield* run(repository, ["ls-tree", "-r", "-z", "--format=%(objectmode) %(objectsize) %(objectname)%x09%(path)", commit], {
    maximumBytes: MAXIMUM_NAMES_BYTES
  })
  let bytes = 0
  const small = new Map<string, { readonly path: Buffer; readonly id: string; readonly mode: string }>()
  yield* inPieces(eachField(said), (entry) => {
    const tab = entry.indexOf(TAB)
    const [mode = "", size = "", id = ""] = latin1(entry.subarray(0, tab)).split(" ")
    const path = entry.subarray(tab + 1)
    bytes += Number(size) || 0
    if (mode.startsWith("100") && Number(size) > 0 && Number(size) <= MAX_POINTER) small.set(latin1(path), { path, id, mode })
  })
  const paths = yield* given(repository, commit, Array.from(small.values(), ({ path }) => path), run)
  const found = paths.flatMap((path) => small.get(latin1(path)) ?? [])
  if (found.length === 0) return { bytes, pointers: none }
  const { pointers } = yield* read(repository, found, run)
  return {
    bytes,
    pointers: found.flatMap((file): ReadonlyArray<PointerFile> => {
      const pointer = pointers.get(file.id)
      return pointer === undefined ? [] : [{ ...file, ...pointer }]
    })
  }
})

/** The pointers that commits of `range` brought in, at any path: each content once. `most`: more are left out. */
export const broughtIn = Effect.fn("LfsFiles.broughtIn")(
  function*(repository: Repository, range: ReadonlyArray<string>, most: number) {
    const parts = eachField(
      yield* run(repository, ["log", "--raw", "-m", "-z", "--format=", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
        ...range], { maximumBytes: MAXIMUM_NAMES_BYTES })
    )
    const written: Array<{ readonly id: string }> = []
    yield* inPieces(parts, (head) => {
      const [, newMode = "", , id = ""] = latin1(head).replace(/^\n*:/u, "").split(" ")
      parts.next()
      if (newMode.startsWith("100")) written.push({ id })
    })
    if (written.length === 0) return []
    const { pointers } = yield* read(repository, written, run)
    const objects = new Map(Array.from(pointers.values(), (object) => [object.oid, object]))
    return [...objects.values()].slice(0, most)
  }
)
