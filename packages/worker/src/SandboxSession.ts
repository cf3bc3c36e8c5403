/**
 * What a worker does for one sandbox while it holds the lease: it reads the state and makes reality agree with it, from
 * boot to release. There is no job beside the state, so a worker that takes over just begins here.
 */
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import type { Usage } from "@slipway/domain/models/Usage"
import { AgentError } from "@slipway/domain/sandbox/AgentRuntime"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { isUnderWay, publicationOf, isSettled } from "@slipway/domain/sandbox/Sandbox"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { isActive } from "@slipway/domain/sandbox/Turn"
import type { RepoName } from "@slipway/domain/source/RepoRef"
import { Duration, Effect, Exit, Schedule, Scope, Stream } from "effect"
import * as Agent from "./Agent.ts"
import * as AgentHistory from "./AgentHistory.ts"
import { boot, type Booted } from "./BootSandbox.ts"
import { elapsedMillis } from "./Elapsed.ts"
import { type HeldSandbox, isLeaving, untilAvailable, type View } from "./HeldSandbox.ts"
import { publishChanges } from "./PublishChanges.ts"
import { cleanUp, release } from "./ReleaseSandbox.ts"
import { runTurn } from "./RunTurn.ts"
import { Timing } from "./Timing.ts"

/** How often and since when the agent has been lost, without a good one in between. */
interface Losses {
  /** By `elapsedMillis`. */
  readonly since: number
  readonly count: number
}

const noLosses: Losses = { since: 0, count: 0 }

const MAX_PAUSE_MILLIS = 30_000

/** At once after the first loss, then ever later. */
const pauseAfter = (count: number) => count === 0 ? Effect.void : Effect.sleep(Math.min(250 * 2 ** count, MAX_PAUSE_MILLIS))

/** Opens the agent again and resumes its conversation. `null`: it could not be done in time, or need not be done. */
const reopen = Effect.fn("SandboxSession.reopen")(function*(held: HeldSandbox, box: Box, losses: Losses) {
  const { lost } = yield* Policy
  const deadline = losses.since + Duration.toMillis(lost)
  const { sandbox: { agentRuntime: runtime } } = yield* held.view
  let trouble = new AgentError({ runtime, operation: "open", detail: "it could not be kept running", retryable: true })

  const attempts = Effect.gen(function*() {
    for (let count = losses.count;; count++) {
      yield* pauseAfter(count)
      const left = deadline - (yield* elapsedMillis)
      if (left <= 0 || !trouble.retryable) {
        yield* held.write([{ _tag: "Fail", reason: "agent_lost", error: trouble.message, retryable: trouble.retryable }])
        return null
      }
      const opened = yield* Agent.open(held, box, yield* held.agentSession).pipe(
        Effect.timeoutOrElse({ duration: left, orElse: () => Effect.fail(trouble) }),
        Effect.catchTag("AgentError", Effect.succeed)
      )
      if (!(opened instanceof AgentError)) return opened
      yield* Effect.logWarning("could not open the agent again", opened)
      trouble = opened
    }
  })
  return yield* Effect.raceFirst(attempts, Effect.as(held.until(isLeaving), null))
})

/** There is a turn to run, or nothing is to be run any more. */
const isWanted = (view: View): boolean => isLeaving(view) || view.sandbox.turn?.state === "pending"

/** What the sandbox used and the store does not know yet. Nothing is added to a sandbox that is over. */
const reportUsage = Effect.fnUntraced(function*(held: HeldSandbox, usage: Usage) {
  const { sandbox } = yield* held.view
  const known = sandbox.usage.costMicroUsd === usage.costMicroUsd && sandbox.usage.llmRequestCount === usage.llmRequestCount
  if (!known && !isSettled(sandbox.status)) yield* held.write([{ _tag: "ReportUsage", usage }])
})

/** Usage that comes between two turns: what a worker before this one left, or what the agent does unasked. */
const meter = Effect.fnUntraced(function*(held: HeldSandbox, { model }: Agent.Agent) {
  const timing = yield* Timing
  if (model === null) return yield* Effect.never
  yield* Stream.runForEach(model.accounts, ({ usage }) => Effect.andThen(reportUsage(held, usage), Effect.sleep(timing.usage)))
  return yield* Effect.never
})

/** Runs the turns that people ask for, until the agent is gone, idle, or the sandbox is not to run any more. */
const serve = Effect.fnUntraced(function*(held: HeldSandbox, agent: Agent.Agent) {
  const { agentIdle } = yield* Timing
  for (;;) {
    const view = yield* Effect.raceAllFirst([
      held.until(isWanted),
      Effect.as(agent.session.exited, "lost" as const),
      Effect.as(Effect.sleep(agentIdle), "idle" as const),
      meter(held, agent)
    ])
    if (view === "lost" || view === "idle") return view
    if (isLeaving(view) || view.sandbox.turn === null) return "left"
    const outcome = yield* runTurn(held, agent, view.sandbox.turn)
    if (outcome !== "alive") return outcome
  }
})

