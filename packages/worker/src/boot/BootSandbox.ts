/** From an accepted sandbox to an agent that is ready: box and clones side by side, then setup, then the agent. */
import type { SecretsMissing, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { type CloneFailed, TreesUnavailable, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import type { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { type HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { SandboxEventOf, SandboxStatus } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { type RepoNotAccessible, SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Duration, Effect, Fiber, Option, Schedule, Schema, type Scope, Semaphore } from "effect"
import * as Checkpoint from "../checkpoint/Checkpoint.ts"
import { reapOrphans } from "../jobs/ReapOrphans.ts"
import { conversationOf } from "../setup/ClearHome.ts"
import * as RunSetup from "../setup/RunSetup.ts"
import { findSubmodule } from "../shared/FindSubmodule.ts"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import { removeHere } from "../shared/ReleaseSandbox.ts"
import * as Agent from "../turn/Agent.ts"
import type { BootBreaker } from "./BootBreaker.ts"

/** A step died of a defect; the log has it. Another worker that took the sandbox over would die of it again. */
class StepBroke extends Schema.TaggedError<StepBroke>()("StepBroke", { step: Schema.String, retryable: Schema.Boolean }) {
  override get message() {
    return `The service broke while it did "${this.step}" of the boot. Its log says how. Try again, or ask the operator.`
  }
}

type Trouble =
  | HostError
  | CloneFailed
  | TreesUnavailable
  | RepoNotAccessible
  | SourceHostError
  | AgentError
  | StepBroke
  | Checkpoint.NoneLeft
  | SecretsMissing
  | SecretsUnusable
  | RunSetup.SetupFailed

const isRetryable = (error: Trouble | StaleLease): boolean => "retryable" in error && error.retryable

const reasonOf = ({ _tag }: Trouble) => {
  switch (_tag) {
    case "RepoNotAccessible":
      return "repo_not_accessible"
    case "CloneFailed":
    case "NoneLeft":
    case "SourceHostError":
      return "clone_failed"
    default:
      return "boot_failed"
  }
}

/** Whether any boot here is likely to meet it. An agent that is not installed or has a wrong key concerns those of its model alone. */
const isOfMachine = (trouble: Trouble): boolean => {
  switch (trouble._tag) {
    case "HostError":
    case "TreesUnavailable":
      return true
    case "AgentError":
      return trouble.refusedByHost === true
    case "StepBroke":
      return trouble.step !== "agent_start"
    default:
      return false
  }
}

type Stage = SandboxEventOf<"sandbox.boot">["data"]["stage"]
type About = Pick<SandboxEventOf<"sandbox.boot">["data"], "empty_submodules" | "lfs_missing" | "lfs_pointers" | "repo" | "submodules">

/** Names of the stages in traces. */
const STAGES: Readonly<Record<Stage, string>> = {
  provision: "provision",
  clone: "clone",
  setup: "setup",
  mcp: "MCP servers",
  agent_start: "agent start",
  ready: "ready"
}

const whole = <A, E, R>(step: Stage, self: Effect.Effect<A, E, R>) =>
  Effect.catchDefect(
    self,
    (defect) => Effect.andThen(Effect.logError("a step of a boot broke", { step }, defect), new StepBroke({ step, retryable: true }))
  )

/** A few tries within 15 s, far below the deadline of a boot. */
const patiently = <A, E extends Trouble | StaleLease, R>(self: Effect.Effect<A, E, R>) =>
  Effect.retry(self, {
    // Room was made already where there was some to make.
    while: (error) => error._tag !== "TreesUnavailable" && isRetryable(error),
    times: 5,
    schedule: Schedule.exponential("500 millis")
  })

/** A boot is under way, or has just succeeded. */
const mayBoot = (status: SandboxStatus): boolean => status === "queued" || status === "creating" || status === "running"

/** Makes the tree of a repository as it is at its source, or finds the existing tree. */
export const clone = Effect.fn("BootSandbox.clone")(function*(leased: LeasedSandbox, { fullName, ref }: RepoRef) {
  const trees = yield* WorkingTrees
  const source = yield* SourceHost
  const { sandbox } = yield* leased.view
  const [{ defaultBranch }, remote] = yield* Effect.all([source.repository(fullName), source.remote(fullName, "read")], { concurrency: 2 })
  return yield* trees.prepare({ sandboxId: leased.id, repo: fullName }, {
    remote,
    ref,
    defaultBranch,
    repos: sandbox.repos.map((repo) => repo.fullName),
    submodule: yield* findSubmodule(sandbox.repos)
  })
})

/** Removes what is unused: first remains of finished sandboxes, then what can be fetched again. */
const makeRoom = Effect.gen(function*() {
  const trees = yield* WorkingTrees
  yield* Effect.logWarning("the disk is full: removing unused files")
  yield* reapOrphans().pipe(Effect.catchCause((cause) => Effect.logWarning("finished sandboxes could not be removed", cause)))
  yield* trees.makeRoom
  const caches = yield* Effect.serviceOption(SetupCaches)
  if (Option.isSome(caches)) yield* caches.value.makeRoom
}).pipe(Effect.withSpan("BootSandbox.makeRoom"))

/** On a full disk once more, after room was made. */
export const withRoom = <A, E, R>(self: Effect.Effect<A, E | TreesUnavailable, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | TreesUnavailable, TreesUnavailable> => isFull(error),
    () => Effect.andThen(makeRoom, self)
  )

const isFull = (error: unknown): boolean => error instanceof TreesUnavailable && error.retryable

/**
 * The sandbox for its boot, which waits for the store where it has to: what it has done is noted, and written in that order with
 * whatever is written next, or by itself meanwhile. A note that cannot be written fails what is written next.
 */
const noting = (leased: LeasedSandbox, scope: Scope.Scope) => {
  const turn = Semaphore.makeUnsafe(1)
  const due: Array<SystemCommand> = []
  const write = (commands: ReadonlyArray<SystemCommand>) =>
    turn.withPermits(1)(Effect.suspend(() => leased.write([...due.splice(0), ...commands])))
  const writeDue = turn.withPermits(1)(Effect.suspend(() => due.length === 0 ? Effect.void : leased.write(due.splice(0))))
  const note = (command: SystemCommand) =>
    Effect.suspend(() => {
      due.push(command)
      // Not a child of the step that ends with it.
      return Effect.forkIn(Effect.ignore(writeDue), scope)
    })
  return { booting: { ...leased, write } satisfies LeasedSandbox, note }
}

/**
 * Boots it and starts its first turn, or records why it could not. `null`: there is nothing to run. `elsewhere`: another worker
 * is to boot it, this one breaks every boot. A boot that a lost worker began starts again; every step finds what is already there.
 */
export const boot = Effect.fn("BootSandbox.boot")(function*(underLease: LeasedSandbox, breaker: BootBreaker) {
  const scope = yield* Effect.scope
  const { booting: leased, note } = noting(underLease, scope)
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const ids = yield* Ids

  const stage = <A, E extends Trouble | StaleLease, R>(name: Stage, self: Effect.Effect<A, E, R>, about?: (result: A) => About) =>
    Effect.flatMap(
      Effect.timed(patiently(whole(name, self)).pipe(Effect.withSpan(STAGES[name]))),
      ([took, result]) => Effect.as(note(report(name, took, about?.(result))), result)
    )

  const steps = Effect.gen(function*() {
    const { sandbox: { origin, owesCheckpoint, repos } } = yield* leased.view
    // The first that is written, whatever becomes of the steps beside it.
    const starting = yield* Effect.forkIn(leased.write([{ _tag: "StartBoot" }]), scope, { startImmediately: true })
    // Begun before its machine lost its power.
    if (!owesCheckpoint && !(yield* trees.isWhole(leased.id))) yield* removeHere(leased.id)
    const provision = stage("provision", host.provision(leased.lease))
    const clones = Effect.forEach(
      repos,
      (repo) =>
        stage("clone", withRoom(clone(leased, repo)), ({ emptySubmodules, lfsMissing, lfsPointers, submodules }) => ({
          repo: repo.fullName,
          ...(submodules === undefined ? {} : { submodules }),
          ...(emptySubmodules === undefined ? {} : { empty_submodules: emptySubmodules }),
          ...(lfsPointers === undefined ? {} : { lfs_pointers: lfsPointers }),
          ...(lfsMissing === undefined ? {} : { lfs_missing: lfsMissing })
        })),
      { concurrency: "unbounded", discard: true }
    )
    if (origin !== null) yield* Fiber.join(starting)
    if (origin !== null && !(owesCheckpoint && (yield* trees.has(leased.id)))) {
      // Before the box: trees that are restored are given to a box when it is made.
      yield* stage("clone", withRoom(Checkpoint.restore(leased, { cause: "fork", checkpoint: origin.checkpoint, of: origin.sandboxId })))
    }
    const [box] = yield* Effect.all([provision, origin === null ? clones : Effect.void, Fiber.join(starting)], { concurrency: 3 })
    // Agents read the trees when they start, so they start last.
    const conversation = origin === null ? [] : yield* conversationOf(leased)
    const prepared = yield* patiently(whole("setup", RunSetup.run(leased, box, { isFresh: origin === null, conversation }))).pipe(
      Effect.withSpan(STAGES.setup)
    )
    // A fork continues the conversation that it was restored with. Any other boot begins a conversation: no message was sent yet, and the
    // session of a boot that was cut short may have gone with its machine.
    const known = yield* leased.agentSession
    if (known !== null && origin === null) yield* leased.saveAgentSession(null)
    const saved = origin === null ? null : known
    const agent = yield* stage("agent_start", Agent.open(leased, box, saved, Effect.succeed(prepared)))
    return { box, agent }
  })

  const booting = Effect.gen(function*() {
    const [took, booted] = yield* Effect.timed(steps)
    yield* leased.write([report("ready", took), { _tag: "FinishBoot", turnId: turnId(ids, leased.id, 1) }])
    yield* breaker.succeeded
    return booted
  }).pipe(
    Effect.catchTag(
      [
        "AgentError",
        "CloneFailed",
        "HostError",
        "NoneLeft",
        "RepoNotAccessible",
        "SecretsMissing",
        "SecretsUnusable",
        "SetupFailed",
        "SourceHostError",
        "StepBroke",
        "TreesUnavailable"
      ],
      Effect.fnUntraced(function*(trouble: Trouble) {
        const reason = reasonOf(trouble)
        if (isOfMachine(trouble) && (yield* breaker.failed(leased.id, trouble.message))) return "elsewhere" as const
        if (trouble._tag === "AgentError" && trouble.refusedByHost !== true) yield* breaker.succeeded
        yield* leased.write([{ _tag: "Fail", reason, error: trouble.message, retryable: isRetryable(trouble) }])
        return null
      })
    )
  )
  // Terminated, timed out or let go of meanwhile: whatever was begun is dropped.
  return yield* Effect.raceFirst(
    booting,
    Effect.as(leased.until(({ draining, sandbox }) => draining || !mayBoot(sandbox.status)), null)
  )
})

const report = (stage: Stage, took: Duration.Duration, about: About = {}): SystemCommand => ({
  _tag: "ReportBoot",
  data: { stage, ms: Math.round(Duration.toMillis(took)), ...about }
})
