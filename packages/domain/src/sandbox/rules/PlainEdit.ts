/** Decides which edits an approval for the rest of a turn covers (docs/decisions/3). All others need an approval each. */
import { isProtected } from "../../source/rules/FileRules.ts"
import type { ToolCall } from "./ToolCall.ts"

/**
 * Whether the path is below one of the `folders`, the repositories' trees. `path` is relative to the workspace. Only the name is
 * checked: the file may be a link. A name with `..` is refused, because `a/..` differs from `.` if `a` is a link.
 */
const isPlainName = (path: string, folders: ReadonlyArray<string>): boolean =>
  path.isWellFormed() && !path.includes("\0") && path.split("/").every((name) => name !== "" && name !== "." && name !== "..") &&
  folders.some((folder) => path.startsWith(`${folder}/`)) && !isProtected(path)

/**
 * Whether an edit changes only plain files of the trees: no protected name, no path outside the trees, no deletion. An edit without
 * this information is not plain.
 */
export const isPlain = ({ kind, paths = [], removes }: ToolCall, folders: ReadonlyArray<string>): boolean =>
  kind === "edit" && removes === false && paths.length > 0 && paths.every((path) => isPlainName(path, folders))
