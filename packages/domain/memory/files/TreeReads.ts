/** Reads of the trees in memory. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import {
  CloneFailed,
  FileNotFound,
  FileProtected,
  FileTooLarge,
  type FileVersion,
  IsDirectory,
  NotADirectory,
  UnknownCommit,
  type WorkingTrees
} from "../../src/files/ports/WorkingTrees.ts"
import { searchFile } from "../../src/files/rules/SearchFile.ts"
import { type FoundFile, MAX_FOUND_FILES, MAX_SEARCHED_FILE } from "../../src/files/schema/FileSearch.ts"
import { sha1 } from "../../src/ids/Digest.ts"
import { isProtected } from "../../src/source/rules/FileRules.ts"
import type { MemoryDisk } from "./MemoryDisk.ts"
import * as MemoryPatch from "./MemoryPatch.ts"
import type { MemoryRepository } from "./MemoryRepositories.ts"
import * as MemoryTree from "./MemoryTree.ts"
import { find, type PreparedTree, type PreparedTrees } from "./PreparedTrees.ts"

type Trees = WorkingTrees["Service"]

const utf8 = new TextEncoder()

const CHUNK_BYTES = 65_536

const file = Effect.fnUntraced(function*(disk: MemoryDisk["Service"], tree: PreparedTree, path: string, maximumBytes: number) {
  const now = MemoryTree.read(disk, tree.root)
  const content = now.files.get(path)
  if (content === undefined) return yield* MemoryTree.isDirectory(now, path) ? new IsDirectory() : new FileNotFound()
  const bytes = utf8.encode(content)
  if (bytes.length > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
  return { content, bytes }
})

const blobId = (bytes: Uint8Array): string => sha1(Uint8Array.from([...utf8.encode(`blob ${bytes.length}\0`), ...bytes]))

const versionOf = (content: string | undefined, ref: string): FileVersion => {
  if (content === undefined) return null
  const bytes = utf8.encode(content)
  const binary = MemoryTree.isBinary(bytes)
  return { content: binary ? null : content, hash: blobId(bytes), ref, size: bytes.length, binary }
}

/** The tips of a name, or of a pattern such as `release/*`. */
const tipsFor = ({ branches, tags }: MemoryRepository, ref: string): ReadonlyArray<string> => {
  if (!ref.endsWith("/*")) return [branches.get(ref) ?? tags.get(ref) ?? []].flat()
  return [...branches, ...tags].flatMap(([name, sha]) => name.startsWith(ref.slice(0, -1)) ? [sha] : [])
}

