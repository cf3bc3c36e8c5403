/** Differences between the commit that a tree started from and the tree as it is. */
import type { FileEntry, FileStatus } from "@slipway/domain/files/schema/FileTree"
import { isGitPath } from "@slipway/domain/source/rules/FileRules"
import { Effect } from "effect"
import { eachField, fields, terminated } from "../Git.ts"
import { AT_ONCE, inPieces } from "../InPieces.ts"
import type { BoxGit } from "./BoxGit.ts"
import { type HostRepository, run } from "./HostRepository.ts"

export interface Change {
  readonly path: string
  readonly status: FileStatus
  readonly previousPath: string | null
  readonly additions: number
  readonly deletions: number
  /** Its kind now, or before it was deleted. */
  readonly kind: FileEntry["kind"]
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** `undefined` for a name that is no text. */
export const decodeName = (name: Uint8Array): string | undefined => {
  try {
    return utf8.decode(name)
  } catch {
    return undefined
  }
}

const STATUSES: Readonly<Record<string, FileStatus>> = { A: "untracked", D: "deleted", R: "renamed" }

const kindOf = (mode: string): FileEntry["kind"] => mode === "120000" ? "symlink" : mode === "160000" ? "submodule" : "file"

/** Options of every `diff` and `diff-tree` whose output {@link parse} reads. */
const DIFF_OPTIONS = [
  "--raw",
  "--numstat",
  "-z",
  "--no-abbrev",
  "--find-renames",
  "-l500",
  "--no-ext-diff",
  "--no-textconv",
  "--ignore-submodules=all"
] as const

/** New files come out as `untracked`. Names that are no text are left out, and come out as `unnamed`. */
const parse = Effect.fnUntraced(function*(output: Buffer) {
  const unnamed: Array<Buffer> = []
  const parts = eachField(output)
  const next = () => parts.next().value
  const changes = new Map<string, Change>()
  const TAB = 0x09
  for (let head = next(), steps = 1; head !== undefined; head = next(), steps++) {
    if (steps % AT_ONCE === 0) yield* Effect.yieldNow
    if (head[0] === 0x3a) {
      // :<old mode> <new mode> <old id> <new id> <status>, then one name, or two of a rename
      const [oldMode = "", newMode = "", , , letters = ""] = head.toString().slice(1).split(" ")
      const renamed = letters.startsWith("R")
      const [before, after] = [next() ?? head, renamed ? next() ?? head : undefined]
      const from = decodeName(before)
      const to = after === undefined ? from : decodeName(after)
      if (from === undefined) unnamed.push(before)
      if (after !== undefined && to === undefined) unnamed.push(after)
      // A file renamed to a name that is not UTF-8 counts as deleted.
      const path = to ?? from
      if (path === undefined) continue
      const status = to === undefined ? "deleted" : STATUSES[letters.charAt(0)] ?? "modified"
      changes.set(path, {
        path,
        status: renamed && from === undefined ? "untracked" : status,
        previousPath: renamed && to !== undefined ? from ?? null : null,
        additions: 0,
        deletions: 0,
        kind: kindOf(status === "deleted" ? oldMode : newMode)
      })
    } else {
      // <additions> TAB <deletions> TAB <name>; a rename has both names in fields of their own. "-" is binary.
      const first = head.indexOf(TAB)
      const second = head.indexOf(TAB, first + 1)
      const name = head.subarray(second + 1)
      const bytes = name.length > 0 ? name : [next(), next()][1] ?? head
      const change = changes.get(decodeName(bytes) ?? "")
      if (change === undefined) continue
      changes.set(change.path, {
        ...change,
        additions: Number(head.subarray(0, first).toString()) || 0,
        deletions: Number(head.subarray(first + 1, second).toString()) || 0
      })
    }
  }
  return { changes: [...changes.values()], unnamed }
})

export const isNestedRepository = (path: Uint8Array): boolean => path.at(-1) === 0x2f

/** The empty file; git need not have it. */
const EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

/** Lines of `update-index --index-info` that enter these files as empty. */
export const asEmpty = (paths: ReadonlyArray<Buffer>): Buffer =>
  terminated(paths.map((path) => Buffer.concat([Buffer.from(`100644 ${EMPTY_BLOB}\t`), path])))

/** New files and repositories that are looked into. An agent can make more than anybody wants to see; those are left out. */
const MAXIMUM_NEW = 20_000

let comparisons = 0

/**
 * All changes against the base commit, renames found. New files are `untracked`, or `added` once they are in the commit
 * `published`; ignored ones are no changes. `nested` are the repositories that lie within the tree;
 * `unnamed` are the paths that are no text; `number` is this comparison's own.
 */
export const changes = Effect.fn("Changes.changes")(function*(repository: HostRepository, box: BoxGit, published: string | undefined) {
  const nested: Array<string> = []
  let isTruncated = false
  const diff = yield* box.changes(
    repository,
    [...DIFF_OPTIONS, "--no-color"],
    Effect.fnUntraced(function*(names) {
      const files: Array<Buffer> = []
      let count = 0
      yield* inPieces(eachField(names), (path) => {
        isTruncated = ++count > MAXIMUM_NEW
        if (isTruncated) return false
        const folder = isNestedRepository(path) ? decodeName(path.subarray(0, -1)) : undefined
        if (folder !== undefined) nested.push(folder)
        else if (!isNestedRepository(path) && !isGitPath(path.toString())) files.push(path)
      })
      // New files must be in the index to be compared; entered as empty they differ from what is in the tree.
      return asEmpty(files)
    })
  )
  const isPublished = published === undefined ? undefined : new Set(
    fields(
      yield* run(repository, [
        "diff-tree",
        "-r",
        "--no-renames",
        "--name-only",
        "--diff-filter=A",
        "-z",
        repository.baseSha,
        published
      ])
    ).map((path) => path.toString())
  )
  const { changes: parsed, unnamed } = yield* parse(diff)
  return {
    number: ++comparisons,
    changes: isPublished === undefined ?
      parsed :
      parsed.map((change): Change =>
        change.status === "untracked" && isPublished.has(change.path) ? { ...change, status: "added" } : change
      ),
    nested,
    unnamed,
    isTruncated
  }
})
