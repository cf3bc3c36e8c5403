/** Folders with git objects that the trees of a workspace borrow: the agent's git in the box needs them too. */
import { readdir, readFile } from "node:fs/promises"
import { dirname, isAbsolute, join } from "node:path"

/**
 * As the host's own repositories have it, beside the workspace (the layout of `git/WorkingTreesGit`): the trees' `.git`
 * could be made to name any folder.
 */
export const of = async (workspace: string): Promise<ReadonlyArray<string>> => {
  const repositories = join(dirname(workspace), "git")
  const found = await Promise.all(
    (await readdir(repositories).catch(() => [])).map(async (name) =>
      (await readFile(join(repositories, name, "objects", "info", "alternates"), "utf8").catch(() => "")).split("\n").filter(isAbsolute)
    )
  )
  return [...new Set(found.flat())]
}
