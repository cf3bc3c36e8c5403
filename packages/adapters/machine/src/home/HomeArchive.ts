/**
 * Files of a home as bytes. They begin with {@link MAGIC}. Then come records, each a tag and its content:
 *
 *     1  length (2 bytes), path            the next records are everything that was at this path, in the order of paths
 *     2  length (2 bytes), path            a file, at that path or below it
 *     3  length (4 bytes), bytes           the next piece of that file
 *     0  SHA-256 of all bytes before it    the end
 *
 * Numbers have their highest byte first. Paths are UTF-8, relative, with `/` between names.
 */
import * as Frames from "@slipway/domain/files/rules/Frames"
import { createHash, type Hash } from "node:crypto"

const MAGIC = Buffer.from("slipway home 1\n")

const END = 0
const AREA = 1
const FILE = 2
const PIECE = 3
const PATH_LENGTH_BYTES = 2
const PIECE_LENGTH_BYTES = 4

/** As Linux has it. */
const MAXIMUM_PATH_BYTES = 4096
const MAXIMUM_NAME_BYTES = 255
export const MAXIMUM_PIECE_BYTES = 65_536
/** The paths themselves are kept in memory until all is written. */
export const MAXIMUM_FILES = 20_000
/** Folders above a file. */
export const MAXIMUM_DEPTH = 32
const MAXIMUM_AREAS = 64
const DIGEST_BYTES = 32

/** Whether it is relative, stays below the home, and can be a path at all. */
export const isPath = (path: string): boolean => {
  const names = path.split("/")
  return !path.includes("\0") && Buffer.byteLength(path) <= MAXIMUM_PATH_BYTES && names.length <= MAXIMUM_DEPTH &&
    names.every((name) => name !== "" && name !== "." && name !== ".." && Buffer.byteLength(name) <= MAXIMUM_NAME_BYTES)
}

const isWithin = (area: string, path: string): boolean => path === area || path.startsWith(`${area}/`)

/** Whether no path lies in another one. */
export const areApart = (areas: ReadonlyArray<string>): boolean =>
  areas.every((area, i) => areas.every((other, j) => i === j || !isWithin(area, other)))

/** Makes the bytes, in order. */
export class Writer {
  readonly #hash: Hash = createHash("sha256")

  #said(bytes: Buffer): Buffer {
    this.#hash.update(bytes)
    return bytes
  }

  #record(tag: number, lengthBytes: number, content: Uint8Array): Buffer {
    return this.#said(Buffer.concat([Buffer.of(tag), Frames.numberOf(content.length, lengthBytes), content]))
  }

  begin(): Buffer {
    return this.#said(MAGIC)
  }

  area(path: string): Buffer {
    return this.#record(AREA, PATH_LENGTH_BYTES, Buffer.from(path))
  }

  file(path: string): Buffer {
    return this.#record(FILE, PATH_LENGTH_BYTES, Buffer.from(path))
  }

  /** One to {@link MAXIMUM_PIECE_BYTES} bytes. */
  piece(bytes: Uint8Array): Buffer {
    return this.#record(PIECE, PIECE_LENGTH_BYTES, bytes)
  }

  end(): Buffer {
    return Buffer.concat([this.#said(Buffer.of(END)), this.#hash.digest()])
  }
}

export type HomeRecord =
  | { readonly tag: "area" | "file"; readonly path: string }
  | { readonly tag: "piece"; readonly bytes: Uint8Array }

const refused = (reason: Frames.FrameError["reason"], detail: string) => new Frames.FrameError({ reason, detail })

/** The records of an archive. */
export function* records(): Frames.Format<HomeRecord> {
  const hash = createHash("sha256")
  function* hashed(length: number) {
    const found = yield* Frames.bytes(length)
    hash.update(found)
    return found
  }
  const areas: Array<string> = []
  let files = 0
  let isInFile = false
  hash.update(yield* Frames.magic(MAGIC, "They do not begin as such files do."))
  for (let [tag] = yield* hashed(1); tag !== END; [tag] = yield* hashed(1)) {
    if (tag === PIECE) {
      const length = Frames.numberIn(yield* hashed(PIECE_LENGTH_BYTES))
      if (length === 0 || length > MAXIMUM_PIECE_BYTES) throw refused("too_large", "A piece is too long, or empty.")
      if (!isInFile) throw refused("not_ours", "A piece belongs to no file.")
      yield* Frames.give<HomeRecord>({ tag: "piece", bytes: yield* hashed(length) })
      continue
    }
    if (tag !== AREA && tag !== FILE) throw refused("not_ours", "They have a record of an unknown kind.")
    const length = Frames.numberIn(yield* hashed(PATH_LENGTH_BYTES))
    if (length > MAXIMUM_PATH_BYTES) throw refused("too_large", "A path is too long.")
    const path = Buffer.from(yield* hashed(length)).toString()
    if (!isPath(path)) throw refused("not_ours", "A path does not stay below the home.")
    isInFile = tag === FILE
    if (isInFile) {
      if (!isWithin(areas.at(-1) ?? "", path)) throw refused("not_ours", "A file lies in none of their paths.")
      if (++files > MAXIMUM_FILES) throw refused("too_large", "There are too many files.")
    } else {
      areas.push(path)
      if (areas.length > MAXIMUM_AREAS) throw refused("too_large", "There are too many paths.")
      if (!areApart(areas)) throw refused("not_ours", "A path lies in another one.")
    }
    yield* Frames.give<HomeRecord>({ tag: isInFile ? "file" : "area", path })
  }
  const digest = hash.digest()
  if (!Frames.isSame(yield* Frames.bytes(DIGEST_BYTES), digest)) throw refused("changed", "Their checksum is another one.")
}
