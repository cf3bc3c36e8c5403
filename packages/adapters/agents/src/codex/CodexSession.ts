/** An agent that speaks codex's app-server protocol: JSON-RPC without its version, threads, turns and items. */
import type { AgentError, AgentSession, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Result, Schema, type Scope } from "effect"
import { clientInfo } from "../ClientInfo.ts"
import * as Conversation from "../Conversation.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as SubAgents from "../SubAgents.ts"
import type { ToolReport } from "../TurnEvents.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Codex from "./Codex.ts"

const initialize = {
  clientInfo,
  capabilities: { experimentalApi: true }
}

/** Decisions of the protocol. The others go on deciding later calls, which is the person's to do. */
const decisions: Record<Conversation.Decision, string> = { approve: "accept", deny: "decline", cancel: "cancel" }

const decodeOfThread = Schema.decodeUnknownOption(Codex.OfThread)
const decodeDelta = Schema.decodeUnknownOption(Codex.Delta)
const decodeItemNews = Schema.decodeUnknownOption(Codex.ItemNews)
const decodeTurnStarted = Schema.decodeUnknownOption(Codex.TurnStarted)
const decodeTurnBegan = Schema.decodeUnknownOption(Codex.TurnBegan)
const decodeThreadRead = Schema.decodeUnknownOption(Codex.ThreadRead)
const decodeTurnCompleted = Schema.decodeUnknownOption(Codex.TurnCompleted)
const decodeApproval = Schema.decodeUnknownOption(Codex.ApprovalRequest)
const decodeResolved = Schema.decodeUnknownOption(Codex.RequestResolved)

interface Approval {
  readonly request: JsonRpc.RequestId
}

