/** The words by which prompts and messages are found. */

/** The characters of a text, from its beginning, whose words are found. */
export const SEARCHED_CHARACTERS = 4000
/** Longer words are ignored, in texts and in searches. */
export const WORD = 64
/** The characters of an excerpt, and those before its first hit. */
const EXCERPT = { all: 160, before: 40 }

const words = /[\p{L}\p{M}\p{N}]+/gu

const beginningOf = (text: string): string => Array.from(text.slice(0, 2 * SEARCHED_CHARACTERS)).slice(0, SEARCHED_CHARACTERS).join("")

const wordsOf = (text: string): ReadonlyArray<string> =>
  (beginningOf(text).toLowerCase().match(words) ?? []).filter((word) => Array.from(word).length <= WORD)

/** Whether every word of `search` is the beginning of a word of the text, in any case. False for a search without words. */
export const hasWords = (text: string, search: string): boolean => {
  const [typed, known] = [wordsOf(search), wordsOf(text)]
  return typed.length > 0 && typed.every((word) => known.some((one) => one.startsWith(word)))
}

/** The part of the text around the first word that `search` finds, in one line. */
export const excerptOf = (text: string, search: string): string => {
  const line = beginningOf(text).replaceAll(/\s+/gu, " ").trim()
  const typed = wordsOf(search)
  const first = Array.from(line.matchAll(words)).find(([word]) => typed.some((one) => word.toLowerCase().startsWith(one)))
  const from = Math.max(0, (first?.index ?? 0) - EXCERPT.before)
  // From the next word on, and never from the middle of a character.
  const start = from === 0 ? 0 : line.indexOf(" ", from) + 1 || from
  const begin = start > (first?.index ?? 0) ? first?.index ?? 0 : start
  const cut = Array.from(line.slice(begin, begin + 2 * EXCERPT.all)).slice(0, EXCERPT.all).join("")
  return `${begin > 0 ? "…" : ""}${cut}${begin + cut.length < line.length ? "…" : ""}`
}
