/** Where the files of working trees are on this machine; `WorkingTreesGit` has the whole layout. */
import type { TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as TreesLayout from "@slipway/machine/files/TreesLayout"
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { chmod, mkdir } from "node:fs/promises"
import { basename, join, resolve } from "node:path"
import type { FetchedCommit } from "../mirror/FetchCommit.ts"
import type * as HostRepository from "../tree/HostRepository.ts"

export interface TreePaths {
  /** The folder of all others, but for `sandboxes`. */
  readonly directory: string
  readonly sandboxes: string
  readonly mirrors: string
  readonly restoring: string
  readonly learned: string
}

/** `sandboxes`: the folder with a folder of each sandbox. */
export const make = (directory: string, sandboxes: string): TreePaths => ({
  directory: resolve(directory),
  sandboxes,
  mirrors: join(resolve(directory), "mirrors"),
  restoring: join(resolve(directory), "restoring"),
  learned: join(resolve(directory), "learned")
})

export const isSandboxId = Schema.is(SandboxId)

export const sandboxDirectory = ({ sandboxes }: TreePaths, sandboxId: SandboxId): string => {
  // Most of what is below this path gets deleted at some time.
  if (!isSandboxId(sandboxId)) throw new Error("not a sandbox id")
  return join(sandboxes, sandboxId)
}

/** The host's repository of one tree. */
export const gitDirectory = (paths: TreePaths, { repo, sandboxId }: TreeKey): string =>
  join(TreesLayout.repositoriesIn(sandboxDirectory(paths, sandboxId)), repo.toLowerCase().replace("/", "+"))

/** There while the sandbox's trees are restored, and after a restoration was broken off. */
export const restoringMark = (paths: TreePaths, sandboxId: SandboxId): string =>
  join(paths.restoring, basename(sandboxDirectory(paths, sandboxId)))

/** The repository's name; with the owner in front where two repositories share it. No name of a repository has a `+`. */
export const folder = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}

/** A site of its own for a tree to be made on. */
export const siteOf = (
  paths: TreePaths,
  { repo, sandboxId }: TreeKey,
  commit: FetchedCommit,
  folder: string,
  baseRef: string | null,
  preparedAt: number
): HostRepository.Making => {
  const gitDir = gitDirectory(paths, { repo, sandboxId })
  return {
    sandboxId,
    site: join(sandboxDirectory(paths, sandboxId), "making", basename(gitDir), randomUUID()),
    repo,
    gitDir,
    folder,
    baseSha: commit.sha,
    baseRef,
    objects: commit.objects,
    shallow: commit.shallow,
    preparedAt
  }
}

/**
 * Makes a folder that other users of the machine cannot enter, and closes a folder that an earlier version left open: repositories may be
 * private. A box of another user still sees its own tree, because the process that starts its box mounts it.
 */
export const ownFolder = async (path: string): Promise<void> => {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chmod(path, 0o700)
}

/** Closes the existing folders of a sandbox in the same way. Its user owns the workspace. */
export const closeFolders = async (path: string): Promise<void> => {
  for (const folder of [path, join(path, "workspace")]) {
    await chmod(folder, 0o700).catch(ifAbsent(undefined))
  }
}
