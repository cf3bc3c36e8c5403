/** Port: something that runs a coding agent inside a sandbox's box. Checked by `AgentRuntimeContract`. */
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

/** The agent could not start, answered nonsense or is gone. `retryable`: a new process may succeed. */
export class AgentError extends Schema.TaggedError<AgentError>()("AgentError", {
  runtime: Schema.String,
  operation: Schema.Literals(["open", "prompt"]),
  /** A sentence for people: what happened and what to do. Free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** It sent a message that is larger than any is read. */
  tooLarge: Schema.optionalKey(Schema.Boolean),
  /** The box refused to run it: trouble of this machine, whichever agent it is. */
  refusedByHost: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `${this.runtime}: ${this.detail}`
  }
}

/** What an agent is started with. */
export interface AgentSessionOptions {
  readonly box: Box
  /** Name of the profile in the runtime registry, e.g. `offline` or `codex`. */
  readonly profile: string
  /** The model's id in our catalogue. */
  readonly model: string
  /** How the agent reaches its model; `null`: it uses none. */
  readonly access: ModelAccess | null
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** The repositories and their folders below the box's workspace, first one first. */
  readonly repositories: ReadonlyArray<{ readonly name: RepoName; readonly folder: string }>
  /** What the repositories ask of agents (their `AGENTS.md`), as Markdown; `null`: nothing. */
  readonly instructions: string | null
  /** Native id of an earlier session of this sandbox: its conversation goes on. */
  readonly resume: string | null
}

/** One live agent process. Prompts run one at a time. */
export interface AgentSession {
  /** The runtime's own id, good for `resume`. May be known only after the first prompt. */
  readonly sessionId: Effect.Effect<string | null>
  /**
   * Runs one prompt: `onEvent` sees each event before the next is read from the agent, so a slow consumer slows the
   * agent down. Succeeds when the turn ended, however it ended; fails when the agent is gone or broke its protocol.
   * `onBegin` runs once, before any event: from then on what `steer` and `interrupt` do is about this turn.
   */
  prompt(options: {
    readonly turnId: Uuid
    readonly text: string
    readonly onBegin?: Effect.Effect<unknown>
    readonly onEvent: (event: AgentEvent) => Effect.Effect<void>
  }): Effect.Effect<TurnEnd, AgentError>
  /**
   * Answers an open approval. Safe to repeat; an id that is not open is ignored. `reason`: why a person denies it, which the agent is
   * told by exactly the profiles that `Steering.profileDenialTelling` says `answer` of; others ignore it.
   */
  decide(approvalId: string, decision: "approve" | "deny", reason?: string): Effect.Effect<void>
  /**
   * Asks the agent to end the running turn. Open approvals count as denied. Does nothing when no turn runs. It does not
   * wait: `prompt` ends when the agent obeys, and the scope is closed on one that takes too long.
   */
  readonly interrupt: Effect.Effect<void>
  /**
   * Hands a text to the turn that runs, behind those handed to it before. `id` is a UUID, unique within the sandbox; one that this
   * turn was handed already is ignored. It does not wait for the agent, which takes a text when its protocol lets it, such as after
   * a tool call: `MessageSteered` says so. A text that the turn ends or is interrupted without was not taken and never will be, nor
   * does the agent remember it. Does nothing when no turn runs. There exactly for the profiles that `Steering.profileSteers` names.
   */
  steer?(message: { readonly id: Uuid; readonly text: string }): Effect.Effect<void>
  /** Completes when the process has ended, with a sentence saying how. */
  readonly exited: Effect.Effect<string>
}

/** Errors are for the worker: it opens the agent again as long as they are retryable. */
export class AgentRuntime extends Context.Service<AgentRuntime, {
  /** Starts the agent and its session. The process tree ends with the scope, gently first, then by force. */
  open(options: AgentSessionOptions): Effect.Effect<AgentSession, AgentError, Scope.Scope>
  /**
   * Where agents of this profile keep what `resume` needs, as `SandboxHost.readHome` takes it: files and folders below the
   * home, without secrets. Written into the home of the same sandbox on another machine they let the conversation go on there.
   * Whole between turns. Empty for a profile that is not there.
   */
  conversationFiles(profile: string): ReadonlyArray<string>
  /**
   * Whether `resume` works with those files where the box's workspace, or its home, has another path than where they were written:
   * without isolation both have on another machine, and a fork has another home. Where not, `open` fails for good; begin a new
   * session there and tell it what was said.
   */
  bearsOtherPaths(profile: string): { readonly workspace: boolean; readonly home: boolean }
}>()("@slipway/domain/AgentRuntime") {
}
