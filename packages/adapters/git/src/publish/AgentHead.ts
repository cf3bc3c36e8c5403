/**
 * The position of the agent's own git, read from the files of its `.git` by descriptor, a few bytes of each. So git need not start in the
 * box when there are no new commits. The agent may write anything there: the result is used for its own commits alone.
 */
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import { Effect, Stream } from "effect"
import type { HostRepository } from "../tree/HostRepository.ts"

/** A `HEAD` that names a branch is not longer, and no line of `packed-refs`. */
const MAXIMUM_HEAD_BYTES = 400
/** As the service laid it out, or after some hundred branches. */
const MAXIMUM_PACKED_BYTES = 65_536

/** The content of the file; `null`: it is missing. `undefined`: it is larger, or not a plain file. */
const contentOf = Effect.fnUntraced(function*({ tree }: HostRepository, name: string, maximumBytes: number) {
  const { bytes } = yield* tree.openFile(`.git/${name}`, maximumBytes)
  return Buffer.concat(yield* Stream.runCollect(bytes)).toString("latin1")
}, (content) =>
  Effect.scoped(content).pipe(
    Effect.catchTags({
      FileNotFound: () => Effect.succeed(null),
      FileProtected: () => Effect.undefined,
      FileTooLarge: () => Effect.undefined,
      IsDirectory: () => Effect.undefined
    })
  ))

export interface AgentHead {
  /** The branch the agent is on. */
  readonly branch: string | null
  /** The commit it is at; `null`: only git can tell. */
  readonly commit: string | null
}

export const read = Effect.fnUntraced(function*(repository: HostRepository) {
  const unknown: AgentHead = { branch: null, commit: null }
  const head = /^(?:ref: refs\/heads\/(?<branch>\S{1,255})|(?<commit>[0-9a-f]+))\n$/u.exec(
    (yield* contentOf(repository, "HEAD", MAXIMUM_HEAD_BYTES)) ?? ""
  )?.groups
  const { branch, commit } = head ?? {}
  if (commit !== undefined) return { ...unknown, commit: isCommitId(commit) ? commit : null }
  if (branch === undefined || !isRefName(branch)) return unknown
  // The common folder of a worktree, whose refs are elsewhere.
  if ((yield* contentOf(repository, "commondir", MAXIMUM_HEAD_BYTES)) !== null) return { branch, commit: null }
  const loose = yield* contentOf(repository, `refs/heads/${branch}`, MAXIMUM_HEAD_BYTES)
  const lines = loose === null ? (yield* contentOf(repository, "packed-refs", MAXIMUM_PACKED_BYTES))?.split("\n") ?? [] : []
  const said = loose === null ? lines.find((line) => line.endsWith(` refs/heads/${branch}`))?.split(" ")[0] : loose?.trim()
  return { branch, commit: said !== undefined && isCommitId(said) ? said : null }
})
