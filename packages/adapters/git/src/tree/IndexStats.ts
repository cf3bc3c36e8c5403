/**
 * The file stats in the index of a tree, as git in the tree's box saw them. User ids differ inside the box, and a change of the owner sets
 * a `ctime` that cannot be set back. Without these stats git in the box would read every file at each look.
 *
 * A file counts as unchanged while its size, times, owner and number are those of the index. Every change sets the time of the last change
 * (`ctime`), which is then at least a second later than the index, because the index has no stats of younger files.
 */
import { LruCache } from "@slipway/domain/store/LruCache"
import { Effect } from "effect"
import { createHash, type Hash } from "node:crypto"
import { chmod, readFile, rename, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { inPieces } from "../InPieces.ts"
import { type HostRepository, identity, scratch } from "./HostRepository.ts"

/** Those that end their names with NUL (the index format of git, `gitformat-index`). */
const VERSIONS = [2, 3]
const HEADER_BYTES = 12
/** In an entry: two times (`ctime`, `mtime`), device, number, mode, owners, size; the object's id. Then come flags, and the name. */
const MODIFIED_AT = 8
const MODE_AT = 24
const OWNER_AT = 28
const ID_AT = 40
const EXTENDED = 0x4000
/** Between two looks at the clock of a file system and ours. */
const MARGIN_SECONDS = 2
const HASHED_BYTES = 1_048_576

interface Entry {
  /** Where it begins. */
  readonly at: number
  readonly idAt: number
  readonly end: number
}

function* entriesOf(index: Buffer, idBytes: number): Generator<Entry, undefined> {
  if (index.length < HEADER_BYTES || !VERSIONS.includes(index.readUInt32BE(4))) return
  const count = index.readUInt32BE(8)
  for (let i = 0, at = HEADER_BYTES; i < count; i++) {
    const flagsAt = at + ID_AT + idBytes
    if (flagsAt + 4 > index.length) return
    const nameAt = flagsAt + (index.readUInt16BE(flagsAt) & EXTENDED ? 4 : 2)
    const end = index.indexOf(0, nameAt)
    if (end < 0) return
    yield { at, idAt: at + ID_AT, end }
    // Ends with one to eight of them, at a multiple of eight.
    at += (end - at + 8) & ~7
  }
}

const hashOf = (idBytes: number): Hash => createHash(idBytes === 20 ? "sha1" : "sha256")

/**
 * `index`, which is ours, with the file stats of `told`, which is the box's: nothing else is taken from there. It keeps no stats of files
 * that may have changed since `seconds`, the time since the epoch at which the box was asked; `unsettled` counts them. `undefined`: the two
 * have different files.
 */
export const merge = Effect.fnUntraced(function*(index: Buffer, told: Buffer, idBytes: number, seconds: number) {
  const merged = Buffer.from(index)
  const others = entriesOf(told, idBytes)
  const before = seconds - MARGIN_SECONDS
  let [isSame, unsettled, count] = [true, 0, 0]
  yield* inPieces(entriesOf(index, idBytes), ({ at, end, idAt }) => {
    const other = others.next().value
    isSame = other !== undefined && index.subarray(idAt, end).equals(told.subarray(other.idAt, other.end))
    if (!isSame || other === undefined) return false
    count++
    told.copy(merged, at, other.at, other.at + MODE_AT)
    told.copy(merged, at + OWNER_AT, other.at + OWNER_AT, other.at + ID_AT)
    if (merged.readUInt32BE(at) < before && merged.readUInt32BE(at + MODIFIED_AT) < before) return true
    merged.fill(0, at, at + MODE_AT).fill(0, at + OWNER_AT, at + ID_AT)
    unsettled++
    return true
  })
  if (!isSame || count === 0 || count !== index.readUInt32BE(8)) return undefined
  const hash = hashOf(idBytes)
  const end = merged.length - idBytes
  for (let at = 0; at < end; at += HASHED_BYTES) {
    hash.update(merged.subarray(at, Math.min(at + HASHED_BYTES, end)))
    yield* Effect.yieldNow
  }
  hash.digest().copy(merged, end)
  return { merged, unsettled }
})

/** By repository, when its index was written last, and how many files it knew nothing of. */
const written = new LruCache<string, { readonly seconds: number; readonly unsettled: number }>(10_000)
/** Git may read this many files at each look: it takes no noticeable time. */
const FEW = 50

/** Whether the index would gain by what the box knows. `isSaved`: the tree is saved or published, so much may have changed. */
export const isWanted = (repository: HostRepository, seconds: number, isSaved: boolean): Effect.Effect<boolean> =>
  Effect.map(identity(repository), (name) => {
    const last = written.get(name)
    if (last === undefined) return true
    return seconds > last.seconds + MARGIN_SECONDS && (isSaved || last.unsettled > FEW)
  })

/** Writes what the box knows into the index. Where it does not work out, git goes on reading files. */
export const keep = Effect.fnUntraced(
  function*(repository: HostRepository, told: Buffer, seconds: number) {
    const path = join(repository.gitDir, "index")
    const made = yield* merge(yield* Effect.promise(() => readFile(path)), told, repository.baseSha.length / 2, seconds)
    if (made === undefined) return
    const beside = yield* scratch(repository)
    yield* Effect.promise(async () => {
      await writeFile(beside, made.merged)
      await chmod(beside, 0o644)
      // Git reads each file that is not older than the index.
      await utimes(beside, seconds, seconds)
      await rename(beside, path)
    })
    written.set(yield* identity(repository), { seconds, unsettled: made.unsettled })
  },
  Effect.scoped,
  Effect.catchCause((cause) => Effect.logWarning("what git knows of the files of a tree could not be kept", cause))
)
