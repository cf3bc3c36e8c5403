/** Names in a folder as bytes of a channel: a byte for the kind, one for the length, the name. */
import { Violation } from "./Wire.ts"

export type EntryKind = "file" | "directory" | "link" | "other"

export interface Entry {
  /** 1 to 255 bytes, which need not be text. */
  readonly name: Uint8Array
  /** As the file system says, without following links. */
  readonly kind: EntryKind
}

const kinds = ["file", "directory", "link", "other"] as const

export const encodeEntry = ({ kind, name }: Entry): Buffer => Buffer.concat([Buffer.of(kinds.indexOf(kind), name.length), name])

const isName = (name: Buffer): boolean => {
  const text = name.toString("latin1")
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/u.test(text)
}

/** Reads what comes in pieces. Throws `Violation` for names that no folder has, and for more of them than `most`. */
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
    while (start + 2 <= all.length) {
      const kind = kinds[all[start] ?? -1]
      const end = start + 2 + (all[start + 1] ?? 0)
      if (kind === undefined) throw new Violation("an entry of an unknown kind")
      if (end > all.length) break
      const name = all.subarray(start + 2, end)
      if (!isName(name)) throw new Violation("a name that no folder has")
      if (this.entries.length === this.#most) throw new Violation("more names than were asked for")
      this.entries.push({ name: new Uint8Array(name), kind })
      start = end
    }
    this.#left = all.subarray(start)
  }

  end(): ReadonlyArray<Entry> {
    if (this.#left.length > 0) throw new Violation("a name that was cut short")
    return this.entries
  }
}
