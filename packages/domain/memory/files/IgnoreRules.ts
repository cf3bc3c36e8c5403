/** The paths that the `.gitignore` files of a tree ignore: gitignore(5), without POSIX character classes. */

/** Whether one path, of a directory or a file, is ignored. */
export type IsIgnored = (path: string, isDirectory: boolean) => boolean

interface Rule {
  readonly matches: (path: string) => boolean
  readonly isNegated: boolean
  readonly directoriesOnly: boolean
}

const utf8 = new TextEncoder()

/** One character for each byte, because git's `?` matches a byte. */
const bytesOf = (text: string): string => Array.from(utf8.encode(text), (byte) => String.fromCharCode(byte)).join("")

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/gu, String.raw`\$&`)

const code = (character: string): string => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`

/** `[abc]`, `[a-c]`, `[!abc]`. A reversed range matches its start only; an unclosed bracket matches nothing. */
const oneOf = (token: string): string => {
  const isNegated = /^\[[!^]/u.test(token)
  const members = token.slice(isNegated ? 2 : 1, -1).replace(
    /\\?(.)(?:-\\?(.))?/gsu,
    (_, from: string, to?: string) => to === undefined || to < from ? code(from) : `${code(from)}-${code(to)}`
  )
  return `(?!/)[${isNegated ? "^" : ""}${members}]`
}

const TOKENS = /\/\*{2,}(?=\/|$)|^(?:\*{2,}(?:\/|$))+|\*+|\?|\[[!^]?\]?(?:\\.|[^\]\\])*\]|\\?./gsu

const compiled = (glob: string, isAnchored: boolean): RegExp => {
  const body = glob.replace(TOKENS, (token, offset: number) => {
    // The following slash stays.
    if (token.startsWith("/**")) return offset + token.length === glob.length ? "/.+" : "(?:/.*)?"
    if (token.endsWith("*/")) return "(?:.*/)?"
    if (token.startsWith("*")) return token === glob ? ".*" : "[^/]*"
    if (token === "?") return "[^/]"
    if (token.startsWith("[")) return oneOf(token)
    return literal(token.length > 1 ? token.slice(1) : token)
  })
  return new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${body}$`, "su")
}

const parse = (line: string): Rule | undefined => {
  if (line.startsWith("#")) return undefined
  const trimmed = line.replace(/(?<!\\) +$/u, "")
  const isNegated = trimmed.startsWith("!")
  const pattern = isNegated ? trimmed.slice(1) : trimmed
  const directoriesOnly = pattern.endsWith("/")
  const glob = directoriesOnly ? pattern.slice(0, -1) : pattern
  // A pattern that ends with an incomplete escape matches nothing.
  if (glob === "" || /(?<!\\)(?:\\\\)*\\$/u.test(glob)) return undefined
  const expression = compiled(bytesOf(glob.replace(/^\//u, "")), glob.includes("/"))
  return { matches: (path) => expression.test(bytesOf(path)), isNegated, directoriesOnly }
}

/** `read` returns the content of a file of the tree. Everything in an ignored directory is ignored. */
export const make = (read: (path: string) => string | undefined): IsIgnored => {
  const rules = new Map<string, ReadonlyArray<Rule>>()
  const directories = new Map<string, boolean>([["", false]])

  /**
   * The rules of the `.gitignore` in `directory`, which is "" or ends with a slash. Later lines come first, because the last match
   * decides.
   */
  const rulesIn = (directory: string): ReadonlyArray<Rule> => {
    const known = rules.get(directory) ??
      (read(`${directory}.gitignore`) ?? "").split(/\r?\n/u).flatMap((line) => parse(line) ?? []).reverse()
    rules.set(directory, known)
    return known
  }
  const decide = (path: string, isDirectory: boolean): boolean => {
    for (let slash = path.lastIndexOf("/");; slash = path.lastIndexOf("/", slash - 1)) {
      const directory = path.slice(0, slash + 1)
      const rule = rulesIn(directory).find(({ directoriesOnly, matches }) =>
        (isDirectory || !directoriesOnly) && matches(path.slice(directory.length))
      )
      if (rule !== undefined) return !rule.isNegated
      if (slash < 0) return false
    }
  }
  const isIgnoredDirectory = (path: string): boolean => {
    const known = directories.get(path) ?? (isIgnoredDirectory(path.slice(0, Math.max(path.lastIndexOf("/"), 0))) || decide(path, true))
    directories.set(path, known)
    return known
  }
  return (path, isDirectory) =>
    isDirectory ? isIgnoredDirectory(path) : isIgnoredDirectory(path.slice(0, Math.max(path.lastIndexOf("/"), 0))) || decide(path, false)
}