/** Keeps an agent at work for as long as the sandbox runs; one that nobody needs is stopped until somebody does. */
const keepAgent = Effect.fnUntraced(function*(held: HeldSandbox, { agent: first, box }: Booted) {
  const { steady } = yield* Timing
  let agent: Agent.Agent | null = first
  let losses = noLosses
  while (agent !== null) {
    const end: "idle" | "killed" | "left" | "lost" = yield* serve(held, agent)
    if (end === "idle") yield* Agent.rememberSession(held, agent)
    yield* agent.close
    if (agent.model !== null) yield* reportUsage(held, (yield* agent.model.account).usage)
    if (isLeaving(yield* held.view)) return
    if (end === "idle") {
      yield* Effect.logDebug("the agent is idle and is stopped until the next turn")
      if (isLeaving(yield* held.until(isWanted))) return
    }
    const now = yield* elapsedMillis
    const isFirst = losses === noLosses || end === "idle" || end === "killed" || now - agent.openedAt >= Duration.toMillis(steady)
    losses = isFirst ? { since: now, count: 0 } : { ...losses, count: losses.count + 1 }
    agent = yield* reopen(held, box, losses)
  }
})

/** Publishes a repository whenever that is asked for, beside the turns. */
const publish = Effect.fnUntraced(function*(held: HeldSandbox, box: Box, repo: RepoName) {
  const trees = yield* WorkingTrees
  for (;;) {
    const { sandbox } = yield* held.until(({ sandbox }) => isUnderWay(publicationOf(sandbox, repo)))
    const folder = trees.folder(repo, sandbox.repos.map(({ fullName }) => fullName))
    yield* publishChanges(held.lease, sandbox, repo, AgentHistory.read(box, folder)).pipe(
      untilAvailable,
      Effect.catchTag("SandboxNotFound", Effect.die),
      Effect.flatMap(held.observe)
    )
  }
})

/** Box and agent of a sandbox that ran under another worker. `null`: they are lost for good, or need not run any more. */
const takeOver = Effect.fn("SandboxSession.takeOver")(function*(held: HeldSandbox, elsewhere: boolean) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const { lost } = yield* Policy
  const hostLost = (error: string, retryable: boolean) =>
    Effect.as(held.write([{ _tag: "Fail", reason: "host_lost", error, retryable }]), null)

  const { sandbox: { turn } } = yield* held.view
  if (elsewhere || !(yield* trees.has(held.id))) return yield* hostLost("The machine that held the sandbox's files is gone.", false)
  // Its agent went with the worker. A pending turn was never handed to an agent: it just starts.
  if (isActive(turn) && turn.state !== "pending") {
    yield* held.write([{ _tag: "EndTurn", turnId: turn.id, state: "failed", reason: "agent_lost", initiator: "provider" }])
  }
  const taking = Effect.gen(function*() {
    const box = yield* Effect.retry(host.provision({ sandboxId: held.id, workspace: trees.workspace(held.id) }), {
      while: ({ retryable }) => retryable,
      schedule: Schedule.upTo(Schedule.spaced("5 seconds"), { duration: lost })
    })
    const agent = yield* reopen(held, box, { since: yield* elapsedMillis, count: 0 })
    return agent === null ? null : { box, agent }
  }).pipe(Effect.catchTag("HostError", ({ message, retryable }) => hostLost(message, retryable)))
  return yield* Effect.raceFirst(taking, Effect.as(held.until(isLeaving), null))
})

/** From boot, or from where another worker left it, until the sandbox is not to run any more. */
const live = Effect.fnUntraced(function*(held: HeldSandbox, elsewhere: boolean) {
  const { sandbox: { repos, status } } = yield* held.view
  const booted = status === "running" ? yield* takeOver(held, elsewhere) : yield* boot(held)
  if (booted === null) return
  yield* Effect.raceFirst(
    keepAgent(held, booted),
    Effect.forEach(repos, ({ fullName }) => publish(held, booted.box, fullName), { concurrency: "unbounded", discard: true })
  )
})

/**
 * Works for the sandbox until it is over or the session is detached. Agents belong to the scope, so closing it kills
 * them. `StaleLease`: the sandbox is another worker's by now.
 */
export const run = Effect.fn("SandboxSession.run")(function*(held: HeldSandbox, elsewhere: boolean) {
  const scope = yield* Scope.Scope
  yield* Effect.forkIn(Scope.provide(held.follow, scope), scope)
  for (;;) {
    const { detached, sandbox: { status } } = yield* held.view
    if (detached) return
    switch (status) {
      case "queued":
      case "creating":
      case "running": {
        const agents = yield* Scope.fork(scope)
        yield* live(held, elsewhere).pipe(Scope.provide(agents), Effect.onExit(() => Scope.close(agents, Exit.void)))
        break
      }
      case "terminating":
        yield* release(held)
        break
      default: {
        yield* cleanUp(held)
        // A finished sandbox may have been terminated meanwhile.
        const now = yield* held.view
        if (now.sandbox.status === status) return
      }
    }
  }
})