const conclude = ({ error, status }: (typeof Codex.TurnCompleted.Type)["turn"]): Conversation.Ended => {
  if (status === "completed") return { finish: "end_turn" }
  if (status === "interrupted") return { finish: "cancelled", failure: "The agent cancelled the turn by itself." }
  return { finish: "error", failure: JsonRpc.reason(error?.message ?? "The agent ended the turn for an unknown reason.") }
}

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("CodexSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const rpc = JsonRpc.make(yield* JsonLines.make(process), {})
  const conversation = yield* Conversation.make<Approval>(process, options)
  const paths = WorkspacePaths.of(options.box.workspace)
  const { fail } = conversation
  const asks = options.toolApprovalMode === "prompt"

  let threadId: string | null = null
  /** A thread is on disk, and can be resumed, from its first turn on. */
  let kept = options.resume !== null
  let startId: JsonRpc.RequestId | null = null
  let turnId: string | null = null
  let interruptId: JsonRpc.RequestId | null = null
  /** An interrupt could not be sent yet, or came too early for the agent. */
  let interrupting = false
  let requests = 0
  /** What steers a turn that has no name yet. */
  let early: Array<{ readonly id: string; readonly text: string }> = []
  /** Calls that wait for an answer to a request of the agent. */
  const asked = new Map<JsonRpc.RequestId, string>()
  /** Threads of sub-agents, at any depth: those at a turn, and those that were given something to do and have not begun it. */
  const subAgents = SubAgents.make(conversation.ended)
  /** Turns of sub-agents, by thread. */
  const theirTurns = new Map<string, string>()
  const expected = new Set<string>()
  /** Threads that were asked whether they are at a turn, by our request. */
  const reads = new Map<JsonRpc.RequestId, string>()
  /** Nothing that begins now is to go on. */
  let stopping = false

  const interruptThread = (thread: string) => {
    const turn = theirTurns.get(thread)
    return turn === undefined ? Effect.void : Effect.asVoid(rpc.request("turn/interrupt", { threadId: thread, turnId: turn }))
  }
  const interruptSubAgents = Effect.suspend(() => {
    stopping = true
    return Effect.forEach(subAgents.open(), interruptThread, { discard: true })
  })
  const interrupt = Effect.suspend(() => {
    if (subAgents.concluded() !== null) return interruptSubAgents
    interrupting = turnId === null
    if (turnId === null) return interruptSubAgents
    return Effect.andThen(
      interruptSubAgents,
      Effect.map(rpc.request("turn/interrupt", { threadId, turnId }), (id) => {
        interruptId = id
      })
    )
  })

  /** The name of a call of any thread. */
  const nameOf = (thread: string, itemId: string) => thread === threadId ? itemId : `${thread} ${itemId}`

  /** A command that an interrupt found running goes on behind the turn unless it is told to end. */
  const clean = (thread: string | null) => Effect.asVoid(rpc.request("thread/backgroundTerminals/clean", { threadId: thread }))

  const read = (thread: string) =>
    Effect.map(rpc.request("thread/read", { threadId: thread, includeTurns: false }), (id) => {
      reads.set(id, thread)
    })

  /** The agent's own turn ended. Sub-agents go on as long as it succeeded. */
  const concluded = (turn: (typeof Codex.TurnCompleted.Type)["turn"]) =>
    Effect.gen(function*() {
      if (turn.status !== "completed") yield* interruptSubAgents
      // What was set to work long ago, and never began, has nothing to do.
      yield* Effect.forEach(expected, read, { discard: true })
      subAgents.conclude(conclude(turn))
      if (turn.status === "interrupted") yield* clean(threadId)
    })

  /** What sub-agents do of turns. */
  const heardOfTurn = (thread: string, method: string, params: unknown) => {
    if (method === "turn/started") {
      const turn = Option.getOrNull(decodeTurnBegan(params))?.turn.id
      if (turn === undefined || !conversation.owes()) return Effect.void
      expected.delete(thread)
      theirTurns.set(thread, turn)
      subAgents.begin(thread)
      return stopping ? interruptThread(thread) : Effect.void
    }
    if (method === "turn/completed" || method === "thread/closed") {
      const status = Option.getOrNull(decodeTurnCompleted(params))?.turn.status
      theirTurns.delete(thread)
      if (!expected.has(thread)) subAgents.end(thread)
      return status === "interrupted" ? clean(thread) : Effect.void
    }
    return Effect.void
  }

  /** A sub-agent has something to do: its turn may begin only after that of the agent has ended. */
  const setToWork = ({ receiverThreadIds, status, tool }: Codex.Item) => {
    if (status !== "completed" || tool == null || !Codex.setsToWork.has(tool)) return Effect.void
    const threads = (receiverThreadIds ?? []).filter((thread) => thread !== threadId && !theirTurns.has(thread))
    return Effect.forEach(threads, (thread) => {
      expected.add(thread)
      subAgents.begin(thread)
      // It may have had its turn already: of those that never begin one is asked when the agent's own turn is over.
      return subAgents.concluded() === null ? Effect.void : read(thread)
    }, { discard: true })
  }

  const inputOf = (text: string) => [{ type: "text", text, text_elements: [] }]

  /**
   * The answer says only that the text waits, and an interrupt drops what waits. The agent has it when it shows it as an item, which
   * it does before its next request to the model (0.169.0); a request that is being answered it gives up. A refusal, such as that
   * no turn is active any more, needs no answer of ours: the text was not taken.
   */
  const steer = (id: string, text: string) =>
    Effect.suspend(() => {
      if (turnId !== null) {
        const about = { threadId, expectedTurnId: turnId, clientUserMessageId: id, input: inputOf(text) }
        return Effect.asVoid(rpc.request("turn/steer", about))
      }
      early.push({ id, text })
      return Effect.void
    })

  const report = (item: Codex.Item, status: ToolReport["status"]): ToolReport => ({
    title: paths.shorten(Codex.titleOf(item)),
    kind: Codex.toolKinds[item.type],
    paths: item.changes == null ? undefined : paths.inside(Codex.pathsOf(item) ?? []),
    command: Codex.commandOf(item),
    cwd: paths.folder(item.cwd),
    removes: Codex.removesOf(item),
    diff: Codex.diffOf(item, (path) => paths.inside([path])[0] ?? path),
    output: item.aggregatedOutput ?? undefined,
    status
  })

  const requested = (about: Codex.ApprovalRequest): ToolReport => ({
    title: Codex.commandOf(about),
    kind: about.networkApprovalContext == null ? undefined : "network",
    command: Codex.commandOf(about),
    cwd: paths.folder(about.cwd),
    url: Codex.urlOf(about)
  })

  const handlers: JsonRpc.Handlers = {
    notified: (method, params) => {
      const thread = Option.getOrNull(decodeOfThread(params))?.threadId
      if (thread === undefined || threadId === null) return Effect.void
      // Other threads are sub-agents. Of what they say only their calls are told.
      const isOwn = thread === threadId
      if (!isOwn && (method.startsWith("turn/") || method === "thread/closed")) return heardOfTurn(thread, method, params)
      if (method === "turn/started" && interrupting) return interrupt
      if (method === "turn/completed") {
        const turn = Option.getOrNull(decodeTurnCompleted(params))?.turn
        return turn === undefined || turn.id !== turnId ? Effect.void : concluded(turn)
      }
      const turn = conversation.live()
      // What a sub-agent still says behind the end of its turn is about nothing that anybody watches.
      if (turn === null || !isOwn && !theirTurns.has(thread)) return Effect.void
      switch (method) {
        case "item/agentMessage/delta":
        case "item/reasoning/summaryTextDelta":
        case "item/reasoning/textDelta": {
          if (!isOwn) return Effect.void
          const piece = Option.getOrNull(decodeDelta(params))
          const kind = method === "item/agentMessage/delta" ? "text" : "reasoning"
          return piece === null ? Effect.void : turn.emit(turn.events.chunk(kind, piece.itemId, piece.delta))
        }
        case "item/started":
        case "item/completed": {
          const item = Option.getOrNull(decodeItemNews(params))?.item
          if (isOwn && item?.type === "userMessage" && item.clientId != null) return conversation.took(item.clientId)
          if (item === undefined || !Object.hasOwn(Codex.toolKinds, item.type)) return Effect.void
          // What may have to be asked about has not begun.
          const begun = method === "item/started" ? (asks ? "pending" : "running") : "completed"
          const status = method === "item/started" ? begun : (Codex.toolEnds[item.status ?? "completed"] ?? "error")
          const told = turn.emit(turn.events.tool(nameOf(thread, item.id), report(item, status)))
          return item.type === "collabAgentToolCall" && method === "item/completed" ? Effect.andThen(told, setToWork(item)) : told
        }
        case "serverRequest/resolved": {
          const id = Option.getOrNull(decodeResolved(params))?.requestId
          const itemId = id === undefined ? undefined : asked.get(id)
          if (id === undefined || itemId === undefined) return Effect.void
          asked.delete(id)
          return turn.emit(turn.events.tool(itemId, { status: "running" }))
        }
        case "thread/tokenUsage/updated":
          return turn.emit([{ _tag: "UsageReported", llmRequestCount: ++requests, costMicroUsd: 0 }])
        default:
          return Effect.void
      }
    },
    requested: (request, method, params) => {
      const about = method === "item/commandExecution/requestApproval" || method === "item/fileChange/requestApproval"
        ? Option.getOrNull(decodeApproval(params))
        : null
      // Questions to the person, logins and tools of ours are not offered.
      if (about === null) return rpc.refuse(request, JsonRpc.METHOD_NOT_FOUND, `method not found: ${method}`)
      const name = nameOf(about.threadId, about.itemId)
      if (about.grantRoot != null) {
        const why = "It asks for a whole folder, for the rest of the session. Calls are approved one by one."
        return conversation.refuse(name, requested(about), { request }, why)
      }
      asked.set(request, name)
      return conversation.ask(name, requested(about), { request })
    },
    answered: (id, answer) => {
      if (id === startId) {
        if (Result.isFailure(answer)) {
          return Effect.sync(() => subAgents.conclude({ finish: "error", failure: JsonRpc.describe(answer.failure) }))
        }
        turnId = Option.getOrNull(decodeTurnStarted(answer.success))?.turn.id ?? null
        kept = true
        if (interrupting) return interrupt
        const waiting = early
        early = []
        return turnId === null ? Effect.void : Effect.forEach(waiting, ({ id, text }) => steer(id, text), { discard: true })
      }
      const read = reads.get(id)
      if (read !== undefined) {
        reads.delete(id)
        const status = Result.isFailure(answer) ? undefined : Option.getOrUndefined(decodeThreadRead(answer.success))?.thread.status.type
        if (status !== "active" && expected.delete(read)) subAgents.end(read)
        return Effect.void
      }
      // Too early: the turn has an id and is not begun.
      if (id === interruptId && Result.isFailure(answer) && conversation.owes()) interrupting = true
      return Effect.void
    }
  }

  const call = (method: string, params: object) =>
    rpc.call(method, params, handlers).pipe(
      Effect.catchTags({
        OutputEnded: conversation.gone("open"),
        RpcRefusal: (refusal) => Effect.fail(fail("open", `${method} was refused: ${JsonRpc.describe(refusal)}`, false))
      })
    )

  const start = Effect.gen(function*() {
    yield* call("initialize", initialize)
    yield* rpc.notify("initialized", {})
    const settings = {
      cwd: options.box.workspace,
      model: options.access?.model,
      approvalPolicy: asks ? "on-request" : "never",
      sandbox: asks ? "read-only" : "danger-full-access",
      ...(options.instructions === null ? {} : { developerInstructions: options.instructions })
    }
    const opened = options.resume === null
      ? yield* call("thread/start", settings)
      : yield* call("thread/resume", { threadId: options.resume, excludeTurns: true, ...settings })
    const { thread } = yield* Effect.mapError(
      Schema.decodeUnknownEffect(Codex.ThreadOpened)(opened),
      () => fail("open", "the agent answered with something that is not its protocol", false)
    )
    return thread.id
  })
  threadId = yield* conversation.starting(start)

  return yield* conversation.session({
    sessionId: Effect.sync(() => (kept ? threadId : null)),
    send: (text) =>
      Effect.gen(function*() {
        turnId = null
        // An answer that an earlier turn's interrupt still gets is not about this turn.
        interruptId = null
        interrupting = false
        early = []
        requests = 0
        asked.clear()
        subAgents.reset()
        theirTurns.clear()
        expected.clear()
        reads.clear()
        stopping = false
        startId = yield* rpc.request("turn/start", {
          threadId,
          input: inputOf(text),
          // Models that say nothing of their reasoning unless they are asked.
          summary: "auto",
          ...(options.reasoningEffort === null ? {} : { effort: options.reasoningEffort })
        })
      }),
    next: rpc.next(handlers),
    cancel: interrupt,
    steer,
    answer: ({ request }, decision) => {
      if (decision !== "approve") asked.delete(request)
      return rpc.reply(request, { decision: decisions[decision] })
    }
  })
})
