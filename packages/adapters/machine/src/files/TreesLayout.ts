/**
 * Where the trees of sandboxes are on this machine: what `git/working-trees/WorkingTreesGit` and the hosts of boxes here agree on.
 *
 *     <directory>/sandboxes/<sandbox>/git/<owner>+<name>     the service's own repository of one tree
 *     <directory>/sandboxes/<sandbox>/workspace/<folder>     the tree
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { dirname, join, resolve } from "node:path"

/** Holds a folder for each sandbox, named by it. */
export const sandboxesIn = (directory: string): string => join(resolve(directory), "sandboxes")

/** All of a sandbox that its agent may write to, of the folder that is named by it. */
export const workspaceIn = (sandboxFolder: string): string => join(sandboxFolder, "workspace")

/** Holds a sandbox's repositories, of the same folder. */
export const repositoriesIn = (sandboxFolder: string): string => join(sandboxFolder, "git")

/** The same for who knows the workspace. */
export const repositoriesBeside = (workspace: string): string => repositoriesIn(dirname(workspace))

/** Where the workspace of each sandbox is, of trees in `directory`. */
export const workspacesIn = (directory: string) => (sandboxId: SandboxId): string => workspaceIn(join(sandboxesIn(directory), sandboxId))
