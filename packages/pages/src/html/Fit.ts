/** Parts of a page that are made when it is written, and how many of them fit into the bytes that a section of the page may have. */
import type { LruCache } from "@slipway/domain/store/LruCache"
import { asHtml, html, type Html, Later, type Part, written } from "./Html.ts"

/** The bytes of HTML that are left for a section. One character may become 32 bytes: a hidden character is shown by its name. */
export interface Budget {
  bytes: number
}

/** A part that takes a while to make. */
export const later = (make: () => Part): Later =>
  new Later(function*() {
    yield
    return make()
  })

/** All items, one after the other. */
export const each = <A>(items: Iterable<A>, render: (item: A) => Part): Later =>
  new Later(function*() {
    const parts: Array<Part> = []
    for (const item of items) {
      parts.push(render(item))
      yield
    }
    return parts
  })

/**
 * The first items, as many as the budget has bytes for; an empty one ends them too. `done` gets them with what was made of them, and puts
 * them in their place. An item is taken from `items` and rendered only when those before it fit.
 */
export const fit = <A>(
  items: Iterable<A>,
  budget: Budget,
  render: (item: A) => Part,
  done: (shown: ReadonlyArray<Html>, taken: ReadonlyArray<A>) => Part
): Later =>
  new Later(function*() {
    const shown: Array<Html> = []
    const taken: Array<A> = []
    for (const item of items) {
      yield
      const part = asHtml(render(item))
      const made = part.text === null ? yield* written(part) : part
      const bytes = Buffer.byteLength(String(made))
      if (bytes === 0 || bytes > budget.bytes) break
      budget.bytes -= bytes
      shown.push(made)
      taken.push(item)
    }
    return done(shown, taken)
  })

/** Made once for each key, as long as the cache keeps it. */
export const cached = (cache: LruCache<string, Html>, key: string, make: () => Part): Later =>
  new Later(function*() {
    yield
    const made = cache.get(key) ?? (yield* written(make()))
    cache.set(key, made)
    return made
  })

/** Characters of a text that are escaped in one go, and are in or out together. */
const PIECE = 1024

/** Where a piece of a text ends: no character is cut in two. */
export const endOfPiece = (text: string, at: number, length: number): number => {
  const end = Math.min(text.length, at + length)
  return end < text.length && (text.codePointAt(end - 1) ?? 0) > 0xffff ? end - 1 : end
}

const startOfPiece = (text: string, end: number): number => {
  const start = Math.max(0, end - PIECE)
  return start > 0 && (text.codePointAt(start - 1) ?? 0) > 0xffff ? start + 1 : start
}

const forwards = function*(text: string) {
  for (let start = 0, end; start < text.length; start = end) yield { start, piece: text.slice(start, end = endOfPiece(text, start, PIECE)) }
}

const backwards = function*(text: string) {
  for (let end = text.length, start; end > 0; end = start) yield { start: start = startOfPiece(text, end), piece: text.slice(start, end) }
}

/** `length`: how many characters of a text are shown. */
type Shown = (shown: Html, length: number) => Part

/** The beginning of a text, as much as the budget allows. */
export const beginning = (text: string, budget: Budget, done: Shown): Later =>
  fit(forwards(text), budget, ({ piece }) => piece, (shown, taken) => {
    const last = taken.at(-1)
    return done(html`${shown}`, last === undefined ? 0 : last.start + last.piece.length)
  })

/** The end of a text, as much as the budget allows, from the beginning of a line if it has one. */
export const ending = (text: string, budget: Budget, done: Shown): Later =>
  fit(backwards(text), budget, ({ piece }) => piece, (shown, taken) => {
    const at = taken.at(-1)?.start ?? text.length
    const from = at === 0 ? 0 : Math.max(at, text.indexOf("\n", at) + 1)
    const whole = shown.filter((_, i) => (taken[i]?.start ?? 0) >= from).toReversed()
    const rest = text.slice(from, taken.findLast(({ start }) => start >= from)?.start ?? text.length)
    return done(html`${rest}${whole}`, text.length - from)
  })
