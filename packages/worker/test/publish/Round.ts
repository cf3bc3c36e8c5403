/** A round of feedback as workers do it on real technology: they look, the agent ends its turn, and what is to be published is. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { type Lease, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { evolveAll, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import * as PullRequestFeedbackForgejo from "@slipway/forgejo/PullRequestFeedbackForgejo"
import * as PullRequestFeedbackGitHub from "@slipway/github/PullRequestFeedbackGitHub"
import * as PullRequestFeedbackGitLab from "@slipway/gitlab/PullRequestFeedbackGitLab"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import * as PullRequestFeedbackLocal from "@slipway/local-source/PullRequestFeedbackLocal"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as FeedbackWatchesPostgres from "@slipway/postgres/feedback-watches/FeedbackWatchesPostgres"
import { DateTime, Effect, Layer, Redacted, Result } from "effect"
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { followFeedback } from "../../src/jobs/FollowFeedback.ts"
import { gitLabOptions, localLayer, publishOnce, type Settings } from "./Worker.ts"

/** More looks than a round has: deliver, publish, reply, and those that come in the millisecond of a change and find nothing due. */
const LOOKS = 50
/** Looks that find no round, after which there is none. */
const IDLE_LOOKS = 5

/** Comments on the host, and the watches of its pull requests. */
export const portsLayer = ({ host }: Pick<Settings, "host">, privateKey: string) =>
  Layer.mergeAll(
    FeedbackWatchesPostgres.layer,
    host.kind === "github"
      ? PullRequestFeedbackGitHub.layer({ appId: host.appId, apiUrl: host.apiUrl, privateKey: Redacted.make(privateKey) })
      : host.kind === "forgejo"
      ? PullRequestFeedbackForgejo.layer({ url: host.url, token: () => Effect.succeed(Redacted.make(privateKey)) })
      : host.kind === "gitlab"
      ? PullRequestFeedbackGitLab.layer(gitLabOptions(host.url, privateKey))
      : Layer.merge(PullRequestFeedbackLocal.layer, LocalPullRequests.layerPages).pipe(Layer.provide(localLayer))
  )

/** The use case over these ports. */
export const useCase = Feedback.layer.pipe(Layer.provide(IdsNode.layer))

type Decided = ReturnType<typeof decide>

const together = (sandbox: Sandbox, commands: ReadonlyArray<SystemCommand>, context: Parameters<typeof decide>[2]): Decided =>
  commands.reduce(
    (events: Decided, command): Decided =>
      Result.flatMap(events, (so) => Result.map(decide(evolveAll(sandbox, so, context.now), command, context), (more) => [...so, ...more])),
    Result.succeed([])
  )

/** The agent does what it was asked for, and its turn succeeds. One commit: a turn that loses its worker is another subject. */
export const agentTurn = Effect.fnUntraced(function*(lease: Lease, tree: string) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  const now = yield* DateTime.now
  yield* store.change(lease.sandboxId, lease, (sandbox): Decided => {
    const { turn } = sandbox
    if (turn?.state !== "pending") return Result.succeed([])
    writeFileSync(join(tree, "asked.txt"), `${turn.prompt}\n`)
    return together(sandbox, [{ _tag: "StartTurn", turnId: turn.id }, { _tag: "EndTurn", turnId: turn.id, state: "succeeded" }], {
      now,
      limits
    })
  }, now)
})

/** Does all that is due for the sandbox, until its round is over. */
export const roundOnce = Effect.fnUntraced(function*(id: SandboxId, grantId: string, tree: string) {
  const store = yield* SandboxStore
  const leases = yield* Leases
  let [began, idle] = [false, 0]
  for (let i = 0; i < LOOKS; i++) {
    yield* followFeedback()
    const { feedback } = yield* store.find({ grantId, id })
    if (feedback?.round == null && (began || ++idle === IDLE_LOOKS)) return
    began ||= feedback?.round != null
    const taken = yield* leases.take({ worker: randomUUID(), machine: id }, { slots: 1000, boots: 1000, errands: 1000 })
    const lease = taken.find(({ lease }) => lease.sandboxId === id)?.lease
    if (lease === undefined) continue
    yield* agentTurn(lease, tree)
    const { publications } = yield* store.find({ grantId, id })
    if (publications.some(isUnderWay)) yield* publishOnce(lease, grantId)
    yield* leases.endLeases(id)
  }
})

/** The items that programs wrote on the pull request: the service's replies. */
export const replies = Effect.fnUntraced(function*(repo: Sandbox["repos"][number]["fullName"], number: number) {
  const port = yield* PullRequestFeedback
  const { items } = yield* port.read(repo, number, { since: DateTime.makeUnsafe(0), checks: false, knownChecks: new Set() })
  return items.filter(({ author }) => author.isBot)
})

/** Something of the pull request changed, as its host says. */
export const noticed = (repo: Sandbox["repos"][number]["fullName"], branch: string) =>
  Effect.flatMap(DateTime.now, (now) => FeedbackWatches.use((watches) => watches.noticed(repo, branch, now)))
