/** Commits of a source host that a tree did not start from, brought into its repository: what was published, newer commits of the base. */
import type { CloneFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect, type Scope } from "effect"
import { join } from "node:path"
import type { FetchedCommit } from "../mirror/FetchCommit.ts"
import { replaceFile } from "../RepositoryLayout.ts"
import { type HostRepository, run } from "../tree/HostRepository.ts"
import * as Push from "./Push.ts"

export type Fetch = (repo: RepoName, remote: Remote, sha: string) => Effect.Effect<FetchedCommit, CloneFailed, Scope.Scope>

/** The lines of the file; none if it is missing. */
export const linesOf = async (file: string): Promise<ReadonlyArray<string>> =>
  (await textIn(file, "")).split("\n").filter((line) => line !== "")

/** A mirror that the repository borrows from already, unless the repository was renamed since. */
const borrow = ({ gitDir }: HostRepository, { objects, shallow }: FetchedCommit) =>
  Effect.promise(async () => {
    for (const [name, added] of [["objects/info/alternates", [objects]], ["shallow", shallow]] as const) {
      const file = join(gitDir, name)
      const known = await linesOf(file)
      const all = [...new Set([...known, ...added])]
      if (all.length > known.length) await replaceFile(file, `${all.join("\n")}\n`, join(gitDir, "scratch"))
    }
  })

/** Fetches those of the commits that are not in the repository. */
export const bring = Effect.fn("FetchedCommits.bring")(
  function*(repository: HostRepository, fetch: Fetch, remote: Remote, commits: Iterable<string>) {
    const asked = [...new Set(commits)]
    if (asked.length === 0) return
    const said = yield* run(repository, ["cat-file", "--batch-check=%(objecttype)"], { input: asked.map((sha) => `${sha}\n`).join("") })
    const kinds = said.toString().split("\n")
    const missing = asked.filter((_, i) => kinds[i] !== "commit")
    yield* Effect.forEach(
      missing,
      (sha) =>
        Effect.flatMap(fetch(repository.repo, remote, sha), (fetched) => borrow(repository, fetched)).pipe(
          Effect.catchTag("CloneFailed", ({ detail, retryable }) => Push.refuse(repository, { detail, retryable }))
        ),
      { discard: true }
    )
  },
  Effect.scoped
)
