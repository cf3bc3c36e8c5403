/** The tables of docs/settings.md. */
import type { Setting } from "./settings/Setting.ts"
import { subjects } from "./settings/Settings.ts"

const [BEGIN, END] = ["<!-- settings: npm run docs:reference writes this -->", "<!-- /settings -->"]

/** Escapes characters with a meaning in Markdown. */
const plain = (text: string) => text.replaceAll(/[<|]/gu, "\\$&")

const code = (text: string) => `\`${text}\``

const row = ({ about, default: fallback, name, role, type: { expected, unit } }: Setting<unknown>): string => {
  const shown = fallback === null ? "" : unit === undefined ? code(fallback) : `${code(fallback)} ${unit}`
  return `| ${[code(name), plain(expected), shown, role === "all" ? role : code(role), plain(about)].join(" | ")} |`
}

const tables = (): string =>
  subjects.map(({ settings, title }) =>
    [`## ${title}`, "", "| setting | value | default | processes | meaning |", "|---|---|---|---|---|", ...settings.map(row)].join("\n")
  ).join("\n\n")

/** The page with the present tables; its prose stays. Fails if the page has no place for them. */
export const written = (page: string): string => {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin === -1 || end < begin) throw new Error(`The page of settings has to have ${BEGIN} and, after it, ${END}.`)
  return `${page.slice(0, begin + BEGIN.length)}\n\n${tables()}\n\n${page.slice(end)}`
}
