/**
 * Removes the secrets of one sandbox from its processes' output while they write: all encodings of `Forms.ts`, also when a chunk ends
 * within one. The time is linear in the output for any secrets and any output: it looks for pieces of bounded length, at places that do
 * not depend on the number of secrets.
 */
import * as Layer from "effect/Layer"
import { OutputRedaction, type RedactedOutput } from "../ports/OutputRedaction.ts"
import { formsOf, linesOf, partsOf, SHORTEST } from "./Forms.ts"
import { SHOWN } from "./Redaction.ts"

/** Longer encodings are hidden in pieces of this length, and by their end. */
const LONGEST = 32

/** The undecided rest that is held back: the longest piece may begin in it. */
const KEPT = LONGEST - 1

/** Ignores the case of ASCII letters and keeps the length. */
const folded = (text: string): string => text.replace(/[A-Z]+/gu, (letters) => letters.toLowerCase())

const piecesOf = (form: string): ReadonlyArray<string> => {
  if (form.length <= LONGEST) return [form]
  const pieces = Array.from({ length: Math.floor(form.length / LONGEST) }, (_, i) => form.slice(i * LONGEST, (i + 1) * LONGEST))
  return [...pieces, form.slice(-LONGEST)]
}

/** The slot of the three characters at `at`. If no piece begins with them, the search skips them. */
const slotOf = (text: string, at: number): number =>
  (text.charCodeAt(at) * 961 + text.charCodeAt(at + 1) * 31 + text.charCodeAt(at + 2)) & 0xffff

interface Range {
  readonly start: number
  readonly end: number
}

/** Redacts the outputs of one sandbox. Make one for all its outputs: they share the tables of its secrets. */
export class OutputRedactor {
  readonly #pieces = new Set<string>()
  /** The lengths of pieces by their first characters, longest first. */
  readonly #lengths = new Map<string, Array<number>>()
  readonly #begins = new Uint8Array(0x10000)

  /** Secrets, and lines of secrets, shorter than 8 characters are not redacted. */
  constructor(secrets: Iterable<string>) {
    for (const secret of secrets) {
      for (const part of new Set([...linesOf(secret), ...partsOf(secret)])) {
        if (part.length >= SHORTEST) formsOf(part).flatMap((form) => piecesOf(folded(form))).forEach((piece) => this.#add(piece))
      }
    }
  }

  #add(piece: string) {
    if (this.#pieces.has(piece)) return
    this.#pieces.add(piece)
    this.#begins[slotOf(piece, 0)] = 1
    const begin = piece.slice(0, SHORTEST)
    const lengths = this.#lengths.get(begin) ?? []
    if (!lengths.includes(piece.length)) this.#lengths.set(begin, [...lengths, piece.length].toSorted((a, b) => b - a))
  }

  /** The secret ranges of the text, ordered by their start. They may overlap. */
  #rangesIn(text: string): ReadonlyArray<Range> {
    const ranges: Array<Range> = []
    const all = folded(text)
    for (let at = 0; at + SHORTEST <= all.length; at++) {
      if (this.#begins[slotOf(all, at)] === 0) continue
      const found = this.#lengths.get(all.slice(at, at + SHORTEST))?.find((length) => this.#pieces.has(all.slice(at, at + length)))
      if (found !== undefined) ranges.push({ start: at, end: at + found })
    }
    return ranges
  }

  redact(text: string): string {
    const stream = this.#stream()
    return stream.take(text, true)
  }

  stream(): RedactedOutput {
    const decoder = new TextDecoder()
    const stream = this.#stream()
    return {
      push: (bytes) => stream.take(decoder.decode(bytes, { stream: true }), false),
      end: () => stream.take(decoder.decode(), true)
    }
  }

  #stream() {
    /** The unfinished end of the input, and how much of it is already shown or hidden. */
    let text = ""
    let done = 0
    /** Whether the last finished character is hidden: a range that touches it needs no second mark. */
    let isHidden = false
    return {
      take: (more: string, isLast: boolean): string => {
        text += more
        // Encodings contain no line feed, so no match crosses a line.
        const decided = isLast || this.#pieces.size === 0
          ? text.length
          : Math.max(done, text.lastIndexOf("\n") + 1, text.length - KEPT)
        let shown = ""
        for (const { end, start } of this.#rangesIn(text)) {
          if (end <= done || start >= decided) continue
          if (start > done) {
            shown += text.slice(done, start)
            isHidden = false
          }
          if (!isHidden) shown += SHOWN
          isHidden = true
          done = Math.min(end, decided)
        }
        if (done < decided) {
          shown += text.slice(done, decided)
          isHidden = false
        }
        const dropped = Math.max(0, decided - KEPT)
        text = text.slice(dropped)
        done = decided - dropped
        return shown
      }
    }
  }
}

/** `OutputRedaction` by `OutputRedactor`. */
export const layer = Layer.succeed(OutputRedaction, { of: (values) => new OutputRedactor(values) })
