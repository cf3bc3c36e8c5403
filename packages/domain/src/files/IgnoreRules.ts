/** Which paths the `.gitignore` files of a tree leave out: gitignore(5), without POSIX character classes. */

/** Asks about one path, of a directory or a file. */
export type IsIgnored = (path: string, isDirectory: boolean) => boolean

interface Rule {
  readonly matches: (path: string) => boolean
  readonly isNegated: boolean
  readonly directoriesOnly: boolean
}

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/gu, String.raw`\$&`)

const TOKENS = /\/\*\*(?=\/)|^\*\*\/|\/\*\*$|\*+|\?|\[[!^]?\]?(?:\\.|[^\]\\])*\]|\\?./gsu

const translated = (token: string): string => {
  switch (token) {
    case "**/":
      return "(?:.*/)?"
    case "?":
      return "[^/]"
  }
  if (token.startsWith("*")) return "[^/]*"
  if (token.length > 1 && token.startsWith("[")) {
    const isNegated = /^\[[!^]/u.test(token)
    const members = token.slice(isNegated ? 2 : 1, -1).replace(/\\(.)/gsu, "$1").replace(/[\\\][^]/gu, String.raw`\$&`)
    return `(?!/)[${isNegated ? "^" : ""}${members}]`
  }
  return literal(token.length > 1 && token.startsWith("\\") ? token.slice(1) : token)
}

const compiled = (glob: string, isAnchored: boolean): RegExp => {
  const body = glob.replace(TOKENS, (token, offset: number) =>
    // "/**" is followed by a slash, which stays, or by nothing.
    token !== "/**" ? translated(token) : offset + token.length === glob.length ? "/.+" : "(?:/.*)?")
  try {
    return new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${body}$`, "su")
  } catch {
    // A range in the wrong order matches nothing.
    return /(?!)/u
  }
}

const parse = (line: string): Rule | undefined => {
  if (line.startsWith("#")) return undefined
  const trimmed = line.replace(/(?<!\\) +$/u, "")
  const isNegated = trimmed.startsWith("!")
  const pattern = isNegated ? trimmed.slice(1) : trimmed
  const directoriesOnly = pattern.endsWith("/")
  const glob = directoriesOnly ? pattern.slice(0, -1) : pattern
  if (glob === "") return undefined
  const expression = compiled(glob.replace(/^\//u, ""), glob.includes("/"))
  return { matches: (path) => expression.test(path), isNegated, directoriesOnly }
}

/** `read` gives the content of a file of the tree. What lies in an ignored directory is ignored with it. */
export const make = (read: (path: string) => string | undefined): IsIgnored => {
  const rules = new Map<string, ReadonlyArray<Rule>>()
  const directories = new Map<string, boolean>([["", false]])

  /** Of the `.gitignore` in `directory`, which is "" or ends with a slash; the last line that matches comes first. */
  const rulesIn = (directory: string): ReadonlyArray<Rule> => {
    const known = rules.get(directory) ?? (read(`${directory}.gitignore`) ?? "").split(/\r?\n/u).flatMap((line) => parse(line) ?? []).reverse()
    rules.set(directory, known)
    return known
  }
  const decide = (path: string, isDirectory: boolean): boolean => {
    for (let slash = path.lastIndexOf("/");; slash = path.lastIndexOf("/", slash - 1)) {
      const directory = path.slice(0, slash + 1)
      const rule = rulesIn(directory).find(({ directoriesOnly, matches }) =>
        (isDirectory || !directoriesOnly) && matches(path.slice(directory.length)))
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
