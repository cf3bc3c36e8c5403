/** An agent that speaks codex's app-server protocol: JSON-RPC without its version, threads, turns and items. */
import type { AgentError, AgentSession, AgentSessionOptions, PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Schema, type Scope } from "effect"
import { clientInfo } from "../ClientInfo.ts"
import * as Conversation from "../Conversation.ts"
import * as OpeningCall from "../OpeningCall.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as SubAgents from "../SubAgents.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Codex from "./Codex.ts"
import { handlersOf, inputOf, steer } from "./CodexFrames.ts"
import { type Approval, type CodexThread, interrupt, reset } from "./CodexThread.ts"

const initialize = {
  clientInfo,
  capabilities: { experimentalApi: true }
}

/** Decisions of the protocol. Its other decisions cover later calls too, which are the person's to decide. */
const decisions: Record<Conversation.Decision, string> = { approve: "accept", deny: "decline", cancel: "cancel" }

/** Starts or resumes the thread. Returns its id. */
const startThread = Effect.fnUntraced(function*(
  { asks, conversation: { fail }, rpc }: CodexThread,
  options: AgentSessionOptions,
  call: OpeningCall.OpeningCall
) {
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

const send = Effect.fnUntraced(function*(
  thread: CodexThread,
  { reasoningEffort }: AgentSessionOptions,
  text: string,
  images: ReadonlyArray<PromptImage>
) {
  reset(thread)
  thread.startId = yield* thread.rpc.request("turn/start", {
    threadId: thread.threadId,
    input: inputOf(text, images),
    // Some models report their reasoning only on request.
    summary: "auto",
    ...(reasoningEffort === null ? {} : { effort: reasoningEffort })
  })
})

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("CodexSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const rpc = JsonRpc.make(yield* JsonLines.make(process), {})
  const conversation = yield* Conversation.make<Approval>(process, options)
  const thread: CodexThread = {
    rpc,
    conversation,
    paths: WorkspacePaths.of(options.box.workspace),
    asks: options.toolApprovalMode === "prompt",
    threadId: null,
    kept: options.resume !== null,
    startId: null,
    turnId: null,
    interruptId: null,
    interrupting: false,
    requests: 0,
    early: [],
    asked: new Map(),
    subAgents: SubAgents.make(conversation.ended),
    theirTurns: new Map(),
    parents: new Map(),
    expected: new Set(),
    reads: new Map(),
    stopping: false
  }
  const handlers = handlersOf(thread)
  thread.threadId = yield* conversation.starting(startThread(thread, options, OpeningCall.make(rpc, conversation, handlers)))

  return yield* conversation.session({
    sessionId: Effect.sync(() => (thread.kept ? thread.threadId : null)),
    send: (text, images) => send(thread, options, text, images),
    next: rpc.next(handlers),
    cancel: interrupt(thread),
    steer: (id, text, images) => steer(thread, id, text, images),
    answer: ({ request }, decision) => {
      if (decision !== "approve") thread.asked.delete(request)
      return rpc.reply(request, { decision: decisions[decision] })
    }
  })
})
