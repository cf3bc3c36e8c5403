/** Compares edits that an approval for the rest of a turn would cover with the files on the disk (docs/decisions/3). */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { AgentEvent } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Effect, Predicate } from "effect"

/**
 * Removes `plain` from an edit whose names are plain but whose files are not: a link may lead to `.git/hooks` or out of the tree. The
 * agent waits meanwhile. An edit of a file that cannot be read is not plain.
 */
export const make = Effect.fnUntraced(function*({ id, repos }: Pick<Sandbox, "id" | "repos">) {
  const trees = yield* WorkingTrees
  const names = repos.map(({ fullName }) => fullName)
  const folders = names.map((repo) => ({ repo, prefix: `${trees.folder(repo, names)}/` }))

  const isFile = (path: string) => {
    const tree = folders.find(({ prefix }) => path.startsWith(prefix))
    if (tree === undefined) return Effect.succeed(false)
    const { prefix, repo } = tree
    return Effect.scoped(trees.open({ sandboxId: id, repo }, path.slice(prefix.length), Number.MAX_SAFE_INTEGER)).pipe(
      Effect.match({ onSuccess: () => true, onFailure: Predicate.isTagged("FileNotFound") })
    )
  }

  return (event: AgentEvent): Effect.Effect<AgentEvent> => {
    if (event._tag !== "ApprovalRequested" || event.plain !== true) return Effect.succeed(event)
    const { plain: _, ...rest } = event
    return Effect.map(Effect.forEach(event.paths ?? [], isFile), (are) => are.every(Boolean) ? event : rest)
  }
})
