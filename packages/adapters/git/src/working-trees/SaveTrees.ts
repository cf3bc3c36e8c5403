/** Saves the trees of a sandbox: all of them, or none. */
import { CannotSave, MAXIMUM_SAVED_BYTES, OnBehalfOf, type SaveOptions, type TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Scope } from "effect"
import * as Saving from "../save/Saving.ts"
import * as TreesArchive from "../save/TreesArchive.ts"
import { boxGit, exclusive, find, minded, type OpenTrees } from "./OpenTrees.ts"

/** Time to save all trees of a sandbox. */
const SAVING_WITHIN = "1 minute"

const late = (repo: string) => new CannotSave({ repo, detail: `It could not be saved within ${SAVING_WITHIN}.`, retryable: true })

const saveOne = (
  trees: OpenTrees,
  sandboxId: SandboxId,
  asked: SaveOptions,
  maximumBytes: number,
  /** The user for whom it is saved. */
  grant: typeof OnBehalfOf.Service,
  /** Open until the archive is written. */
  files: Scope.Scope
) => {
  const key: TreeKey = { sandboxId, repo: asked.repo }
  return Effect.flatMap(find(trees, key), (repository) =>
    trees.turns.turn(grant, sandboxId, SAVING_WITHIN)(
      Scope.provide(
        Saving.save(repository, boxGit(trees, sandboxId), asked, maximumBytes, trees.limits.treeBytes),
        files
      ),
      () => late(asked.repo)
    )).pipe((self) => exclusive(self, trees, key), (self) => minded(self, trees, key))
}

export const save = Effect.fn("WorkingTrees.save")(
  function*(
    trees: OpenTrees,
    sandboxId: SandboxId,
    repos: ReadonlyArray<SaveOptions>,
    { maximumBytes = MAXIMUM_SAVED_BYTES }: { readonly maximumBytes?: number } = {}
  ) {
    const grant = yield* OnBehalfOf
    // Locks have scopes of their own.
    const files = yield* Effect.scope
    const saved = yield* Effect.forEach(repos, (asked) => saveOne(trees, sandboxId, asked, maximumBytes, grant, files)).pipe(
      Effect.timeoutOrElse({ duration: SAVING_WITHIN, orElse: () => Effect.fail(late(repos[0]?.repo ?? "")) })
    )
    const { content, size } = yield* TreesArchive.write(saved)
    if (size > maximumBytes) {
      return yield* new CannotSave({
        repo: repos[0]?.repo ?? "",
        detail: "The trees are larger than they may be together.",
        retryable: false
      })
    }
    return {
      repos: saved.map(({ tree: { repo, sha } }) => ({ repo, sha })),
      changes: saved.flatMap(({ changes }) => changes === null ? [] : [changes]),
      content
    }
  },
  (self, trees) => minded(self, trees)
)
