/** Which submodules the trees of a sandbox may have. */
import type { FindSubmodule } from "@slipway/domain/files/ports/WorkingTrees"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { accountOf } from "@slipway/domain/source/schema/SubmoduleAddress"
import { Effect } from "effect"

const NOT_HERE = "The source host has no such address."

/**
 * Those of the accounts that the sandbox's own repositories belong to: a repository is written by strangers, who must not bring in what
 * they cannot read. Retrying may help where the source host did not answer.
 */
export const findSubmodule = (repos: ReadonlyArray<RepoRef>) =>
  Effect.map(SourceHost, (host) => {
    const accounts = new Set(repos.map(({ fullName }) => accountOf(fullName)))
    const find: FindSubmodule = Effect.fn("findSubmodule")(
      function*(address: string) {
        const repo = yield* host.repositoryAt(address)
        if (repo === null) return NOT_HERE
        if (!accounts.has(accountOf(repo))) {
          return `${repo} belongs to another account than the repositories of the sandbox. Create the sandbox with it, if it is to be used.`
        }
        return { repo, remote: yield* host.remote(repo, "read") }
      },
      (self) => Effect.catch(self, ({ message }) => Effect.succeed(`The ${message}`))
    )
    return find
  })
