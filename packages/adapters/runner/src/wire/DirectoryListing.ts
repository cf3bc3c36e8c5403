/** Names in a folder as bytes of a channel: a byte for the kind, one for the length, six for the size, six for the time, the name. */
import { Violation } from "./Wire.ts"

export type EntryKind = "file" | "directory" | "link" | "other"

export interface Entry {
  /** 1 to 255 bytes, which need not be text. */
  readonly name: Uint8Array
  /** As in the file system, without following links. */
  readonly kind: EntryKind
  /** Bytes, of a file. */
  readonly size: number
  /** Whole milliseconds since the epoch, of the last change of its content. */
  readonly mtimeMs: number
}

const kinds = ["file", "directory", "link", "other"] as const

const NUMBER_BYTES = 6
const SIZE_AT = 2
const TIME_AT = SIZE_AT + NUMBER_BYTES
const NAME_AT = TIME_AT + NUMBER_BYTES
const MOST = 2 ** (8 * NUMBER_BYTES) - 1

const within = (value: number): number => Math.min(MOST, Math.max(0, Math.floor(value)))

export const encodeEntry = ({ kind, mtimeMs, name, size }: Entry): Buffer => {
  const head = Buffer.alloc(NAME_AT)
  head[0] = kinds.indexOf(kind)
  head[1] = name.length
  head.writeUIntBE(within(size), SIZE_AT, NUMBER_BYTES)
  head.writeUIntBE(within(mtimeMs), TIME_AT, NUMBER_BYTES)
  return Buffer.concat([head, name])
}

const isName = (name: Buffer): boolean => {
  const text = name.toString("latin1")
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/u.test(text)
}

/** Reads a listing in pieces. Throws `Violation` for impossible names, and for more than `most` names. */
export class EntryReader {
  readonly #most: number
  readonly entries: Array<Entry> = []
  #left: Buffer = Buffer.alloc(0)

  constructor(most: number) {
    this.#most = most
  }

  add(bytes: Uint8Array): void {
    const all = Buffer.concat([this.#left, bytes])
    let start = 0
    while (start + NAME_AT <= all.length) {
      const kind = kinds[all[start] ?? -1]
      const end = start + NAME_AT + (all[start + 1] ?? 0)
      if (kind === undefined) throw new Violation("an entry of an unknown kind")
      if (end > all.length) break
      const name = all.subarray(start + NAME_AT, end)
      if (!isName(name)) throw new Violation("a name that no folder has")
      if (this.entries.length === this.#most) throw new Violation("more names than were asked for")
      this.entries.push({
        name: new Uint8Array(name),
        kind,
        size: all.readUIntBE(start + SIZE_AT, NUMBER_BYTES),
        mtimeMs: all.readUIntBE(start + TIME_AT, NUMBER_BYTES)
      })
      start = end
    }
    this.#left = all.subarray(start)
  }

  end(): ReadonlyArray<Entry> {
    if (this.#left.length > 0) throw new Violation("a name that was cut short")
    return this.entries
  }
}
