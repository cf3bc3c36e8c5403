/**
 * Takes the secrets of one sandbox out of what its processes write, while they write it: in every form of `Forms.ts`, also where
 * the output comes in pieces that end in the middle of one. Its time is linear in the output, whoever chose the secrets and
 * whoever writes: of each form it looks for pieces of a bounded length, whose places do not depend on how many there are.
 */
import * as Layer from "effect/Layer"
import { OutputRedaction, type RedactedOutput } from "../ports/OutputRedaction.ts"
import { formsOf, linesOf, partsOf, SHORTEST } from "./Forms.ts"
import { SHOWN } from "./Redaction.ts"

/** Of a longer form each piece of this length is hidden, and its end. */
const LONGEST = 32

/** How much of what is not decided yet is kept: the longest piece may begin there, and nothing of it has been shown. */
const KEPT = LONGEST - 1

/** Case of letters tells no two forms apart, and the length stays the same. */
const folded = (text: string): string => text.replace(/[A-Z]+/gu, (letters) => letters.toLowerCase())

const piecesOf = (form: string): ReadonlyArray<string> => {
  if (form.length <= LONGEST) return [form]
  const pieces = Array.from({ length: Math.floor(form.length / LONGEST) }, (_, i) => form.slice(i * LONGEST, (i + 1) * LONGEST))
  return [...pieces, form.slice(-LONGEST)]
}

/** Where three characters that begin no piece are passed over without a look. */
const slotOf = (text: string, at: number): number =>
  (text.charCodeAt(at) * 961 + text.charCodeAt(at + 1) * 31 + text.charCodeAt(at + 2)) & 0xffff

interface Range {
  readonly start: number
  readonly end: number
}

export class OutputRedactor {
  readonly #pieces = new Set<string>()
  /** Lengths of pieces that begin so, longest first. */
  readonly #lengths = new Map<string, Array<number>>()
  readonly #begins = new Uint8Array(0x10000)

  /** A secret, or a line of one, that has less than 8 characters is shown. */
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

  /** What of the text is secret, in order; ranges that touch are one. */
  #rangesIn(text: string): ReadonlyArray<Range> {
    const ranges: Array<{ start: number; end: number }> = []
    const all = folded(text)
    for (let at = 0; at + SHORTEST <= all.length; at++) {
      if (this.#begins[slotOf(all, at)] === 0) continue
      const found = this.#lengths.get(all.slice(at, at + SHORTEST))?.find((length) => this.#pieces.has(all.slice(at, at + length)))
      if (found === undefined) continue
      const last = ranges.at(-1)
      if (last !== undefined && at <= last.end) last.end = Math.max(last.end, at + found)
      else ranges.push({ start: at, end: at + found })
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
    /** The end of what came; of it, what is shown or hidden already. */
    let text = ""
    let done = 0
    /** The last character that is done is hidden: what touches it needs no other mark. */
    let isHidden = false
    return {
      take: (more: string, isLast: boolean): string => {
        text += more
        // No form has a line feed, so that none crosses one.
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

export const layer = Layer.succeed(OutputRedaction, { of: (values) => new OutputRedactor(values) })
