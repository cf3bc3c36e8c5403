/**
 * The search in a working tree. Git says which files are of the tree: those of the commit it started from, and those that differ. Each
 * is read by a descriptor that follows no link, as when it is opened.
 */
import { searchFile } from "@slipway/domain/files/rules/SearchFile"
import {
  type FileSearch,
  type FoundFile,
  type FoundFiles,
  MAX_FOUND_FILES,
  MAX_SEARCH_SECONDS,
  MAX_SEARCHED_BYTES,
  MAX_SEARCHED_FILE
} from "@slipway/domain/files/schema/FileSearch"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { Clock, Effect, Stream } from "effect"
import { fields } from "../Git.ts"
import { AT_ONCE } from "../InPieces.ts"
import { decodeName } from "./Changes.ts"
import { type HostRepository, run } from "./HostRepository.ts"
import * as Listing from "./Listing.ts"

/** Files that are read at the same time. */
const AT_A_TIME = 8

const TAB = 0x09

/** Names of the plain files of the commit, in byte order. */
const committed = Effect.fnUntraced(function*(repository: HostRepository) {
  const entries = fields(yield* run(repository, ["ls-tree", "-r", "-z", repository.baseSha]))
  return entries.flatMap((entry) => entry.subarray(0, 3).toString() === "100" ? [entry.subarray(entry.indexOf(TAB) + 1)] : [])
})

/** All names of two lists in byte order, each once. */
const merged = function*(some: ReadonlyArray<Buffer>, others: ReadonlyArray<Buffer>): Generator<Buffer, void> {
  for (let i = 0, j = 0;;) {
    const [one, other] = [some[i], others[j]]
    if (one === undefined && other === undefined) return
    const order = one === undefined ? 1 : other === undefined ? -1 : Buffer.compare(one, other)
    if (order <= 0) i++
    if (order >= 0) j++
    yield (order <= 0 ? one : other) ?? Buffer.alloc(0)
  }
}

/** `null`: no file that may be read. `content`: `null` if it is too large. */
const read = ({ tree }: HostRepository, path: string) =>
  tree.openFile(path, MAX_SEARCHED_FILE).pipe(
    Effect.flatMap(({ bytes }) => Stream.runCollect(bytes)),
    Effect.map((pieces) => ({ path, content: Buffer.concat(pieces) })),
    Effect.scoped,
    Effect.catchTags({
      FileTooLarge: () => Effect.succeed({ path, content: null }),
      FileNotFound: () => Effect.succeed(null),
      FileProtected: () => Effect.succeed(null),
      IsDirectory: () => Effect.succeed(null)
    })
  )

/** `comparison`: `undefined` if git could not read the tree. */
export const search = Effect.fn("SearchTree.search")(
  function*(repository: HostRepository, comparison: Listing.Comparison | undefined, wanted: FileSearch) {
    const until = (yield* Clock.currentTimeMillis) + MAX_SEARCH_SECONDS * 1_000
    const base = yield* Listing.known(repository.repo, committed(repository))
    const changed = (comparison?.changes ?? []).flatMap(({ kind, path }) => kind === "file" ? [Buffer.from(path)] : [])
      .sort((a, b) => Buffer.compare(a, b))
    const files: Array<FoundFile> = []
    let isComplete = base !== undefined && comparison !== undefined && !comparison.isTruncated
    let bytes = 0

    /** Whether the search goes on. */
    const look = Effect.fnUntraced(function*(paths: ReadonlyArray<string>) {
      for (const one of yield* Effect.forEach(paths, (path) => read(repository, path), { concurrency: AT_A_TIME })) {
        if (one === null) continue
        bytes += one.content?.length ?? 0
        if (one.content === null) isComplete = false
        const found = searchFile(one.path, one.content, wanted)
        if (found === null) continue
        if (files.length === MAX_FOUND_FILES) {
          isComplete = false
          return false
        }
        files.push(found)
      }
      return bytes <= MAX_SEARCHED_BYTES && (yield* Clock.currentTimeMillis) < until
    })

    let batch: Array<string> = []
    let [goesOn, steps] = [true, 0]
    for (const name of merged(base ?? [], changed)) {
      if (++steps % AT_ONCE === 0) yield* Effect.yieldNow
      const path = decodeName(name)
      if (path === undefined || isProtected(path)) continue
      if (batch.length === AT_A_TIME) {
        goesOn = yield* look(batch)
        if (!goesOn) break
        batch = []
      }
      batch.push(path)
    }
    if (goesOn) yield* look(batch)
    const found: FoundFiles = { files, isComplete: isComplete && goesOn }
    return found
  }
)
