/** The service's own repositories of a sandbox's trees, which lie beside its workspace (`TreesLayout`). */
import { isAbsolute, join } from "node:path"
import { namesIn, textIn } from "../node/IsThere.ts"
import * as TreesLayout from "./TreesLayout.ts"

/** Their folders. */
export const of = async (workspace: string): Promise<ReadonlyArray<string>> => {
  const folder = TreesLayout.repositoriesBeside(workspace)
  return (await namesIn(folder)).map((name) => join(folder, name))
}

/**
 * Folders with git objects that they borrow, and the trees with them: the agent's git in the box needs these too. The trees' own
 * `.git` could be made to name any folder.
 */
export const borrowed = async (repositories: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const found = await Promise.all(
    repositories.map(async (repository) =>
      (await textIn(join(repository, "objects", "info", "alternates"), "")).split("\n").filter(isAbsolute)
    )
  )
  return [...new Set(found.flat())]
}
