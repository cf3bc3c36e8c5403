/** A source host's refusal text, prepared for people. */
import { visible } from "../../text/EscapeInvisible.ts"

/** Characters. */
export const MAX_HOST_WORDS = 200
/** Characters that are read: a host may send any length. */
const MAX_READ = 4_000

/** The host's text on one line, with hidden characters by name, cut to {@link MAX_HOST_WORDS}. Empty: the host sent no text. */
export const hostWords = (text: string): string => {
  const shown = Array.from(visible(text.slice(0, MAX_READ).toWellFormed().replaceAll(/\s+/gu, " ").trim()))
  return shown.length <= MAX_HOST_WORDS ? shown.join("") : `${shown.slice(0, MAX_HOST_WORDS - 1).join("")}…`
}
