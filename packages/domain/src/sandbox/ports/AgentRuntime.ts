/** Port: runs a coding agent in a sandbox's box. Checked by `AgentRuntimeContract`. */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Uuid } from "../../ids/Ids.ts"
import type { McpAccess } from "../../mcp/ports/McpGateway.ts"
import type { McpServerName } from "../../mcp/schema/McpServer.ts"
import type { ModelAccess } from "../../models/ports/ModelGateway.ts"
import type { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { refusalOf } from "../rules/Question.ts"
import type { AgentEvent, TurnEnd } from "../schema/AgentEvent.ts"
import type { Answers, Question } from "../schema/Question.ts"
import type { Box } from "./SandboxHost.ts"

export { AgentEvent, Finish } from "../schema/AgentEvent.ts"
export type { TurnEnd } from "../schema/AgentEvent.ts"

/** The agent could not start, sent invalid answers, or has ended. `retryable`: a new process may succeed. */
export class AgentError extends Schema.TaggedError<AgentError>()("AgentError", {
  runtime: Schema.String,
  operation: Schema.Literals(["open", "prompt"]),
  /** A sentence for people: what happened and what to do. Free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** The agent sent a message above the size limit. */
  tooLarge: Schema.optionalKey(Schema.Boolean),
  /** The box refused to run the agent: a problem of this machine, for any agent. */
  refusedByHost: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `${this.runtime}: ${this.detail}`
  }
}

/** The MCP servers of an agent: at `access.baseUrl/NAME`, with its token. Permissions are decided there, so the runtime asks about none. */
export interface AgentMcp {
  readonly access: McpAccess
  readonly servers: ReadonlyArray<McpServerName>
}

/** Options for starting an agent. */
export interface AgentSessionOptions {
  readonly box: Box
  /** Name of the profile in the runtime registry, e.g. `offline` or `codex`. */
  readonly profile: string
  /** The model's id in our catalogue. */
  readonly model: string
  /** The agent's access to its model; `null`: it uses no model. */
  readonly access: ModelAccess | null
  /** Whether the model takes images, so that the agent may show it one of its files. Absent: as `Images.profileTakesImages`. */
  readonly images?: boolean
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** The repositories and their folders below the box's workspace, in the sandbox's order. */
  readonly repositories: ReadonlyArray<{ readonly name: RepoName; readonly folder: string }>
  /** The repositories' instructions for agents (their `AGENTS.md`), as Markdown; `null`: none. */
  readonly instructions: string | null
  /** MCP servers whose tools the agent gets. Absent: none. */
  readonly mcp?: AgentMcp
  /** Native id of an earlier session of this sandbox whose conversation continues; `null`: a new one. */
  readonly resume: string | null
}

/** An image of a prompt, also a file of the box. */
export interface PromptImage {
  /** One of `Images.IMAGE_TYPES`. */
  readonly mediaType: string
  readonly data: Uint8Array
  /** Its path inside the box. */
  readonly path: string
}

/** One live agent process. Prompts run one at a time. */
export interface AgentSession {
  /** The runtime's own id for `resume`. It may be known only after the first prompt. */
  readonly sessionId: Effect.Effect<string | null>
  /**
   * Runs one prompt. `onEvent` handles each event before the next is read, so a slow consumer slows the agent down. Succeeds when the
   * turn has ended in any way; fails when the agent has ended or broke its protocol. `onBegin` runs once, before any event. From then
   * on `steer` and `interrupt` apply to this turn. `images`: the model gets them with the text. Only for the profiles that
   * `Images.profileTakesImages` accepts; others ignore them.
   */
  prompt(options: {
    readonly turnId: Uuid
    readonly text: string
    readonly images?: ReadonlyArray<PromptImage>
    readonly onBegin?: Effect.Effect<unknown>
    readonly onEvent: (event: AgentEvent) => Effect.Effect<void>
  }): Effect.Effect<TurnEnd, AgentError>
  /**
   * Answers an open approval. Safe to repeat; ids that are not open are ignored. `reason`: a person's reason for denying it. The
   * profiles with `Steering.profileDenialTelling` of `answer` pass it to the agent, others ignore it.
   */
  decide(approvalId: string, decision: "approve" | "deny", reason?: string): Effect.Effect<void>
  /**
   * Answers an open question of the agent. Safe to repeat: the agent gets the first answer, and ids that are not open are ignored.
   * `null`, and a question without an entry: the agent is told that there is no answer.
   */
  answer(questionId: string, answers: Answers | null): Effect.Effect<void>
  /**
   * Asks the agent to end the running turn. Open approvals count as denied, open questions as not answered. Does nothing between turns.
   * It does not wait: `prompt` ends when the agent obeys, and the worker closes the scope if that takes too long.
   */
  readonly interrupt: Effect.Effect<void>
  /**
   * Queues a text for the running turn, after earlier ones. `id` is a UUID, unique within the sandbox; a repeated id is ignored. It
   * does not wait. The agent takes a text when its protocol allows, such as after a tool call; `MessageSteered` reports it. A text that
   * was not taken before the turn ends is dropped, and the agent never sees it. Does nothing between turns. Present exactly for the
   * profiles that `Steering.profileSteers` accepts.
   */
  steer?(message: {
    readonly id: Uuid
    readonly text: string
    readonly images?: ReadonlyArray<PromptImage>
  }): Effect.Effect<void>
  /** Completes when the process has ended, with a sentence that says how. */
  readonly exited: Effect.Effect<string>
}

/** Errors are for the worker, which reopens the agent while they are retryable. */
export class AgentRuntime extends Context.Service<AgentRuntime, {
  /** Starts the agent and its session. When the scope closes, the process tree is asked to end, then killed. */
  open(options: AgentSessionOptions): Effect.Effect<AgentSession, AgentError, Scope.Scope>
  /**
   * The files and folders below the home that `resume` needs, for `SandboxHost.readHome`, without secrets. Written into the sandbox's
   * home on another machine, they let the conversation continue there. They are complete between turns. Empty for an unknown profile.
   */
  conversationFiles(profile: string): ReadonlyArray<string>
  /**
   * Whether `resume` works with those files if the workspace, or the home, has another path than before. Without isolation both paths
   * differ on another machine, and a fork has another home. If not, `open` always fails: begin a new session and give it the
   * conversation so far.
   */
  bearsOtherPaths(profile: string): { readonly workspace: boolean; readonly home: boolean }
}>()("@slipway/domain/AgentRuntime") {
  /**
   * An agent of one function in this process. The function runs once for each prompt, and its text is the last message of the turn. An
   * error fails the turn, and its message is the reason that people see; an `AgentError` is the agent's own end instead. An interrupted
   * turn interrupts the function. It takes no steering messages: they become the next prompts.
   *
   * The function must remember by itself what was said in earlier prompts of the session. A new session gets that as
   * `session.instructions`.
   */
  static fromPrompt<R = never>(answer: (prompt: AgentPrompt) => Effect.Effect<string, { readonly message: string }, R>) {
    return Layer.effect(
      AgentRuntime,
      Effect.map(Effect.context<R>(), (context) =>
        AgentRuntime.of({
          conversationFiles: () => [],
          bearsOtherPaths: () => ({ workspace: true, home: true }),
          open: (options) => openSession(options, (prompt) => Effect.provideContext(answer(prompt), context))
        }))
    )
  }
}

/** A prompt for an agent of one function: see `AgentRuntime.fromPrompt`. */
export interface AgentPrompt {
  readonly text: string
  /** The images of the prompt, also named in the text. */
  readonly images: ReadonlyArray<PromptImage>
  readonly turnId: Uuid
  /** The session of the prompt: its box, which spawns programs, its repositories, its model. */
  readonly session: AgentSessionOptions
  /** Reports an event of the turn. Ids of messages and calls are unique within the sandbox, such as `${turnId} 1`. */
  emit(event: AgentEvent): Effect.Effect<void>
  /**
   * Whether a person approves the call, which must wait for that. `true` at once if the sandbox's `toolApprovalMode` is `auto`. `id` is
   * unique within the sandbox.
   */
  approve(call: { readonly id: string; readonly tool: string } & Pick<Approval, "kind" | "paths" | "preview">): Effect.Effect<boolean>
  /**
   * A person's answers by the id of their question, which must wait for that; `null`: no person answered, or
   * `Question.refusalOf` refuses the questions. `id` is unique within the sandbox.
   */
  ask(request: { readonly id: string; readonly questions: ReadonlyArray<Question> }): Effect.Effect<Answers | null>
}

type Approval = Extract<AgentEvent, { readonly _tag: "ApprovalRequested" }>

const openSession = Effect.fnUntraced(function*(
  session: AgentSessionOptions,
  answer: (prompt: AgentPrompt) => Effect.Effect<string, { readonly message: string }>
) {
  const approvals = new Map<string, Deferred.Deferred<boolean>>()
  const questions = new Map<string, Deferred.Deferred<Answers | null>>()
  const closed = yield* Deferred.make<string>()
  const ended = new AgentError({ runtime: session.profile, operation: "prompt", detail: "The session is closed.", retryable: true })
  yield* Effect.addFinalizer(() => Deferred.succeed(closed, "the session was closed"))
  let interrupted = Deferred.makeUnsafe<void>()

  const approve = (onEvent: AgentPrompt["emit"]): AgentPrompt["approve"] =>
    Effect.fnUntraced(function*({ id, ...call }) {
      if (session.toolApprovalMode === "auto") return true
      const decided = yield* Deferred.make<boolean>()
      approvals.set(id, decided)
      yield* onEvent({ _tag: "ApprovalRequested", approvalId: id, ...call })
      return yield* Effect.ensuring(Deferred.await(decided), Effect.sync(() => approvals.delete(id)))
    })

  const ask = (onEvent: AgentPrompt["emit"]): AgentPrompt["ask"] =>
    Effect.fnUntraced(function*(request) {
      if (refusalOf(request.questions) !== null) return null
      const answered = yield* Deferred.make<Answers | null>()
      questions.set(request.id, answered)
      yield* onEvent({ _tag: "QuestionAsked", questionId: request.id, questions: request.questions })
      return yield* Effect.ensuring(Deferred.await(answered), Effect.sync(() => questions.delete(request.id)))
    })

  const opened: AgentSession = {
    sessionId: Effect.succeed(null),
    prompt: Effect.fnUntraced(function*({ images = [], onBegin = Effect.void, onEvent, text, turnId }) {
      interrupted = yield* Deferred.make<void>()
      yield* onBegin
      const answered = answer({ text, images, turnId, session, emit: onEvent, approve: approve(onEvent), ask: ask(onEvent) }).pipe(
        Effect.flatMap((said) =>
          said === "" ? Effect.void : onEvent({ _tag: "MessageUpdated", messageId: turnId, kind: "text", text: said })
        ),
        Effect.as<TurnEnd>({ state: "succeeded" }),
        Effect.catch((error) =>
          error instanceof AgentError ? Effect.fail(error) : Effect.succeed<TurnEnd>({ state: "failed", reason: error.message })
        )
      )
      return yield* answered.pipe(
        Effect.raceFirst(Effect.as(Deferred.await(interrupted), { state: "interrupted" } as const)),
        Effect.raceFirst(Effect.andThen(Deferred.await(closed), Effect.fail(ended)))
      )
    }),
    decide: (id, decision) =>
      Effect.suspend(() => {
        const open = approvals.get(id)
        return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, decision === "approve"))
      }),
    answer: (id, answers) =>
      Effect.suspend(() => {
        const open = questions.get(id)
        return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, answers))
      }),
    steer: () => Effect.void,
    interrupt: Effect.suspend(() => Effect.asVoid(Deferred.succeed(interrupted, undefined))),
    exited: Deferred.await(closed)
  }
  return opened
})
