/** From an accepted sandbox to an agent that is ready: box and clones side by side, then the agent. */
import { Duration, Effect, Schedule } from "effect"
import { type CloneFailed, WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { Ids } from "@slipway/domain/Ids"
import type { AgentError } from "@slipway/domain/sandbox/AgentRuntime"
import type { SystemCommand } from "@slipway/domain/sandbox/SystemCommand"
import type { SandboxEventOf, SandboxStatus } from "@slipway/domain/sandbox/SandboxEvent"
import { turnId } from "@slipway/domain/sandbox/SandboxId"
import { type Box, type HostError, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import type { StaleLease } from "@slipway/domain/sandbox/SandboxStore"
import type { RepoRef } from "@slipway/domain/source/RepoRef"
import { type RepoNotAccessible, SourceHost, type SourceHostError } from "@slipway/domain/source/SourceHost"
import * as Agent from "./Agent.ts"
import type { HeldSandbox } from "./HeldSandbox.ts"

/** What a running sandbox needs. */
export interface Booted {
  readonly box: Box
  readonly agent: Agent.Agent
}

type Trouble = HostError | CloneFailed | RepoNotAccessible | SourceHostError | AgentError

const isRetryable = (error: Trouble | StaleLease): boolean => "retryable" in error && error.retryable

const failed = (trouble: Trouble): SystemCommand => ({
  _tag: "Fail",
  reason: trouble._tag === "RepoNotAccessible" ? "repo_not_accessible"
    : trouble._tag === "CloneFailed" || trouble._tag === "SourceHostError" ? "clone_failed"
    : "boot_failed",
  error: trouble.message,
  retryable: isRetryable(trouble)
})

/** A few tries within 15 s, far below the deadline of a boot. */
const patiently = <A, E extends Trouble | StaleLease, R>(self: Effect.Effect<A, E, R>) =>
  Effect.retry(self, { while: isRetryable, times: 5, schedule: Schedule.exponential("500 millis") })

/** A boot is under way, or has just succeeded. */
const mayBoot = (status: SandboxStatus): boolean => status === "queued" || status === "creating" || status === "running"

const clone = Effect.fn("BootSandbox.clone")(function*(held: HeldSandbox, { fullName, ref }: RepoRef) {
  const trees = yield* WorkingTrees
  const source = yield* SourceHost
  const { sandbox } = yield* held.view
  const [{ defaultBranch }, remote] = yield* Effect.all([source.repository(fullName), source.remote(fullName, "read")], { concurrency: 2 })
  yield* trees.prepare({ sandboxId: held.id, repo: fullName }, {
    remote,
    ref,
    defaultBranch,
    repos: sandbox.repos.map((repo) => repo.fullName)
  })
})

/**
 * Boots it and starts its first turn, or records why it could not. `null`: there is nothing to run. A boot that a lost
 * worker began starts again; every step finds what is already there.
 */
export const boot = Effect.fn("BootSandbox.boot")(function*(held: HeldSandbox) {
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const ids = yield* Ids

  const stage = <A, E, R>(name: SandboxEventOf<"sandbox.boot">["data"]["stage"], self: Effect.Effect<A, E, R>, repo?: string) =>
    Effect.flatMap(Effect.timed(self), ([took, result]) =>
      Effect.as(held.write([report(name, took, repo)]), result))

  const steps = Effect.gen(function*() {
    const { repos } = yield* held.write([{ _tag: "StartBoot" }])
    const [box] = yield* Effect.all([
      stage("provision", patiently(host.provision({ sandboxId: held.id, workspace: trees.workspace(held.id) }))),
      Effect.forEach(repos, (repo) => stage("clone", patiently(clone(held, repo)), repo.fullName), {
        concurrency: "unbounded",
        discard: true
      })
    ], { concurrency: 2 })
    // Agents read the trees when they start, so they start last. Nothing was said yet, so there is nothing to resume.
    const agent = yield* stage("agent_start", patiently(Agent.open(held, box, null)))
    return { box, agent }
  })

  const booting = Effect.gen(function*() {
    const [took, booted] = yield* Effect.timed(steps)
    yield* held.write([report("ready", took), { _tag: "FinishBoot", turnId: turnId(ids, held.id, 1) }])
    return booted
  }).pipe(
    Effect.catchTag(
      ["AgentError", "CloneFailed", "HostError", "RepoNotAccessible", "SourceHostError"],
      (trouble) => Effect.as(held.write([failed(trouble)]), null)
    )
  )
  // Terminated, timed out or let go of meanwhile: whatever was begun is dropped.
  return yield* Effect.raceFirst(
    booting,
    Effect.as(held.until(({ detached, sandbox }) => detached || !mayBoot(sandbox.status)), null)
  )
})

const report = (stage: SandboxEventOf<"sandbox.boot">["data"]["stage"], took: Duration.Duration, repo?: string): SystemCommand => ({
  _tag: "ReportBoot",
  data: { stage, ms: Math.round(Duration.toMillis(took)), ...(repo === undefined ? {} : { repo }) }
})
