/** The agent of a held sandbox: which one it is, where it may run, and one process of it at a time. */
import { Clock, Context, Effect, Exit, Scope } from "effect"
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { AgentError, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/AgentRuntime"
import { ModelCatalogue } from "@slipway/domain/sandbox/ModelCatalogue"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import type { HeldSandbox } from "./HeldSandbox.ts"

/** Lets agents with a model account run on a host that does not keep them in. The operator's explicit wish. */
export const AllowNoIsolation = Context.Reference<boolean>("@slipway/worker/AllowNoIsolation", { defaultValue: () => false })

export interface Agent {
  readonly session: AgentSession
  /** Epoch milliseconds. */
  readonly openedAt: number
  /** Ends the process with everything it started. The scope it was opened in does so too. */
  readonly close: Effect.Effect<void>
}

/** Starts the agent and goes on with the conversation `resume`, if there is one. */
export const open = Effect.fn("Agent.open")(function*(held: HeldSandbox, box: Box, resume: string | null) {
  const runtime = yield* AgentRuntime
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const { sandbox } = yield* held.view
  const model = (yield* ModelCatalogue).models.find(({ id }) => id === sandbox.model)
  const refuse = (detail: string) =>
    new AgentError({ runtime: sandbox.agentRuntime, operation: "open", detail, retryable: false })
  if (model === undefined) return yield* refuse(`The model ${sandbox.model} is no longer offered.`)
  if (host.isolation === "none" && !model.offline && !(yield* AllowNoIsolation)) {
    return yield* refuse(
      `This host does not isolate agents, so it runs the offline model only, not ${sandbox.model}. Choose an isolating host, or allow agents without isolation.`
    )
  }
  const repos = sandbox.repos.map(({ fullName }) => fullName)
  const scope = yield* Scope.fork(yield* Effect.scope)
  const close = Scope.close(scope, Exit.void)
  const session = yield* runtime.open({
    box,
    profile: model.profile,
    model: sandbox.model,
    access: null,
    instructions: null,
    reasoningEffort: sandbox.reasoningEffort,
    toolApprovalMode: sandbox.toolApprovalMode,
    repositories: repos.map((name) => ({ name, folder: trees.folder(name, repos) })),
    resume
  }).pipe(Scope.provide(scope), Effect.onError(() => close))
  const agent: Agent = { session, openedAt: yield* Clock.currentTimeMillis, close }
  yield* rememberSession(held, agent)
  return agent
})

/** Saves the agent's own session id as soon as it is known: some runtimes name it only in the first turn. */
export const rememberSession = Effect.fnUntraced(function*(held: HeldSandbox, { session }: Agent) {
  const id = yield* session.sessionId
  if (id !== null && id !== (yield* held.agentSession)) yield* held.saveAgentSession(id)
})
