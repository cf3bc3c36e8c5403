/**
 * An agent that speaks ACP version 1. Uses our JSON-RPC because the SDK's client runs handlers concurrently: here each frame is
 * handled, `onEvent` included, before the next is read. The types of sent data come from the SDK.
 */
import type {
  InitializeRequest,
  NewSessionRequest,
  PromptRequest,
  RequestPermissionResponse,
  ResumeSessionRequest,
  SetSessionConfigOptionRequest
} from "@agentclientprotocol/sdk"
import type { AgentError, AgentSession, AgentSessionOptions, PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Redacted, Schema, type Scope } from "effect"
import { clientInfo } from "../ClientInfo.ts"
import * as Conversation from "../Conversation.ts"
import * as OpeningCall from "../OpeningCall.ts"
import type { AcpQuirks } from "../Profile.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as SubAgents from "../SubAgents.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Acp from "./Acp.ts"
import { cancelled, handlersOf } from "./AcpFrames.ts"
import { type AcpState, type Approval, cancelSession, cancelSubAgents, reset } from "./AcpState.ts"

const initialize: InitializeRequest = {
  protocolVersion: 1,
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  clientInfo
}

/** The MCP servers of the agent, each with the token of the gateway. */
const serversOf = ({ mcp }: AgentSessionOptions): NewSessionRequest["mcpServers"] =>
  mcp === undefined ? [] : mcp.servers.map((name) => ({
    type: "http" as const,
    name,
    url: `${mcp.access.baseUrl}/${name}`,
    headers: [{ name: "Authorization", value: `Bearer ${Redacted.value(mcp.access.token)}` }]
  }))

/** Starts or resumes the session. Returns its id. */
const startSession = Effect.fnUntraced(function*(
  { conversation: { fail }, quirks }: AcpState,
  options: AgentSessionOptions,
  call: OpeningCall.OpeningCall
) {
  yield* call("initialize", initialize)
  if (quirks.authMethod !== undefined) yield* call("authenticate", { methodId: quirks.authMethod })
  const cwd = options.box.workspace
  const opened = options.resume === null
    ? yield* call("session/new", { cwd, mcpServers: serversOf(options), ...quirks.newSession?.(options) } satisfies NewSessionRequest)
    : yield* call(
      "session/resume",
      {
        sessionId: options.resume,
        cwd,
        mcpServers: serversOf(options)
      } satisfies ResumeSessionRequest
    )
  const { configOptions, sessionId = options.resume } = yield* Effect.mapError(
    Schema.decodeUnknownEffect(Acp.SessionOpened)(opened),
    () => fail("open", "the agent answered with something that is not ACP", false)
  )
  if (sessionId === null) return yield* fail("open", "the agent opened a session without a name", false)
  const effort = options.reasoningEffort ?? quirks.noEffort ?? null
  const option = configOptions?.find(({ category }) => category === "thought_level")
  if (option === undefined && options.reasoningEffort !== null) {
    return yield* fail("open", "the agent offers no reasoning effort for this model", false)
  }
  // A model without efforts has no option either.
  if (option !== undefined && effort !== null) {
    yield* call(
      "session/set_config_option",
      {
        sessionId,
        configId: option.id,
        value: effort
      } satisfies SetSessionConfigOptionRequest
    )
  }
  return sessionId
})

/** A first prompt without the tools of its MCP servers would fail. An agent that says nothing of them has this time. */
const MCP_STARTS_WITHIN = "10 seconds"

const mcpStarted = (state: AcpState, handlers: JsonRpc.Handlers) =>
  state.quirks.mcpStarted === undefined || state.servers.length === 0
    ? Effect.void
    : Effect.whileLoop({ while: () => !state.mcpStarted, body: () => state.rpc.next(handlers), step: () => undefined }).pipe(
      Effect.timeoutOption(MCP_STARTS_WITHIN),
      Effect.catchTag("OutputEnded", state.conversation.gone("open"))
    )

const send = Effect.fnUntraced(function*(state: AcpState, sessionId: string, text: string, images: ReadonlyArray<PromptImage>) {
  reset(state)
  const prompt: PromptRequest["prompt"] = [
    ...images.map(({ data, mediaType }) => ({ type: "image" as const, mimeType: mediaType, data: Buffer.from(data).toString("base64") })),
    { type: "text", text }
  ]
  state.promptId = yield* state.rpc.request("session/prompt", { sessionId, prompt } satisfies PromptRequest)
})

/** Finds the option by its kind, never by its id; `*_always` would take later decisions away from the person. */
const answerOf = (
  quirks: AcpQuirks,
  offered: Approval["options"],
  decision: Conversation.Decision,
  why: string | undefined
): RequestPermissionResponse => {
  const kind = decision === "approve" ? "allow_once" : "reject_once"
  const option = decision === "cancel" ? undefined : offered.find((option) => option.kind === kind)
  return option === undefined
    ? cancelled
    : {
      outcome: { outcome: "selected", optionId: option.optionId },
      ...(why === undefined || quirks.denialReason === undefined ? {} : { _meta: { [quirks.denialReason]: why } })
    }
}

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("AcpSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions,
  quirks: AcpQuirks = {}
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const rpc = JsonRpc.make(yield* JsonLines.make(process))
  const conversation = yield* Conversation.make<Approval>(process, options)
  const state: AcpState = {
    rpc,
    conversation,
    paths: WorkspacePaths.of(options.box.workspace),
    quirks,
    servers: options.mcp?.servers ?? [],
    mcpStarted: false,
    sessionId: null,
    promptId: null,
    requests: 0,
    subAgents: SubAgents.make(conversation.ended),
    theirSessions: new Map(),
    tasks: new Map(),
    parents: new Map(),
    stopping: false
  }
  const handlers = handlersOf(state)
  const starting = Effect.tap(startSession(state, options, OpeningCall.make(rpc, conversation, handlers)), mcpStarted(state, handlers))
  const sessionId = yield* conversation.starting(starting)
  state.sessionId = sessionId

  const steerBy = (method: string) => (messageId: string, text: string) =>
    // Does not wait: a busy agent reads only after we have read.
    Effect.asVoid(Effect.forkChild(rpc.notify(method, { sessionId, messageId, text }), { startImmediately: true }))

  return yield* conversation.session({
    sessionId: Effect.succeed(sessionId),
    // An agent that takes no images refuses a prompt with one.
    send: (text, images) => send(state, sessionId, text, quirks.noImages === true ? [] : images),
    next: rpc.next(handlers),
    ...(quirks.steering === undefined ? {} : { steer: steerBy(quirks.steering.method) }),
    cancel: Effect.andThen(cancelSubAgents(state), cancelSession(state, sessionId)),
    answer: ({ options: offered, request }, decision, why) => rpc.reply(request, answerOf(quirks, offered, decision, why))
  })
})
