/** Port: runs a coding agent in a sandbox's box. Checked by `AgentRuntimeContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Uuid } from "../../ids/Ids.ts"
import type { ModelAccess } from "../../models/ports/ModelGateway.ts"
import type { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { AgentEvent, TurnEnd } from "../schema/AgentEvent.ts"
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

/** Options for starting an agent. */
export interface AgentSessionOptions {
  readonly box: Box
  /** Name of the profile in the runtime registry, e.g. `offline` or `codex`. */
  readonly profile: string
  /** The model's id in our catalogue. */
  readonly model: string
  /** The agent's access to its model; `null`: it uses no model. */
  readonly access: ModelAccess | null
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** The repositories and their folders below the box's workspace, in the sandbox's order. */
  readonly repositories: ReadonlyArray<{ readonly name: RepoName; readonly folder: string }>
  /** The repositories' instructions for agents (their `AGENTS.md`), as Markdown; `null`: none. */
  readonly instructions: string | null
  /** Native id of an earlier session of this sandbox whose conversation continues; `null`: a new one. */
  readonly resume: string | null
}

/** One live agent process. Prompts run one at a time. */
export interface AgentSession {
  /** The runtime's own id for `resume`. It may be known only after the first prompt. */
  readonly sessionId: Effect.Effect<string | null>
  /**
   * Runs one prompt. `onEvent` handles each event before the next is read, so a slow consumer slows the agent down. Succeeds when the
   * turn has ended in any way; fails when the agent has ended or broke its protocol. `onBegin` runs once, before any event. From then
   * on `steer` and `interrupt` apply to this turn.
   */
  prompt(options: {
    readonly turnId: Uuid
    readonly text: string
    readonly onBegin?: Effect.Effect<unknown>
    readonly onEvent: (event: AgentEvent) => Effect.Effect<void>
  }): Effect.Effect<TurnEnd, AgentError>
  /**
   * Answers an open approval. Safe to repeat; ids that are not open are ignored. `reason`: a person's reason for denying it. The
   * profiles with `Steering.profileDenialTelling` of `answer` pass it to the agent, others ignore it.
   */
  decide(approvalId: string, decision: "approve" | "deny", reason?: string): Effect.Effect<void>
  /**
   * Asks the agent to end the running turn. Open approvals count as denied. Does nothing between turns. It does not wait: `prompt` ends
   * when the agent obeys, and the worker closes the scope if that takes too long.
   */
  readonly interrupt: Effect.Effect<void>
  /**
   * Queues a text for the running turn, after earlier ones. `id` is a UUID, unique within the sandbox; a repeated id is ignored. It
   * does not wait. The agent takes a text when its protocol allows, such as after a tool call; `MessageSteered` reports it. A text that
   * was not taken before the turn ends is dropped, and the agent never sees it. Does nothing between turns. Present exactly for the
   * profiles that `Steering.profileSteers` accepts.
   */
  steer?(message: { readonly id: Uuid; readonly text: string }): Effect.Effect<void>
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
}
