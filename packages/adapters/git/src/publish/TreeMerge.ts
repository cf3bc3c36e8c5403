/** A three-way merge of trees without a checkout, by git's own rules. */
import { MergeConflict, type MergeStep } from "@slipway/domain/files/ports/WorkingTrees"
import { Effect } from "effect"
import { fields, line } from "../Git.ts"
import { type HostRepository, run } from "../tree/HostRepository.ts"
import * as CommitObject from "./CommitObject.ts"

const NOBODY = { name: "Slipway", email: "slipway@sandbox.invalid" }

/** Exit code of `git merge-tree` where files conflict. */
const CONFLICT = 1

export const treeOf = (repository: HostRepository, commit: string) =>
  Effect.map(run(repository, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`]), line)

/**
 * Merges the changes of `ours` since the ancestor with the commit `onto`. The merge base is passed to git as the parent of two unreferenced
 * commits: `--merge-base` came with git 2.40.
 */
export const merge = Effect.fn("TreeMerge.merge")(function*(repository: HostRepository, ours: string, { ancestor, onto }: MergeStep) {
  const [theirs, before] = [yield* treeOf(repository, onto), yield* treeOf(repository, ancestor ?? repository.baseSha)]
  if (ours === before || ours === theirs) return theirs
  if (theirs === before) return ours
  const commit = (tree: string, parent: string | null) =>
    Effect.promise(() => CommitObject.write(repository.gitDir, { tree, parent, author: NOBODY, at: 0, message: "For a merge\n" }))
  const common = yield* commit(before, null)
  const [one, other] = [yield* commit(theirs, common), yield* commit(ours, common)]
  const [tree, ...files] = fields(
    yield* run(repository, ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one, other], {
      answers: [CONFLICT],
      isLimited: true
    })
  ).map(String)
  const names = files.filter((name) => name !== "")
  if (tree === undefined || names.length > 0) return yield* new MergeConflict({ repo: repository.repo, files: [...new Set(names)] })
  return tree
})
