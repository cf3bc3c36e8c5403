/**
 * Limits how many bytes of HTML a page spends on text that others wrote, so that no page is larger than 1 MiB. One character may become
 * 32 bytes: a hidden character is shown by its name.
 */
import type { Chunked } from "./CooperativeRender.ts"
import { html, type Html } from "./Html.ts"

/** The bytes of HTML that are left. */
export class HtmlBudget {
  bytes: number
  constructor(bytes: number) {
    this.bytes = bytes
  }

  /** Subtracts the size of `part`. `false`, and nothing is subtracted, if it does not fit. */
  take(part: Html): boolean {
    const { bytes } = part
    if (bytes > this.bytes) return false
    this.bytes -= bytes
    return true
  }
}

/** Characters that are escaped in one go, and are in or out together. */
const PIECE = 1024

/** Where a piece of a text ends: no character is cut in two. */
export const endOfPiece = (text: string, at: number, length: number): number => {
  const end = Math.min(text.length, at + length)
  return end < text.length && (text.codePointAt(end - 1) ?? 0) > 0xffff ? end - 1 : end
}

/** The beginning of a text, as much as the budget allows, and how many characters that is. */
export const beginning = function*(text: string, budget: HtmlBudget): Chunked<{ readonly shown: Html; readonly length: number }> {
  const pieces: Array<Html> = []
  let at = 0
  while (at < text.length) {
    const end = endOfPiece(text, at, PIECE)
    const piece = html`${text.slice(at, end)}`
    yield end - at
    if (!budget.take(piece)) break
    pieces.push(piece)
    at = end
  }
  return { shown: html`${pieces}`, length: at }
}

/** The end of a text, as much as the budget allows, starting at the beginning of a line if there is one. */
export const ending = function*(text: string, budget: HtmlBudget): Chunked<{ readonly shown: Html; readonly length: number }> {
  const pieces: Array<{ readonly start: number; readonly piece: Html }> = []
  let at = text.length
  while (at > 0) {
    // No character is cut in two.
    const begin = Math.max(0, at - PIECE)
    const start = begin > 0 && (text.codePointAt(begin - 1) ?? 0) > 0xffff ? begin + 1 : begin
    const piece = html`${text.slice(start, at)}`
    yield at - start
    if (!budget.take(piece)) break
    pieces.unshift({ start, piece })
    at = start
  }
  const from = at === 0 ? 0 : Math.max(at, text.indexOf("\n", at) + 1)
  const whole = pieces.filter(({ start }) => start >= from)
  const rest = text.slice(from, whole[0]?.start ?? text.length)
  return { shown: html`${rest}${whole.map(({ piece }) => piece)}`, length: text.length - from }
}

/** The first items, as many as the budget allows. */
export const first = function*<A>(items: ReadonlyArray<A>, budget: HtmlBudget, render: (item: A) => Html): Chunked<ReadonlyArray<Html>> {
  const shown: Array<Html> = []
  for (const item of items) {
    const made = render(item)
    yield made.toString().length
    if (!budget.take(made)) break
    shown.push(made)
  }
  return shown
}
