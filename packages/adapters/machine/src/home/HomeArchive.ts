/**
 * Files of a home as one run of bytes, so that what is cut or changed on its way is noticed. It begins with {@link MAGIC}, then
 * come records, each a tag and what the tag says:
 *
 *     1  length (2 bytes), path            what follows is all that was at this path, in the order of the paths
 *     2  length (2 bytes), path            a file, at that path or below it
 *     3  length (4 bytes), bytes           the next piece of that file
 *     0  SHA-256 of all bytes before it    the end
 *
 * Numbers have their highest byte first; paths are UTF-8, relative, with `/` between names.
 */
import { createHash, type Hash } from "node:crypto"

const MAGIC = Buffer.from("slipway home 1\n")

const END = 0
const AREA = 1
const FILE = 2
const PIECE = 3

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

/** The message is a sentence. */
export class Damaged extends Error {}

/** Whether it is relative, stays below the home, and can be a path at all. */
export const isPath = (path: string): boolean => {
  const names = path.split("/")
  return !path.includes("\0") && Buffer.byteLength(path) <= MAXIMUM_PATH_BYTES && names.length <= MAXIMUM_DEPTH &&
    names.every((name) => name !== "" && name !== "." && name !== ".." && Buffer.byteLength(name) <= MAXIMUM_NAME_BYTES)
}

export const isWithin = (area: string, path: string): boolean => path === area || path.startsWith(`${area}/`)

/** What is at one of them is at no other. */
export const areApart = (areas: ReadonlyArray<string>): boolean =>
  areas.every((area, i) => areas.every((other, j) => i === j || !isWithin(area, other)))

/** Makes the bytes, in order. */
export class Writer {
  readonly #hash: Hash = createHash("sha256")

  #said(bytes: Buffer): Buffer {
    this.#hash.update(bytes)
    return bytes
  }

  #path(tag: number, path: string): Buffer {
    const bytes = Buffer.from(path)
    const head = Buffer.alloc(3)
    head[0] = tag
    head.writeUInt16BE(bytes.length, 1)
    return this.#said(Buffer.concat([head, bytes]))
  }

  begin(): Buffer {
    return this.#said(MAGIC)
  }

  area(path: string): Buffer {
    return this.#path(AREA, path)
  }

  file(path: string): Buffer {
    return this.#path(FILE, path)
  }

  /** At most {@link MAXIMUM_PIECE_BYTES}, at least one. */
  piece(bytes: Uint8Array): Buffer {
    const head = Buffer.alloc(5)
    head[0] = PIECE
    head.writeUInt32BE(bytes.length, 1)
    return this.#said(Buffer.concat([head, bytes]))
  }

  end(): Buffer {
    return Buffer.concat([this.#said(Buffer.of(END)), this.#hash.digest()])
  }
}

export type Record =
  | { readonly tag: "area" | "file"; readonly path: string }
  | { readonly tag: "piece"; readonly bytes: Buffer }

/** Takes the bytes in pieces of any size. Throws {@link Damaged}. */
export class Reader {
  readonly #hash: Hash = createHash("sha256")
  readonly #areas: Array<string> = []
  #rest: Buffer = Buffer.alloc(0)
  #begun = false
  #ended = false
  #files = 0
  #last: Record["tag"] | null = null

  /** The paths whose files these are, when all was taken. */
  finish(): ReadonlyArray<string> {
    if (!this.#ended) throw new Damaged("The end is missing.")
    return this.#areas
  }

  /** Whole records so far that were not given out yet. */
  *take(bytes: Uint8Array): Generator<Record> {
    this.#rest = this.#rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes])
    if (!this.#begun) {
      if (this.#rest.length < MAGIC.length) return
      if (!this.#next(MAGIC.length).equals(MAGIC)) throw new Damaged("They do not begin as such files do.")
      this.#begun = true
    }
    for (;;) {
      if (this.#ended && this.#rest.length > 0) throw new Damaged("Something follows their end.")
      const record = this.#record()
      if (record === undefined) return
      if (record !== "end") yield record
    }
  }

  #next(length: number): Buffer {
    const next = this.#rest.subarray(0, length)
    this.#hash.update(next)
    this.#rest = this.#rest.subarray(length)
    return next
  }

  #record(): Record | "end" | undefined {
    const rest = this.#rest
    if (rest.length === 0) return undefined
    switch (rest[0]) {
      case END: {
        if (rest.length < 1 + DIGEST_BYTES) return undefined
        this.#next(1)
        if (!this.#rest.subarray(0, DIGEST_BYTES).equals(this.#hash.digest())) throw new Damaged("Their checksum is another one.")
        this.#rest = this.#rest.subarray(DIGEST_BYTES)
        this.#ended = true
        return "end"
      }
      case AREA:
      case FILE: {
        if (rest.length < 3) return undefined
        const length = rest.readUInt16BE(1)
        if (length > MAXIMUM_PATH_BYTES) throw new Damaged("A path is too long.")
        if (rest.length < 3 + length) return undefined
        return this.#checked(rest[0] === AREA ? "area" : "file", this.#next(3 + length).subarray(3).toString())
      }
      case PIECE: {
        if (rest.length < 5) return undefined
        const length = rest.readUInt32BE(1)
        if (length === 0 || length > MAXIMUM_PIECE_BYTES) throw new Damaged("A piece has a length that none has.")
        if (this.#last !== "file" && this.#last !== "piece") throw new Damaged("A piece belongs to no file.")
        if (rest.length < 5 + length) return undefined
        this.#last = "piece"
        return { tag: "piece", bytes: this.#next(5 + length).subarray(5) }
      }
      default:
        throw new Damaged("They hold what no such files do.")
    }
  }

  #checked(tag: "area" | "file", path: string): Record {
    if (!isPath(path)) throw new Damaged("A path does not stay below the home.")
    if (tag === "area") {
      this.#areas.push(path)
      if (this.#areas.length > MAXIMUM_AREAS) throw new Damaged("There are too many paths.")
      if (!areApart(this.#areas)) throw new Damaged("A path lies in another one.")
    } else {
      if (!isWithin(this.#areas.at(-1) ?? "", path)) throw new Damaged("A file lies in none of their paths.")
      if (++this.#files > MAXIMUM_FILES) throw new Damaged("There are too many files.")
    }
    this.#last = tag
    return { tag, path }
  }
}
