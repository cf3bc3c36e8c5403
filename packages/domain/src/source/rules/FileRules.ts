/** Which paths of a working tree the files API serves. The rules use the normalised path, before the disk is read. */
import * as Data from "effect/Data"
import * as Result from "effect/Result"

/** The path leaves the repository, is absolute, or cannot be a path. Retrying does not help. */
export class InvalidPath extends Data.TaggedError("InvalidPath") {
  override get message() {
    return "The path must be relative to the repository and stay inside it."
  }
}

/** Bytes; larger files are refused by the size of the open descriptor (docs/interface.md 4.11: 100 MiB). */
export const MAX_DOWNLOAD_BYTES = 104_857_600
/** Bytes of a file that is shown as text (docs/decisions/8). */
export const MAX_CONTENT_BYTES = 1_048_576
/** Bytes of a patch (docs/decisions/16). */
export const MAX_DIFF_BYTES = 10 * 2 ** 20

// Names that no path segment may have, case-folded (docs/decisions/6): files with credentials, and files that configure git or agents.
const AGENT_NAMES: ReadonlySet<string> = new Set([
  "opencode.json",
  "opencode.jsonc",
  "tui.json",
  "tui.jsonc",
  ".opencode",
  ".codex",
  ".agents",
  ".codex-plugin",
  ".claude",
  ".claude.json",
  ".mcp.json",
  "claude.local.md",
  ".claude-plugin",
  ".worktreeinclude",
  ".grok",
  ".grok-plugin",
  ".lsp.json"
])
const AGENT_FILES_IN_CURSOR: ReadonlySet<string> = new Set(["hooks.json", "mcp.json"])
const ENVIRONMENT_FILES: ReadonlySet<string> = new Set([
  ".envrc",
  ".direnv",
  ".dev.vars",
  ".npmrc",
  ".netrc",
  ".git-credentials"
])
const ENVIRONMENT_SAMPLES = /^\.env\.(?:.+\.)?(?:example|sample|template|dist)$/u

/** Characters of a name that are checked: file systems allow 255 bytes. */
const MAX_NAME = 1024

/**
 * Folds names that file systems or people take for equal: case, Unicode compatibility forms, characters ignored in comparisons (HFS+),
 * NTFS stream suffixes, and trailing dots and spaces (Windows).
 */
const fold = (name: string): string =>
  name.slice(0, MAX_NAME).normalize("NFKC").replace(/\p{Default_Ignorable_Code_Point}/gu, "").toLowerCase().replace(/:[^]*/u, "")
    .replace(/(?<![. ])[. ]+$/u, "")

const isEnvironmentName = (name: string): boolean =>
  ENVIRONMENT_FILES.has(name) || name.startsWith(".env.") && !ENVIRONMENT_SAMPLES.test(name) || name.endsWith(".env")

const isGitName = (name: string): boolean => name === ".git" || name === "git~1"

const anySegment = (path: string, test: (name: string, parent: string | undefined) => boolean): boolean =>
  path.split("/").map(fold).some((name, i, names) => test(name, names[i - 1]))

/** Whether any segment of a normalised path is a protected name. */
export const isProtected = (path: string): boolean =>
  anySegment(
    path,
    (name, parent) =>
      isGitName(name) || isEnvironmentName(name) || AGENT_NAMES.has(name) || parent === ".cursor" && AGENT_FILES_IN_CURSOR.has(name)
  )

/** Whether publishing must never commit a new file at this path: environment files and folders. */
export const isEnvironmentFile = (path: string): boolean => anySegment(path, isEnvironmentName)

/** Whether git itself refuses the path: a segment is `.git` on one of the file systems that git supports. */
export const isGitPath = (path: string): boolean => anySegment(path, isGitName)

/** Drops `.` and empty segments and resolves `..` lexically. The root is "". */
export const normalizePath = (path: string): Result.Result<string, InvalidPath> => {
  if (path.startsWith("/") || path.includes("\0") || !path.isWellFormed()) return Result.fail(new InvalidPath())
  const segments: Array<string> = []
  for (const segment of path.split("/")) {
    if (segment === "" || segment === ".") continue
    if (segment !== "..") segments.push(segment)
    else if (segments.pop() === undefined) return Result.fail(new InvalidPath())
  }
  return Result.succeed(segments.join("/"))
}
