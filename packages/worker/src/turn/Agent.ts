/** The agent of a leased sandbox: which one it is, where it may run, how it reaches its model, and one process of it at a time. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { ARTIFACTS_VARIABLE } from "@slipway/domain/files/rules/ArtifactsFolder"
import type { McpSession } from "@slipway/domain/mcp/ports/McpGateway"
import { ModelGateway, type ModelSession } from "@slipway/domain/models/ports/ModelGateway"
import { isSameSpent, type Spent } from "@slipway/domain/models/rules/Usage"
import { type Model, ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { AgentError, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isSettled } from "@slipway/domain/sandbox/rules/Sandbox"
import { Context, Effect, Exit, Option, Scope } from "effect"
import * as RunSetup from "../setup/RunSetup.ts"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as AgentMcp from "./AgentMcp.ts"
import * as BoxFiles from "./BoxFiles.ts"
import * as Conversation from "./Conversation.ts"
import { readInstructions } from "./Instructions.ts"
import * as SavedSession from "./SavedSession.ts"

/** Allows agents with a model account on a host without isolation. Only the operator sets it. */
export const AllowNoIsolation = Context.Reference<boolean>("@slipway/worker/AllowNoIsolation", { defaultValue: () => false })

export interface Agent {
  readonly session: AgentSession
  readonly box: Box
  /** Its access to its model; `null`: it uses no model. */
  readonly model: ModelSession | null
  /** Its access to MCP servers; `null`: it has none. */
  readonly mcp: McpSession | null
  /** Epoch milliseconds. */
  readonly openedAt: number
  /** Ends the process and everything it started, as closing its scope does. */
  readonly close: Effect.Effect<void>
}

/** Opens access to the model, until the scope closes. */
const openModel = Effect.fnUntraced(function*(leased: LeasedSandbox, { upstream }: Model) {
  if (upstream === null) return null
  const { sandbox: { agentRuntime, budgetMicroUsd, grantId, id, model } } = yield* leased.view
  const refuse = (detail: string, retryable: boolean) => new AgentError({ runtime: agentRuntime, operation: "open", detail, retryable })
  const gateway = yield* Effect.serviceOption(ModelGateway)
  if (Option.isNone(gateway)) return yield* refuse(`There is no model gateway here, so ${model} cannot be reached.`, false)
  return yield* untilAvailable(gateway.value.open({ sandboxId: id, grantId, budget: budgetMicroUsd, upstream })).pipe(
    Effect.catchTag("ModelGatewayError", ({ detail, retryable }) => refuse(detail, retryable))
  )
})

/** Reports usage that the store does not have yet. An ended sandbox gets no more usage. */
export const reportUsage = Effect.fnUntraced(function*(leased: LeasedSandbox, spent: Spent) {
  const { sandbox } = yield* leased.view
  const { tokens, usage } = spent
  if (!isSameSpent(spent, sandbox) && !isSettled(sandbox.status)) yield* leased.write([{ _tag: "ReportUsage", usage, tokens }])
})

/** Reports the usage of an agent that was lost with its worker. */
export const reportLost = Effect.fn("Agent.reportLost")(
  function*(leased: LeasedSandbox) {
    const { sandbox } = yield* leased.view
    const { models } = yield* ModelCatalogue
    const model = models.find(({ id }) => id === sandbox.model)
    const way = model === undefined ? null : yield* openModel(leased, model)
    if (way !== null) yield* reportUsage(leased, yield* way.account)
  },
  Effect.scoped,
  Effect.catchTag("AgentError", (error) => Effect.logWarning("what a lost agent used is told later", { reason: error.message }))
)

/** The session that the agent can resume in this box. */
const resumable = Effect.fnUntraced(function*(saved: string | null, box: Box, profile: string) {
  if (saved === null) return null
  const runtime = yield* AgentRuntime
  const resume = SavedSession.resumable(saved, box, runtime.bearsOtherPaths(profile))
  if (resume === null) yield* Effect.logInfo("the agent's conversation was kept under other paths: a new one is told what was said")
  return resume
})

/** The box for the agent: each process finds these programs, and has these variables unless it is started with others. */
const prepared = (box: Box, { env, programs }: RunSetup.Prepared): Box => ({
  ...box,
  spawn: (command) => box.spawn({ ...command, programs, env: { ...env, ...command.env } })
})

/** Told to every agent, first. The variable is in the environment of its box. */
export const ABOUT_ARTIFACTS =
  `Leave files for the people who gave you the task, such as reports, screenshots and recordings, in the folder ` +
  `$${ARTIFACTS_VARIABLE}: they see them when your turn ends. Leave nothing secret there.\n`

const joined = (sections: ReadonlyArray<string | null>): string | null => {
  const said = sections.filter((section) => section !== null && section !== "")
  return said.length === 0 ? null : said.join("\n")
}

/** Starts the agent and resumes the session `saved`. If it cannot, the agent gets the earlier conversation as text. */
export const open = Effect.fn("Agent.open")(function*(
  leased: LeasedSandbox,
  box: Box,
  saved: string | null,
  setup: ReturnType<typeof RunSetup.recall> = RunSetup.recall(leased, box)
) {
  const runtime = yield* AgentRuntime
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const { sandbox } = yield* leased.view
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
    const modelScope = yield* Scope.fork(scope)
    const prepare = yield* Effect.cached(setup)
    const folderOf = (repo: string) => `${box.workspace}/${trees.folder(repo, repos)}`
    const inBox = { folderOf, ready: Effect.map(prepare, (ready) => ({ box: prepared(box, ready), env: ready.env })) }
    const [asked, ready, mcp, way] = yield* Effect.all([
      readInstructions(leased.id, repositories),
      prepare,
      AgentMcp.open(leased, inBox).pipe(Scope.provide(modelScope)),
      openModel(leased, model).pipe(Scope.provide(modelScope)),
      BoxFiles.placeAll(leased, box)
    ], { concurrency: 5 })
    const resume = yield* resumable(saved, box, model.profile)
    const said = resume === null ? yield* Conversation.tell(sandbox) : null
    const instructions = joined([ABOUT_ARTIFACTS, asked, ready.told, mcp.told, said])
    const session = yield* runtime.open({
      box: prepared(box, ready),
      profile: model.profile,
      model: sandbox.model,
      access: way?.access ?? null,
      ...(model.images === undefined ? {} : { images: model.images }),
      ...(mcp.given === undefined ? {} : { mcp: mcp.given }),
      instructions,
      reasoningEffort: sandbox.reasoningEffort,
      toolApprovalMode: sandbox.toolApprovalMode,
      repositories,
      resume
    })
    // Added last, so it runs first: the agent spends nothing more, however long it takes to end.
    yield* Effect.addFinalizer(() => Scope.close(modelScope, Exit.void))
    const agent: Agent = { session, box, model: way, mcp: mcp.session, openedAt: yield* elapsedMillis, close }
    yield* rememberSession(leased, agent)
    return agent
  }).pipe(Scope.provide(scope), Effect.onError(() => close))
})

/** Saves the agent's own session id as soon as it is known: some runtimes name it only in the first turn. */
export const rememberSession = Effect.fnUntraced(function*(leased: LeasedSandbox, { box, session }: Agent) {
  const id = yield* session.sessionId
  if (id === null) return
  const saved = SavedSession.write(id, box)
  if (saved !== (yield* leased.agentSession)) yield* leased.saveAgentSession(saved)
})
