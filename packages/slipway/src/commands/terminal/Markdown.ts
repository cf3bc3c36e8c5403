/** The Markdown of agents in a terminal, line by line: headings, lists, quotes, code, strong text. Everything else stays as it is. */
import { visible } from "@slipway/domain/text/EscapeInvisible"
import type { Paint } from "./EventText.ts"

/** Renders the next line of a text. */
export type Lines = (line: string) => string

const SPAN = /`([^`]+)`|\*\*([^*]+)\*\*/gu

/** For one text after the other: a code block that is open at the end of a text is open in the next one. */
export const make = (paint: Paint): Lines => {
  let isCode = false
  const spans = (text: string) =>
    text.replaceAll(
      SPAN,
      (_, code: string | undefined, strong: string | undefined) => code === undefined ? paint("bold", strong ?? "") : paint("cyan", code)
    )
  return (given) => {
    const line = visible(given)
    if (/^\s*(?:```|~~~)/u.test(line)) {
      isCode = !isCode
      return paint("dim", line)
    }
    if (isCode) return paint("cyan", line)
    const [, title] = /^#{1,6} (.+)$/u.exec(line) ?? []
    if (title !== undefined) return paint("bold", title)
    const [, quote] = /^>\s?(.*)$/u.exec(line) ?? []
    if (quote !== undefined) return paint("dim", `│ ${quote}`)
    const [, indent, item] = /^(\s*)[-*+] (.*)$/u.exec(line) ?? []
    return item === undefined ? spans(line) : `${indent}• ${spans(item)}`
  }
}
