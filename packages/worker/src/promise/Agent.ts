/** An agent as an async function. */
import { type AgentEvent, type AgentPrompt, AgentRuntime, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Exit } from "effect"

/** One turn of an {@link Agent}. */
export interface AgentTurn {
  readonly id: string
  readonly sandboxId: string
  readonly model: string
  /** The folder of the repositories, in the box. */
  readonly workspace: string
  /** The repositories and their folders below `workspace`. */
  readonly repositories: AgentSessionOptions["repositories"]
  /** The repositories' instructions for agents, and what was said before a new session, as Markdown; `null`: none. */
  readonly instructions: string | null
  /** Aborted when the turn ends early: a person or a time limit interrupts it, or the worker stops. Later results are ignored. */
  readonly signal: AbortSignal
  /**
   * Asks a person about a tool call, and gives the decision. `true` at once if the sandbox approves everything. Rejects when the turn
   * ends early. `id` is unique within the sandbox.
   */
  approve(call: Parameters<AgentPrompt["approve"]>[0]): Promise<boolean>
}

/**
 * Answers one prompt. Consecutive texts add up to one message; events are sent as they are. A rejection fails the turn, and its message
 * is the reason that people see. The function must remember by itself what was said in earlier prompts.
 */
export type Agent = (prompt: string, turn: AgentTurn) => AsyncIterable<string | AgentEvent>

const failure = (error: unknown) => ({ message: error instanceof Error ? error.message : String(error) })

const answer = (agent: Agent) =>
  Effect.fnUntraced(function*({ approve, emit, session, text, turnId }: AgentPrompt) {
    const run = Effect.runPromiseWith(yield* Effect.context<never>())
    const abort = new AbortController()
    const { signal } = abort
    const turn: AgentTurn = {
      id: turnId,
      sandboxId: session.box.sandboxId,
      model: session.model,
      workspace: session.box.workspace,
      repositories: session.repositories,
      instructions: session.instructions,
      signal,
      approve: (call) => run(approve(call), { signal })
    }
    const iterator = yield* Effect.try({ try: () => agent(text, turn)[Symbol.asyncIterator](), catch: failure })
    const next = Effect.tryPromise({ try: () => iterator.next(), catch: failure })
    const steps = Effect.gen(function*() {
      let message = { number: 1, text: "" }
      for (let step = yield* next; step.done !== true; step = yield* next) {
        if (typeof step.value === "string") {
          message.text += step.value
          yield* emit({ _tag: "MessageUpdated", messageId: `${turnId} ${message.number}`, kind: "text", text: message.text })
        } else {
          if (message.text !== "") message = { number: message.number + 1, text: "" }
          yield* emit(step.value)
        }
      }
      return ""
    })
    const stop = async () => {
      abort.abort()
      await iterator.return?.()
    }
    // Not awaited: a function that ignores its signal must not keep the turn from its end.
    return yield* Effect.onExit(steps, (exit) => Exit.isSuccess(exit) ? Effect.void : Effect.sync(() => void stop().catch(() => {})))
  })

/** The agent for a worker. */
export const runtimeOf = (agent: Agent) => AgentRuntime.fromPrompt(answer(agent))
