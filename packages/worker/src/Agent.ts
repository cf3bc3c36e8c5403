/** The agent of a held sandbox: which one it is, where it may run, how it reaches its model, and one process of it at a time. */
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { type Model, ModelCatalogue } from "@slipway/domain/models/ModelCatalogue"
import { ModelGateway, type ModelSession } from "@slipway/domain/models/ModelGateway"
import { AgentError, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/AgentRuntime"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { Context, Effect, Exit, Option, Scope } from "effect"
import { elapsedMillis } from "./Elapsed.ts"
import { type HeldSandbox, untilAvailable } from "./HeldSandbox.ts"
import { readInstructions } from "./Instructions.ts"

/** Lets agents with a model account run on a host that does not keep them in. The operator's explicit wish. */
export const AllowNoIsolation = Context.Reference<boolean>("@slipway/worker/AllowNoIsolation", { defaultValue: () => false })

export interface Agent {
  readonly session: AgentSession
  /** Its way to its model; `null`: it uses none. */
  readonly model: ModelSession | null
  /** Epoch milliseconds. */
  readonly openedAt: number
  /** Ends the process with everything it started. The scope it was opened in does so too. */
  readonly close: Effect.Effect<void>
}

/** The way to the model, for the scope. */
const openModel = Effect.fnUntraced(function*(held: HeldSandbox, { upstream }: Model) {
  if (upstream === null) return null
  const { sandbox: { agentRuntime, grantId, id, model } } = yield* held.view
  const refuse = (detail: string, retryable: boolean) => new AgentError({ runtime: agentRuntime, operation: "open", detail, retryable })
  const gateway = yield* Effect.serviceOption(ModelGateway)
  if (Option.isNone(gateway)) return yield* refuse(`There is no model gateway here, so ${model} cannot be reached.`, false)
  return yield* untilAvailable(gateway.value.open({ sandboxId: id, grantId, upstream })).pipe(
    Effect.catchTag("ModelGatewayError", ({ detail, retryable }) => refuse(detail, retryable))
  )
})

/** Starts the agent and goes on with the conversation `resume`, if there is one. */
export const open = Effect.fn("Agent.open")(function*(held: HeldSandbox, box: Box, resume: string | null) {
  const runtime = yield* AgentRuntime
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const { sandbox } = yield* held.view
  const { models, unusable } = yield* ModelCatalogue
  const model = models.find(({ id }) => id === sandbox.model)
  const refuse = (detail: string) => new AgentError({ runtime: sandbox.agentRuntime, operation: "open", detail, retryable: false })
  if (model === undefined) {
    const known = unusable?.find(({ id }) => id === sandbox.model)
    return yield* refuse(known?.reason ?? `The model ${sandbox.model} is no longer offered.`)
  }
  if (host.isolation === "none" && !model.offline && !(yield* AllowNoIsolation)) {
    return yield* refuse(
      `This host does not isolate agents, so it runs the offline model only, not ${sandbox.model}. ` +
        "Choose an isolating host, or allow agents without isolation."
    )
  }
  const repos = sandbox.repos.map(({ fullName }) => fullName)
  const repositories = repos.map((name) => ({ name, folder: trees.folder(name, repos) }))
  const scope = yield* Scope.fork(yield* Effect.scope)
  const close = Scope.close(scope, Exit.void)
  return yield* Effect.gen(function*() {
    const instructions = yield* readInstructions(held.id, repositories)
    const modelScope = yield* Scope.fork(scope)
    const way = yield* openModel(held, model).pipe(Scope.provide(modelScope))
    const session = yield* runtime.open({
      box,
      profile: model.profile,
      model: sandbox.model,
      access: way?.access ?? null,
      instructions,
      reasoningEffort: sandbox.reasoningEffort,
      toolApprovalMode: sandbox.toolApprovalMode,
      repositories,
      resume
    })
    // Added last, so it comes first: however long the agent takes to end, it spends nothing more.
    yield* Effect.addFinalizer(() => Scope.close(modelScope, Exit.void))
    const agent: Agent = { session, model: way, openedAt: yield* elapsedMillis, close }
    yield* rememberSession(held, agent)
    return agent
  }).pipe(Scope.provide(scope), Effect.onError(() => close))
})

/** Saves the agent's own session id as soon as it is known: some runtimes name it only in the first turn. */
export const rememberSession = Effect.fnUntraced(function*(held: HeldSandbox, { session }: Agent) {
  const id = yield* session.sessionId
  if (id !== null && id !== (yield* held.agentSession)) yield* held.saveAgentSession(id)
})
