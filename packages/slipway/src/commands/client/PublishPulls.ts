/** Publishes a sandbox's changes as draft pull requests. */
import type { PullRequestStatus, RepoRef } from "@slipway/client"
import { Effect, Schedule } from "effect"
import { CommandFailed, ExitCode, type Server } from "./server/Server.ts"

/** Enough for a large repository. After that, the person has to ask again. */
const LONGEST = "10 minutes"

const isUnderWay = ({ actionState }: PullRequestStatus) => actionState === "publishing" || actionState === "updating"

/** Publishes one repository and waits for the end. A draft ends only where the publication was seen to end. */
const publishOne = Effect.fnUntraced(function*({ call, client }: Server, id: string, repo: string, ready: boolean) {
  const first = yield* call((signal) => client.publishPullRequest(id, { repo, ...(ready ? { ready } : {}) }, { signal }))
  const status = !isUnderWay(first) ? first : yield* call((signal) => client.getPullRequest(id, { repo }, { signal })).pipe(
    Effect.repeat({ schedule: Schedule.spaced("2 seconds"), while: isUnderWay }),
    Effect.timeoutOrElse({ duration: LONGEST, orElse: () => Effect.succeed(first) })
  )
  if (isUnderWay(status)) {
    return yield* new CommandFailed({
      detail: `publishing ${repo} takes long. Ask again: slipway publish ${id}`,
      exitCode: ExitCode.unreachable
    })
  }
  if (status.actionState === "failed" || status.pullRequest === null) {
    return yield* new CommandFailed({ detail: `${repo} could not be published. Why, says: slipway logs ${id}`, exitCode: ExitCode.failed })
  }
  if (ready && isUnderWay(first)) return yield* call((signal) => client.publishPullRequest(id, { repo, ready }, { signal }))
  return status
})

/** There are no changes (docs/decisions/1). With several repositories, that is a failure only if none has changes. */
const isUnchanged = ({ code, exitCode }: CommandFailed) => exitCode === ExitCode.refused && code === "invalid_request"

/** Publishes the changes of one repository after the other. Safe to repeat: each has one pull request. */
export const publishAll = Effect.fnUntraced(function*(server: Server, id: string, repos: ReadonlyArray<RepoRef>, ready = false) {
  const published: Array<PullRequestStatus> = []
  let unchanged: CommandFailed | undefined
  for (const { fullName } of repos) {
    const result = yield* Effect.result(publishOne(server, id, fullName, ready))
    if (result._tag === "Success") published.push(result.success)
    else if (repos.length > 1 && isUnchanged(result.failure)) unchanged = result.failure
    else return yield* result.failure
  }
  if (published.length === 0 && unchanged !== undefined) return yield* unchanged
  return published
})
