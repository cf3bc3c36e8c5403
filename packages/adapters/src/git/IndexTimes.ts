/**
 * What an index knows of its files. Git reads a file again, each time it looks, whose time lies in the second in which the index
 * was written: it may have been changed since. Of a small tree these are all files.
 */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { lutimesSync } from "node:fs"
import { readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { inPieces } from "./InPieces.ts"

/** Those that end their names with NUL (the index format of git, `gitformat-index`). */
const VERSIONS = [2, 3]
const HEADER_BYTES = 12
/** In an entry: the time of the last change of the file's content, the object's id. Then come flags, and the name. */
const MODIFIED_AT = 8
const ID_AT = 40
const EXTENDED = 0x4000

const HASHED_BYTES = 1_048_576

interface Entry {
  /** Where it begins. */
  readonly at: number
  readonly name: Buffer
}

function* entriesOf(index: Buffer, idBytes: number): Generator<Entry, undefined> {
  const count = index.readUInt32BE(8)
  for (let i = 0, at = HEADER_BYTES; i < count; i++) {
    const flagsAt = at + ID_AT + idBytes
    const nameAt = flagsAt + (index.readUInt16BE(flagsAt) & EXTENDED ? 4 : 2)
    const end = index.indexOf(0, nameAt)
    yield { at, name: index.subarray(nameAt, end) }
    // Ends with one to eight of them, at a multiple of eight.
    at += (end - at + 8) & ~7
  }
}

/**
 * Makes those files of a tree older than the indexes of it, on the disk and in the indexes. For a tree that nobody else has seen:
 * whoever changes a file from now on gives it another time.
 */
export const settle = Effect.fnUntraced(function*(tree: string, baseSha: string, paths: ReadonlyArray<string>) {
  const folder = Buffer.from(join(tree, "/"))
  const idBytes = baseSha.length / 2
  const written = yield* Effect.promise(() => Promise.all(paths.map((path) => stat(path))))
  const before = Math.min(...written.map(({ mtimeMs }) => Math.floor(mtimeMs / 1_000))) - 1
  yield* Effect.forEach(paths, (path) =>
    Effect.gen(function*() {
      const index = yield* Effect.promise(() => readFile(path))
      if (!VERSIONS.includes(index.readUInt32BE(4))) return
      yield* inPieces(entriesOf(index, idBytes), ({ at, name }) => {
        if (index.readUInt32BE(at + MODIFIED_AT) <= before) return
        lutimesSync(Buffer.concat([folder, name]), before, before)
        index.writeUInt32BE(before, at + MODIFIED_AT)
        index.writeUInt32BE(0, at + MODIFIED_AT + 4)
      })
      const hash = createHash(idBytes === 20 ? "sha1" : "sha256")
      const end = index.length - idBytes
      for (let at = 0; at < end; at += HASHED_BYTES) {
        hash.update(index.subarray(at, Math.min(at + HASHED_BYTES, end)))
        yield* Effect.yieldNow
      }
      hash.digest().copy(index, end)
      yield* Effect.promise(() => writeFile(path, index))
    }), { discard: true })
})
