/**
 * Removes the secrets of one sandbox from its processes' output while they write: all encodings of `Forms.ts`, also when a chunk ends
 * within one. The time is linear in the output for any secrets and any output: pieces have a bounded length, so few of them fit at one
 * place.
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
const folded = (text: string): string => text.replace(/[A-Z]/gu, (letter) => letter.toLowerCase())

const piecesOf = (form: string): ReadonlyArray<string> => [
  ...Array.from({ length: Math.floor(form.length / LONGEST) }, (_, i) => form.slice(i * LONGEST, (i + 1) * LONGEST)),
  form.slice(-LONGEST)
]

/** Redacts the outputs of one sandbox. Make one for all its outputs: they share the tables of its secrets. */
export class OutputRedactor {
  readonly #pieces = new Set<string>()
  /** The lengths of pieces by their first characters. */
  readonly #lengths = new Map<string, Set<number>>()

  /** Secrets, and lines of secrets, shorter than 8 characters are not redacted. */
  constructor(secrets: Iterable<string>) {
    for (const secret of secrets) {
      for (const part of new Set([...linesOf(secret), ...partsOf(secret)])) {
        if (part.length >= SHORTEST) formsOf(part).flatMap((form) => piecesOf(folded(form))).forEach((piece) => this.#add(piece))
      }
    }
  }

  #add(piece: string) {
    const begin = piece.slice(0, SHORTEST)
    this.#lengths.set(begin, (this.#lengths.get(begin) ?? new Set<number>()).add(piece.length))
    this.#pieces.add(piece)
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
    /** The undecided end of the input. */
    let text = ""
    /** Where the last hidden range ends in `text`. A range that begins there or before needs no second mark. */
    let hidden = -Infinity
    return {
      take: (more: string, isLast: boolean): string => {
        text += more
        // Encodings contain no line feed, so no match crosses a line.
        const decided = isLast || this.#pieces.size === 0 ? text.length : Math.max(text.lastIndexOf("\n") + 1, text.length - KEPT)
        const all = folded(text)
        let shown = ""
        for (let at = 0; at < decided; at++) {
          for (const length of this.#lengths.get(all.slice(at, at + SHORTEST)) ?? []) {
            if (!this.#pieces.has(all.slice(at, at + length))) continue
            if (at > hidden) shown += text.slice(Math.max(0, hidden), at) + SHOWN
            hidden = Math.max(hidden, at + length)
          }
        }
        shown += text.slice(Math.max(0, hidden), decided)
        text = text.slice(decided)
        hidden -= decided
        return shown
      }
    }
  }
}

/** `OutputRedaction` by `OutputRedactor`. */
export const layer = Layer.succeed(OutputRedaction, { of: (values) => new OutputRedactor(values) })
