/** Reads what the script of `BoxScript` says. An agent may have filled it: nothing is read without a limit. */
import { Effect } from "effect"
import { eachField, GitFailed } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { MAXIMUM_INDEX_BYTES } from "./BoxScript.ts"
import type { Change } from "./TreePlace.ts"

/** Bytes of names and differences: more than is ever shown. The agent cannot have the host read without end. */
export const MAXIMUM_BYTES = 16_777_216
const NUL = 0
/**
 * The bytes of an entry of `git status` before the name: how the index differs from the commit, how the tree differs from the index, a
 * space.
 */
const STATUS_BYTES = 3
const UNCHANGED = 0x20
const NEW = 0x3f
/** A folder of a submodule in which there are files. */
const HELD = 0x21
const DELETED = 0x44
const LINE_FEED = 0x0a
/** The most bytes of the line with the size. */
const INDEX_HEAD_BYTES = 20

const IN_BOX = "in the box"

export const failed = (what: string, reason: GitFailed["reason"], stderr: string, code: number | null = null) =>
  new GitFailed({ command: `${IN_BOX} (${what})`, reason, code, stderr })

/** Whether it is git in a box that failed with this: what its disk refuses is not ours. */
export const isOfBox = (defect: unknown): boolean => defect instanceof GitFailed && defect.command.startsWith(IN_BOX)

/** The names that come first are given out when the empty one has come that ends them, each with its NUL; then the rest. */
export const afterNames = <E1, E2>(
  names: (names: Buffer) => Effect.Effect<void, E1>,
  rest: (bytes: Uint8Array) => Effect.Effect<void, E2>
) => {
  const begun: Array<Uint8Array> = []
  let size = 0
  let last: number | undefined = NUL
  let told = false
  return Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (told) return yield* rest(bytes)
    const end = last === NUL && bytes[0] === NUL ? 0 : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf("\0\0") + 1 || -1
    last = bytes.at(-1) ?? last
    begun.push(end < 0 ? bytes : bytes.subarray(0, end))
    size += bytes.length
    if (size > MAXIMUM_BYTES) return yield* failed("names", "output", "")
    if (end < 0) return
    told = true
    yield* names(Buffer.concat(begun))
    if (end + 1 < bytes.length) yield* rest(bytes.subarray(end + 1))
  })
}

/** The index that comes first is given out when it is whole, unless there is none; then the rest. */
export const afterIndex = <E1, E2>(
  index: (index: Buffer) => Effect.Effect<void, E1>,
  rest: (bytes: Uint8Array) => Effect.Effect<void, E2>
) => {
  let begun: Array<Uint8Array> | undefined = []
  let size = 0
  let end: number | undefined
  return Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (begun === undefined) return yield* rest(bytes)
    begun.push(bytes)
    size += bytes.length
    if (end === undefined) {
      const head = Buffer.concat(begun)
      const line = head.indexOf(LINE_FEED)
      if (line < 0 && size > INDEX_HEAD_BYTES) return yield* failed("index", "output", "")
      if (line < 0) return
      const length = Number(head.subarray(0, line).toString("latin1"))
      if (!(length <= MAXIMUM_INDEX_BYTES)) return yield* failed("index", "output", "")
      end = line + 1 + length
    }
    if (size < end) return
    const all = Buffer.concat(begun)
    begun = undefined
    const told = all.subarray(all.indexOf(LINE_FEED) + 1, end)
    if (told.length > 0) yield* index(told)
    if (end < all.length) yield* rest(all.subarray(end))
  })
}

/** The names of files that differ, of new ones, and of folders of submodules with files, of what `git status` and we say. */
export const sorted = Effect.fnUntraced(function*(entries: Buffer) {
  const [changed, added, submodules]: [Array<Change>, Array<Buffer>, Array<Buffer>] = [[], [], []]
  yield* inPieces(eachField(entries), (entry) => {
    const path = entry.subarray(STATUS_BYTES)
    if (entry[1] === HELD) submodules.push(path)
    else if (entry[1] === NEW) added.push(path)
    else if (entry[1] !== UNCHANGED) changed.push({ path, mayBeRepository: entry[1] !== DELETED })
  })
  return { added, changed, submodules }
})

/** Puts what comes together, up to the limit. */
export const collecting = (what: string) => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  return {
    add: (bytes: Uint8Array) =>
      Effect.suspend(() => {
        size += bytes.length
        if (size > MAXIMUM_BYTES) return Effect.fail(failed(what, "output", ""))
        chunks.push(bytes)
        return Effect.void
      }),
    all: () => Buffer.concat(chunks)
  }
}
