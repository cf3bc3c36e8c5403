/**
 * Refs of a repository of this machine, as its files have them: a process of git for each look would take longer than all else. What
 * is not as plain as git leaves it (reftables, linked worktrees, hidden or symbolic refs) is for git to tell.
 */
import { codeOf, ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import { isThere } from "@slipway/machine/node/IsThere"
import { lstat, readFile } from "node:fs/promises"
import { join } from "node:path"

/** Settings of a repository that change where refs are kept, which refs are shown, or include other files. */
const NOT_PLAIN = /refstorage|hiderefs|worktreeconfig|include/iu

const isFolder = (path: string): Promise<boolean> => lstat(path).then((stats) => stats.isDirectory(), ifAbsent(false))

/** The text; `null`: there is no such file. */
const textOf = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch((cause: unknown) => {
    if (codeOf(cause) === "EISDIR") return null
    return ifAbsent(null)(cause)
  })

/** The folder with the refs; `undefined`: git has to be asked. `path` is a checkout's top folder or a bare repository. */
const plainGitDir = async (path: string): Promise<string | undefined> => {
  const inside = join(path, ".git")
  const gitDir = await isFolder(inside) ? inside : await isThere(inside) ? undefined : path
  if (gitDir === undefined || !(await isFolder(join(gitDir, "refs", "heads"))) || !(await isFolder(join(gitDir, "objects")))) return
  const config = await textOf(join(gitDir, "config"))
  return config === null || NOT_PLAIN.test(config) || await isThere(join(gitDir, "commondir")) ? undefined : gitDir
}

const orUnknown = <A>(read: Promise<A>): Promise<A | undefined> => read.catch(() => undefined)

/**
 * The commits that these branches point to, by their short names; absent ones are left out. `undefined`: only git can tell. A branch
 * that is moved while it is looked for is where it was or where it is.
 */
export const tips = (path: string, branches: ReadonlyArray<string>): Promise<ReadonlyMap<string, string> | undefined> =>
  orUnknown((async () => {
    const gitDir = await plainGitDir(path)
    if (gitDir === undefined || !branches.every(isRefName)) return undefined
    const found = new Map<string, string>()
    const absent: Array<string> = []
    for (const branch of branches) {
      const loose = (await textOf(join(gitDir, "refs", "heads", branch)))?.trim()
      if (loose === undefined) absent.push(branch)
      else if (isCommitId(loose)) found.set(branch, loose)
      else return undefined
    }
    if (absent.length === 0) return found
    // After the loose ones, as git does: a ref that is packed meanwhile is in one of them.
    const packed = (await textOf(join(gitDir, "packed-refs")))?.split("\n") ?? []
    for (const branch of absent) {
      const commit = packed.find((line) => line.endsWith(` refs/heads/${branch}`))?.split(" ")[0]
      if (commit !== undefined) found.set(branch, commit)
    }
    return found
  })())

/** The branch that HEAD names; `undefined`: only git can tell, or HEAD names none. */
export const head = (path: string): Promise<string | undefined> =>
  orUnknown((async () => {
    const gitDir = await plainGitDir(path)
    const said = gitDir === undefined ? null : await textOf(join(gitDir, "HEAD"))
    const branch = /^ref: refs\/heads\/(\S+)\n?$/u.exec(said ?? "")?.[1]
    return branch !== undefined && isRefName(branch) ? branch : undefined
  })())
