/**
 * How much of a page there is for what others wrote: no page is larger than a megabyte, whatever stands in it. A character may become
 * 32 bytes, where one that is hidden is shown by its name.
 */
import { html, type Html } from "./Html.ts"
import type { Steps } from "./Turns.ts"

/** Bytes of HTML that are left. */
export class Room {
  bytes: number
  constructor(bytes: number) {
    this.bytes = bytes
  }

  /** Takes it, if it fits. */
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

/** As much of the beginning of a text as there is room for, and how many characters that is. */
export const beginning = function*(text: string, room: Room): Steps<{ readonly shown: Html; readonly length: number }> {
  const pieces: Array<Html> = []
  let at = 0
  while (at < text.length) {
    const end = endOfPiece(text, at, PIECE)
    const piece = html`${text.slice(at, end)}`
    yield end - at
    if (!room.take(piece)) break
    pieces.push(piece)
    at = end
  }
  return { shown: html`${pieces}`, length: at }
}

/** As much of the end of a text as there is room for, from the beginning of a line on if there is one. */
export const ending = function*(text: string, room: Room): Steps<{ readonly shown: Html; readonly length: number }> {
  const pieces: Array<{ readonly start: number; readonly piece: Html }> = []
  let at = text.length
  while (at > 0) {
    // No character is cut in two.
    const begin = Math.max(0, at - PIECE)
    const start = begin > 0 && (text.codePointAt(begin - 1) ?? 0) > 0xffff ? begin + 1 : begin
    const piece = html`${text.slice(start, at)}`
    yield at - start
    if (!room.take(piece)) break
    pieces.unshift({ start, piece })
    at = start
  }
  const from = at === 0 ? 0 : Math.max(at, text.indexOf("\n", at) + 1)
  const whole = pieces.filter(({ start }) => start >= from)
  const rest = text.slice(from, whole[0]?.start ?? text.length)
  return { shown: html`${rest}${whole.map(({ piece }) => piece)}`, length: text.length - from }
}

/** As many of the items as there is room for, from the first. */
export const first = function*<A>(items: ReadonlyArray<A>, room: Room, render: (item: A) => Html): Steps<ReadonlyArray<Html>> {
  const shown: Array<Html> = []
  for (const item of items) {
    const made = render(item)
    yield made.toString().length
    if (!room.take(made)) break
    shown.push(made)
  }
  return shown
}
