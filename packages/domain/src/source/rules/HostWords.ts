/** What a source host says when it refuses something, as people are shown it. */
import { visible } from "../../text/EscapeInvisible.ts"

/** Characters. */
export const MAX_HOST_WORDS = 200
/** Characters that are looked at: a host may send any length. */
const MAX_READ = 4_000

/** The host's words on one line, with hidden characters shown by name, cut to {@link MAX_HOST_WORDS}. Empty: the host said nothing. */
export const hostWords = (text: string): string => {
  const shown = Array.from(visible(text.slice(0, MAX_READ).toWellFormed().replaceAll(/\s+/gu, " ").trim()))
  return shown.length <= MAX_HOST_WORDS ? shown.join("") : `${shown.slice(0, MAX_HOST_WORDS - 1).join("")}…`
}
