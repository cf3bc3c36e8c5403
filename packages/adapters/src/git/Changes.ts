/** What differs between the commit a tree started from and the tree as it is. */
import { Effect } from "effect"
import { isGitPath } from "@slipway/domain/files/FileRules"
import type { FileEntry, FileStatus } from "@slipway/domain/files/FileTree"
import type { BoxGit } from "./BoxGit.ts"
import { fields, terminated } from "./Git.ts"
import { type HostRepository, run } from "./HostRepository.ts"

export interface Change {
  readonly path: string
  readonly status: FileStatus
  readonly previousPath: string | null
  readonly additions: number
  readonly deletions: number
  /** What it is now, or was before it was deleted. */
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
export const DIFF_OPTIONS = [
  "--raw", "--numstat", "-z", "--no-abbrev", "--find-renames", "-l500", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"
] as const

/** Fields that are read before others get their turn. */
const AT_ONCE = 2_000

/** New files come out as `untracked`. Names that are no text are left out. */
export const parse = Effect.fnUntraced(function*(output: Buffer) {
  const parts = fields(output)
  const changes = new Map<string, Change>()
  const TAB = 0x09
  for (let i = 0, steps = 1; i < parts.length; steps++) {
    // Others wait for this process.
    if (steps % AT_ONCE === 0) yield* Effect.sleep(0)
    const head = parts[i++] ?? Buffer.alloc(0)
    if (head[0] === 0x3a) {
      // :<old mode> <new mode> <old id> <new id> <status>, then one name, or two of a rename
      const [oldMode = "", newMode = "", , , letters = ""] = head.toString().slice(1).split(" ")
      const renamed = letters.startsWith("R")
      const from = decodeName(parts[i++] ?? head)
      const path = renamed ? decodeName(parts[i++] ?? head) : from
      if (path === undefined) continue
      const status = STATUSES[letters.charAt(0)] ?? "modified"
      changes.set(path, {
        path,
        status: renamed && from === undefined ? "untracked" : status,
        previousPath: renamed ? from ?? null : null,
        additions: 0,
        deletions: 0,
        kind: kindOf(status === "deleted" ? oldMode : newMode)
      })
    } else {
      // <additions> TAB <deletions> TAB <name>; a rename has both names in fields of their own. "-" is binary.
      const first = head.indexOf(TAB)
      const second = head.indexOf(TAB, first + 1)
      const name = head.subarray(second + 1)
      const bytes = name.length > 0 ? name : parts[(i += 2) - 1] ?? head
      const change = changes.get(decodeName(bytes) ?? "")
      if (change === undefined) continue
      changes.set(change.path, {
        ...change,
        additions: Number(head.subarray(0, first).toString()) || 0,
        deletions: Number(head.subarray(first + 1, second).toString()) || 0
      })
    }
  }
  return [...changes.values()]
})

export const isNestedRepository = (path: Uint8Array): boolean => path.at(-1) === 0x2f

/** The empty file; git need not have it. */
export const EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

/** Lines of `update-index --index-info` that enter these files as empty. */
export const asEmpty = (paths: ReadonlyArray<Buffer>): Buffer =>
  terminated(paths.map((path) => Buffer.concat([Buffer.from(`100644 ${EMPTY_BLOB}\t`), path])))

/** New files that are looked into. An agent can make more than anybody wants to see; those are left out. */
const MAXIMUM_NEW = 20_000

/**
 * All changes against the base commit, renames found. New files are `untracked`, or `added` once they are in the commit
 * `published`; ignored ones are no changes. `nested` are the repositories that lie within the tree.
 */
export const changes = Effect.fn("Changes.changes")(function*(repository: HostRepository, box: BoxGit, published: string | undefined) {
  let others: ReadonlyArray<Buffer> = []
  const diff = yield* box.changes(repository, [...DIFF_OPTIONS, "--no-color"], (names) => {
    others = fields(names)
    // New files must be in the index to be compared; entered as empty they differ from what is in the tree.
    return asEmpty(others.filter((path) => !isNestedRepository(path) && !isGitPath(path.toString())).slice(0, MAXIMUM_NEW))
  })
  const isPublished = published === undefined ? undefined : new Set(
    fields(yield* run(repository, [
      "diff-tree", "-r", "--no-renames", "--name-only", "--diff-filter=A", "-z", repository.baseSha, published
    ])).map((path) => path.toString())
  )
  const nested = others.filter(isNestedRepository)
  return {
    changes: (yield* parse(diff)).map((change): Change =>
      change.status === "untracked" && isPublished?.has(change.path) ? { ...change, status: "added" } : change),
    nested: nested.flatMap((path) => decodeName(path.subarray(0, -1)) ?? []),
    isTruncated: others.length - nested.length > MAXIMUM_NEW
  }
})
