/** Which edits an approval for the rest of a turn covers (docs/decisions/3). All others are approved one by one. */
import { isProtected } from "../../source/rules/FileRules.ts"
import type { ToolCall } from "./ToolCall.ts"

/**
 * A file below one of the `folders`, the repositories' trees. `path` is relative to the workspace. Decided by the name alone: what is
 * there may be a link. A name with `..` is refused wherever it leads, because `a/..` is another folder than `.` where `a` is a link.
 */
const isPlainName = (path: string, folders: ReadonlyArray<string>): boolean =>
  path.isWellFormed() && !path.includes("\0") && path.split("/").every((name) => name !== "" && name !== "." && name !== "..") &&
  folders.some((folder) => path.startsWith(`${folder}/`)) && !isProtected(path)

/**
 * Whether an edit changes plain files of the trees alone: no protected name, nothing outside the trees, no deletion. An edit that does
 * not say so is not plain.
 */
export const isPlain = ({ kind, paths = [], removes }: ToolCall, folders: ReadonlyArray<string>): boolean =>
  kind === "edit" && removes === false && paths.length > 0 && paths.every((path) => isPlainName(path, folders))
