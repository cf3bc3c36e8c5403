/**
 * Colours of code, for people who read it: comments, strings, numbers, words of the language and names. Every character is looked at a
 * fixed number of times, whatever the code is. docs/decisions/8 says why no library does it. Pure.
 */
import type { Language } from "./Languages.ts"

/** Also the class of the element, beneath `.code`. */
export type Colour = "comment" | "string" | "value" | "keyword" | "type" | "name"

export interface Piece {
  readonly text: string
  /** `null`: as all text. */
  readonly colour: Colour | null
}

const WORD = /[\p{L}_@][\p{L}\p{N}_]*/uy
const DASHED = /[\p{L}_@][\p{L}\p{N}_-]*/uy
const NUMBER = /(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[\p{L}%]{0,8}/uy
const VARIABLE = /\$(?:\{[^}\n]{0,100}\}?|[\p{L}_]\w{0,100}|[\d@#?*!$-])/uy
const REGEX = /\/(?![*/])(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n]){0,50}\]|[^/\\\n[]){1,50}\/[a-z]{0,8}/uy
const CHAR = /'(?:\\[^\n']{1,10}|[^\\\n'])'/uy
/** At the beginning of a line. */
const KEY = /(?:- )?[\p{L}_.$@*/-][\w.$@*/-]*(?=[ \t]{0,20}[:=])/uy
const TAG = /<\/?[\p{L}!?][\w:.-]*/uy
const ATTRIBUTE = /[\p{L}_:@#*.][\w:@.#*-]*/uy

const VALUES: ReadonlySet<string> = new Set("true false null undefined nil None True False NaN Infinity nullptr".split(" "))

const matched = (pattern: RegExp, code: string, at: number): number => {
  pattern.lastIndex = at
  return pattern.test(code) ? pattern.lastIndex - at : 0
}

/** The position after the string that begins at `at`; for an unclosed string the end of its line. */
const endOfString = (code: string, at: number, quote: string, isLong: boolean): { readonly end: number; readonly isClosed: boolean } => {
  for (let i = at + quote.length; i < code.length; i++) {
    const char = code[i]
    if (char === "\\") i++
    else if (char === "\n" && !isLong) return { end: i, isClosed: false }
    else if (code.startsWith(quote, i)) return { end: i + quote.length, isClosed: true }
  }
  return { end: code.length, isClosed: isLong }
}

/** The length of the comment that begins at `at`; 0 if there is none. */
const comment = ({ block, line, shell }: Language, code: string, at: number): number => {
  const open = block.find(([open]) => code.startsWith(open, at))
  if (open !== undefined) {
    const end = code.indexOf(open[1], at + open[0].length)
    return (end === -1 ? code.length : end + open[1].length) - at
  }
  if (!line.some((start) => code.startsWith(start, at))) return 0
  if (shell && at > 0 && !/\s/u.test(code[at - 1] ?? "")) return 0
  const end = code.indexOf("\n", at)
  return (end === -1 ? code.length : end) - at
}

/** The colour of the word that begins at `at`. */
const word = ({ anyCase, keywords }: Language, code: string, at: number, length: number): Colour | null => {
  const text = code.slice(at, at + length)
  if (VALUES.has(text)) return "value"
  if (keywords.has(anyCase ? text.toLowerCase() : text.startsWith("@") ? text.slice(1) : text)) return "keyword"
  if (text.startsWith("@")) return "type"
  if (code[at + length] === "(") return "name"
  return /^\p{Lu}/u.test(text) ? "type" : null
}

/** Characters that are read in one go; strings and comments may be longer. */
const STEP = 2048

/** Below U+0080. */
const isAscii = (code: string, at: number) => code.charCodeAt(at) < 0x80

/** The code in pieces, read as they are asked for: joined, they are the code. */
export const read = function*(code: string, language: Language): Generator<Piece, void> {
  const { keys, long, markup, regex, strings } = language
  const found: Array<Piece> = []
  let plain = 0
  let at = 0
  /** The last character before, without spaces: it says whether a value may follow. */
  let before = ""
  let isLineStart = true
  let isInTag = false
  /** By quote: the position up to which an unclosed string was searched. */
  const unclosed = new Map<string, number>()

  const take = (length: number, colour: Colour | null) => {
    if (colour !== null) {
      if (at > plain) found.push({ text: code.slice(plain, at), colour: null })
      found.push({ text: code.slice(at, at + length), colour })
      plain = at + length
    }
    before = code[at + length - 1] ?? ""
    at += length
    isLineStart = false
  }

  const quoted = (): number => {
    const quote = strings.find((one) => code.startsWith(one, at))
    if (quote === undefined || at < (unclosed.get(quote) ?? 0)) return 0
    const { end, isClosed } = endOfString(code, at, quote, isInTag || long.includes(quote))
    if (isClosed) return end - at
    unclosed.set(quote, end)
    return 0
  }

  let given = 0
  while (at < code.length) {
    if (at - given >= STEP) {
      // Whether a character is shown by its name may depend on the character beside it, unless both are ASCII.
      if (at > plain && isAscii(code, at - 1) && isAscii(code, at)) {
        found.push({ text: code.slice(plain, at), colour: null })
        plain = at
      }
      yield* found.splice(0)
      given = at
    }
    const char = code[at] ?? ""
    if (char === "\n") {
      at++
      isLineStart = true
      before = ""
      continue
    }
    if (char === " " || char === "\t" || char === "\r") {
      at++
      continue
    }
    let length = comment(language, code, at)
    if (length > 0) {
      take(length, "comment")
    } else if (markup && !isInTag) {
      length = matched(TAG, code, at)
      isInTag = length > 0
      if (isInTag) take(length, "keyword")
      else {
        // All the text up to what may be a tag.
        const next = code.indexOf("<", at + 1)
        take((next === -1 ? code.length : next) - at, null)
      }
    } else if (keys && isLineStart && (length = matched(KEY, code, at)) > 0) {
      take(length, "name")
    } else if ((length = quoted()) > 0) {
      const isKey = keys && !isInTag && code.startsWith(":", at + length)
      take(length, isKey ? "name" : "string")
    } else if (char === "\\" && !isInTag) {
      take(Math.min(2, code.length - at), null)
    } else if (markup) {
      if (char === ">") {
        isInTag = false
        take(1, "keyword")
      } else if ((length = matched(ATTRIBUTE, code, at)) > 0) take(length, "name")
      else take(1, null)
    } else if (char === "'" && (length = matched(CHAR, code, at)) > 0) {
      take(length, "string")
    } else if (char === "$" && (length = matched(VARIABLE, code, at)) > 0) {
      take(length, "name")
    } else if (regex && char === "/" && /^[(,=:[!&|?{};>]?$/u.test(before) && (length = matched(REGEX, code, at)) > 0) {
      take(length, "string")
    } else if ((length = matched(NUMBER, code, at)) > 0) {
      take(length, "value")
    } else if ((length = matched(keys ? DASHED : WORD, code, at)) > 0) {
      take(length, word(language, code, at, length))
    } else {
      take(1, null)
    }
  }
  if (code.length > plain) found.push({ text: code.slice(plain), colour: null })
  yield* found
}

/** The pieces of each line, without line feeds. */
export const lines = function*(all: Iterable<Piece>): Generator<ReadonlyArray<Piece>, void> {
  let line: Array<Piece> = []
  for (const { colour, text } of all) {
    for (const [i, part] of text.split("\n").entries()) {
      if (i > 0) {
        yield line
        line = []
      }
      if (part !== "") line.push({ text: part, colour })
    }
  }
  yield line
}