/** Reads the files as they are. */
export const readsOfFiles = (trees: PreparedTrees): Pick<Trees, "changes" | "compare" | "list" | "open" | "search"> => {
  const { disk } = trees
  return {
    list: Effect.fn("WorkingTrees.list")(function*(key, directory) {
      if (isProtected(directory)) return yield* new FileProtected()
      const tree = yield* find(trees, key)
      const now = MemoryTree.read(disk, tree.root)
      if (now.files.has(directory)) return yield* new NotADirectory()
      const published = new Set(tree.published?.content.files.keys())
      const listing = MemoryTree.list(tree.base, now, published, directory, (path) => disk.writtenAtMillis(`${tree.root}/${path}`))
      return listing ?? (yield* new FileNotFound())
    }),
    changes: Effect.fn("WorkingTrees.changes")(function*(key) {
      const tree = yield* find(trees, key)
      return MemoryTree.changes(tree.base, MemoryTree.read(disk, tree.root), new Set(tree.published?.content.files.keys()))
    }),
    search: Effect.fn("WorkingTrees.search")(function*(key, search) {
      const tree = yield* find(trees, key)
      const files: Array<FoundFile> = []
      let isComplete = true
      for (const { bytes, path } of MemoryTree.visible(tree.base, MemoryTree.read(disk, tree.root))) {
        if (isProtected(path)) continue
        const found = searchFile(path, bytes.length > MAX_SEARCHED_FILE ? null : bytes, search)
        if (bytes.length > MAX_SEARCHED_FILE) isComplete = false
        if (found === null) continue
        if (files.length === MAX_FOUND_FILES) {
          isComplete = false
          break
        }
        files.push(found)
      }
      return { files, isComplete }
    }),
    open: Effect.fn("WorkingTrees.open")(function*(key, path, maximumBytes) {
      if (isProtected(path)) return yield* new FileProtected()
      const tree = yield* find(trees, key)
      let { bytes, content } = yield* file(disk, tree, path, maximumBytes)
      const size = bytes.length
      return {
        size,
        bytes: Stream.unfold(0, (position) =>
          Effect.suspend(() => {
            if (position === size) return Effect.undefined
            // A deleted file stays readable through an open handle.
            const now = disk.files.get(`${tree.root}/${path}`) ?? content
            if (now !== content) [bytes, content] = [utf8.encode(now), now]
            const chunk = bytes.subarray(position, Math.min(size, position + CHUNK_BYTES))
            return chunk.length === 0 ? Effect.fail(new FileNotFound()) : Effect.succeed([chunk, position + chunk.length] as const)
          }))
      }
    }),
    compare: Effect.fn("WorkingTrees.compare")(function*(key, path, maximumBytes) {
      if (isProtected(path)) return yield* new FileProtected()
      const tree = yield* find(trees, key)
      const working = yield* file(disk, tree, path, maximumBytes).pipe(
        Effect.map(({ content }) => content),
        Effect.catchTag("FileNotFound", () => Effect.undefined)
      )
      const base = tree.base.files.get(path)
      const { published } = tree
      const versions = {
        working: versionOf(working, "working"),
        head: published === null ? versionOf(base, tree.baseSha) : versionOf(published.content.files.get(path), published.sha),
        base: versionOf(base, tree.baseSha)
      }
      const isTooLarge = Object.values(versions).some((version) => version !== null && version.size > maximumBytes)
      return isTooLarge ? yield* new FileTooLarge({ maximumBytes }) : versions
    })
  }
}

/** Reads commits. */
export const readsOfCommits = (trees: PreparedTrees): Pick<Trees, "diff" | "findBase" | "findBaseRef" | "readBase"> => {
  const { disk, repositories } = trees
  return {
    readBase: Effect.fn("WorkingTrees.readBase")(function*(key, paths, { maximumBytes }) {
      const { base } = yield* find(trees, key)
      return new Map(
        Array.from(paths).flatMap((path) => {
          const content = base.files.get(path)
          if (content === undefined) return []
          const bytes = utf8.encode(content)
          return [[path, { blob: blobId(bytes), content: bytes.length > maximumBytes ? null : bytes }]]
        })
      )
    }),
    findBase: Effect.fn("WorkingTrees.findBase")(function*(key, names, { maximum }) {
      const { base } = yield* find(trees, key)
      const wanted = new Set(names)
      const found = Array.from(base.files).filter(([path]) => wanted.has(path.slice(path.lastIndexOf("/") + 1)))
      return found.length > maximum ? null : new Map(found.map(([path, content]) => [path, blobId(utf8.encode(content))]))
    }),
    findBaseRef: Effect.fn("WorkingTrees.findBaseRef")(function*(key, { refs, remote }) {
      const { baseSha } = yield* find(trees, key)
      const repository = repositories.at(remote.url)
      if (repository === undefined) {
        return yield* new CloneFailed({ repo: key.repo, detail: "The repository was not found.", retryable: false })
      }
      return {
        baseSha,
        on: refs.find((ref) => tipsFor(repository, ref).some((tip) => repository.history(tip).includes(baseSha))) ?? null
      }
    }),
    diff: Effect.fn("WorkingTrees.diff")(function*(key, { from, isWhole, maximumBytes, path, to }) {
      const tree = yield* find(trees, key)
      const contentAt = (version: string) => {
        if (version === "base" || version === tree.baseSha) return tree.base
        if (version === "working") return MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root), "saved") ?? tree.base
        return tree.saved.get(version)
      }
      const [before, after] = [contentAt(from), contentAt(to)]
      if (before === undefined || after === undefined) {
        return yield* new UnknownCommit({ commits: [...new Set([from, to])].filter((version) => contentAt(version) === undefined) })
      }
      const bytes = utf8.encode(MemoryPatch.patch(before, after, path, isWhole))
      return bytes.length > maximumBytes ? yield* new FileTooLarge({ maximumBytes }) : bytes
    })
  }
}
