/** The repository of a checkout on this machine. */
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Schema from "effect/Schema"
import { execFile } from "node:child_process"

/** `owner/name` of a git remote's address: `https://host/owner/name.git`, `git@host:owner/name`. */
export const repoOfRemote = (address: string): string | null => {
  const [, owner, name] = /^(?:[a-z][a-z+]*:\/\/[^/]+\/|[^/@:]+@[^/:]+:)(?:.*\/)?([^/]+)\/([^/]+?)(?:\.git)?\/?$/u.exec(address) ?? []
  const fullName = `${owner}/${name}`
  return owner !== undefined && Schema.is(RepoName)(fullName) ? fullName : null
}

/** Settings of a folder that would start a program. */
const NO_PROGRAMS = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]

/**
 * `owner/name` of the checkout that has the folder, by its remote `origin`. `null`: the folder has no such remote, or git cannot be asked
 * within 5 seconds; the person names the repository then.
 */
export const repositoryIn = (folder: string, signal?: AbortSignal): Promise<string | null> =>
  new Promise((resolve) =>
    void execFile(
      "git",
      [...NO_PROGRAMS, "remote", "get-url", "origin"],
      { cwd: folder, timeout: 5000, ...(signal === undefined ? {} : { signal }) },
      (error, address) => resolve(error === null ? repoOfRemote(address.trim()) : null)
    )
  )
