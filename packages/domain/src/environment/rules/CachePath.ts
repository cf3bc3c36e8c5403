/** Folders that setup fills and that are cached for the next sandbox (docs/decisions/17): the allowed places. */
import * as Result from "effect/Result"
import { isGitPath, isProtected, normalizePath } from "../../source/rules/FileRules.ts"
import { AGENTS, CREDENTIALS } from "./PrivatePaths.ts"

/** Where a folder lies: in the repository's tree, or below the home of the box. `path` is normalised and never empty. */
export interface CachePath {
  readonly base: "tree" | "home"
  readonly path: string
}

const HOME = "~/"

/** Paths below the home that must not come from another sandbox. A cached folder must not contain one. */
const PRIVATE = [...AGENTS, ...CREDENTIALS]

const holds = (folder: string, path: string): boolean => path === folder || path.startsWith(`${folder}/`)

/** Whether the paths are equal or one contains the other. */
export const overlap = (a: CachePath, b: CachePath): boolean => a.base === b.base && (holds(a.path, b.path) || holds(b.path, a.path))

/** Parses a path of the file, or returns why it cannot be cached. */
export const parse = (text: string): Result.Result<CachePath, string> => {
  const base = text.startsWith(HOME) ? "home" : "tree"
  const place = base === "home" ? "the home" : "the tree"
  const rest = base === "home" ? text.slice(HOME.length) : text
  if (rest.startsWith("/")) return Result.fail("starts with /: name a path in the tree, or ~/ and a path below the home")
  if (text === "~") return Result.fail("is the whole home")
  if (rest.includes("*")) return Result.fail("is a pattern: name each folder")
  const normalized = normalizePath(rest)
  if (Result.isFailure(normalized)) return Result.fail(`climbs out of ${place}`)
  const path = normalized.success
  if (path === "") return Result.fail(`is the whole of ${place}`)
  // As it is written back, it would be another place.
  if (base === "tree" && path.startsWith("~")) return Result.fail("is in another user's home")
  if (isGitPath(path)) return Result.fail("is git's own")
  if (isProtected(path)) return Result.fail("is a protected file or folder")
  const kept = base === "home" ? PRIVATE.find((one) => holds(one, path) || holds(path, one)) : undefined
  if (kept === undefined) return Result.succeed({ base, path })
  return Result.fail(
    holds(kept, path) ? "is where an agent or a tool keeps what is private" : `holds ${HOME}${kept}, which is private: name a folder in it`
  )
}

/** Formats a path as in the file. */
export const show = ({ base, path }: CachePath): string => base === "home" ? HOME + path : path
