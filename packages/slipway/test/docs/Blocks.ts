/**
 * The commands of a page. A block of ```sh or ```bash is run, after those above it and in the same shell. Words behind the language say
 * otherwise: `no-run: REASON` leaves it out, `until "TEXT"` ends it as soon as it has said that. A block of ```json or ```text behind
 * it with the word `output` is what it says, loosely; one of ```json with the name of a file is that file.
 */
export interface Block {
  readonly page: string
  readonly line: number
  readonly language: string
  readonly mark: string
  readonly text: string
}

const FENCED = /^( *)```(\w*)(?: ([^\n]+))?\n([\s\S]*?)^\1```$/gmu

export const blocksOf = (page: string, text: string): ReadonlyArray<Block> =>
  Array.from(text.matchAll(FENCED), ({ 1: indent = "", 2: language = "", 3: mark = "", 4: inner = "", index }) => ({
    page,
    line: text.slice(0, index).split("\n").length,
    language,
    mark,
    text: inner.split("\n").map((line) => line.startsWith(indent) ? line.slice(indent.length) : line).join("\n")
  }))

export const isShell = ({ language }: Block): boolean => ["sh", "bash", "console"].includes(language)

/** Lines that begin a command: neither a remark nor the rest of one. */
export const commandsOf = ({ text }: Block): ReadonlyArray<string> => {
  const lines = text.split("\n")
  return lines.filter((line, index) => /^[^\s#]/u.test(line) && !/(?:\\|\||&&)$/u.test(lines[index - 1] ?? ""))
}

/** Commands that stand in a block which says of itself that it holds none. */
export const strayCommandsOf = ({ language, text }: Block): ReadonlyArray<string> =>
  language === "" ? text.split("\n").filter((line) => /^\s*(?:\$ )?(?:npx|npm|slipway|curl|docker|git) /u.test(line)) : []

const shapeOf = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.slice(0, 1).map(shapeOf)
    : typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([key, member]) => [key, shapeOf(member)]))
    : value === null
    ? "null"
    : typeof value

/** Words with a digit, and what is left out with `…`, may differ. */
const patternOf = (line: string): RegExp =>
  new RegExp(
    line.trim().split(/\s+/u).map((word) => /\d|…/u.test(word) ? ".*" : word.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("\\s+"),
    "u"
  )

/**
 * The stated parts that are missing in the output; empty: all is as it is written. JSON has the same members of the same types, text the
 * same lines.
 */
export const missingOf = (stated: Block, said: string): ReadonlyArray<string> => {
  if (stated.language === "json") {
    const begin = said.search(/[{[]/u)
    const [wanted, found] = [JSON.parse(stated.text), JSON.parse(said.slice(begin))].map((value) => JSON.stringify(shapeOf(value)))
    return wanted === found ? [] : [`${wanted}\ninstead of\n${found}`]
  }
  return stated.text.split("\n").filter((line) => line.trim() !== "" && !patternOf(line).test(said))
}
