/** A session's thread, its turn, and the threads and turns of its sub-agents. */
import type { PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Option, Schema } from "effect"
import type { Conversation, Ended } from "../Conversation.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import type { SubAgents } from "../SubAgents.ts"
import type { WorkspacePaths } from "../WorkspacePaths.ts"
import * as Codex from "./Codex.ts"

const decodeTurnBegan = Schema.decodeUnknownOption(Codex.TurnBegan)
const decodeTurnCompleted = Schema.decodeUnknownOption(Codex.TurnCompleted)

export interface Approval {
  readonly request: JsonRpc.RequestId
}

export interface CodexThread {
  readonly rpc: JsonRpc.JsonRpc
  readonly conversation: Conversation<Approval>
  readonly paths: WorkspacePaths
  /** Whether calls wait for a person. */
  readonly asks: boolean
  threadId: string | null
  /** A thread is on disk, and can be resumed, from its first turn on. */
  kept: boolean
  startId: JsonRpc.RequestId | null
  turnId: string | null
  interruptId: JsonRpc.RequestId | null
  /** An interrupt could not be sent yet, or came too early for the agent. */
  interrupting: boolean
  requests: number
  /** Steering texts for a turn whose id is not known yet. */
  early: Array<{ readonly id: string; readonly text: string; readonly images: ReadonlyArray<PromptImage> }>
  /** Calls that wait for an answer to a request of the agent. */
  readonly asked: Map<JsonRpc.RequestId, string>
  /** Threads of sub-agents, at any depth: those with a turn, and those with a task whose turn has not begun. */
  readonly subAgents: SubAgents
  /** Turns of sub-agents, by thread. */
  readonly theirTurns: Map<string, string>
  /** The calls that started sub-agents, by thread. */
  readonly parents: Map<string, string>
  /** Threads with a task whose turn has not begun. */
  readonly expected: Set<string>
  /** Threads that were asked whether they have a turn, by our request. */
  readonly reads: Map<JsonRpc.RequestId, string>
  /** Every turn that begins now is interrupted. */
  stopping: boolean
}

/** For the next prompt. */
export const reset = (thread: CodexThread) => {
  thread.turnId = null
  // The answer to an interrupt of an earlier turn is not about this turn.
  thread.interruptId = null
  thread.interrupting = false
  thread.early = []
  thread.requests = 0
  thread.asked.clear()
  thread.subAgents.reset()
  thread.theirTurns.clear()
  thread.parents.clear()
  thread.expected.clear()
  thread.reads.clear()
  thread.stopping = false
}

const interruptThread = ({ rpc, theirTurns }: CodexThread, about: string) => {
  const turn = theirTurns.get(about)
  return turn === undefined ? Effect.void : Effect.asVoid(rpc.request("turn/interrupt", { threadId: about, turnId: turn }))
}

const interruptSubAgents = (thread: CodexThread) =>
  Effect.suspend(() => {
    thread.stopping = true
    return Effect.forEach(thread.subAgents.open(), (about) => interruptThread(thread, about), { discard: true })
  })

/** Interrupts the turn and those of all sub-agents. */
export const interrupt = (thread: CodexThread) =>
  Effect.suspend(() => {
    const { rpc, subAgents, threadId, turnId } = thread
    if (subAgents.concluded() !== null) return interruptSubAgents(thread)
    thread.interrupting = turnId === null
    if (turnId === null) return interruptSubAgents(thread)
    return Effect.andThen(
      interruptSubAgents(thread),
      Effect.map(rpc.request("turn/interrupt", { threadId, turnId }), (id) => {
        thread.interruptId = id
      })
    )
  })

/** The name of a call of any thread. */
export const nameOf = ({ threadId }: CodexThread, about: string, itemId: string) => about === threadId ? itemId : `${about} ${itemId}`

/** A command that runs during an interrupt continues after the turn, so it is ended explicitly. */
const clean = ({ rpc }: CodexThread, about: string | null) =>
  Effect.asVoid(rpc.request("thread/backgroundTerminals/clean", { threadId: about }))

const read = ({ reads, rpc }: CodexThread, about: string) =>
  Effect.map(rpc.request("thread/read", { threadId: about, includeTurns: false }), (id) => {
    reads.set(id, about)
  })

const conclude = ({ error, status }: (typeof Codex.TurnCompleted.Type)["turn"]): Ended => {
  if (status === "completed") return { finish: "end_turn" }
  if (status === "interrupted") return { finish: "cancelled", failure: "The agent cancelled the turn by itself." }
  return { finish: "error", failure: JsonRpc.reason(error?.message ?? "The agent ended the turn for an unknown reason.") }
}

/** The agent's own turn ended. Sub-agents go on as long as it succeeded. */
export const concluded = (thread: CodexThread, params: unknown) => {
  const turn = Option.getOrNull(decodeTurnCompleted(params))?.turn
  if (turn === undefined || turn.id !== thread.turnId) return Effect.void
  return Effect.gen(function*() {
    if (turn.status !== "completed") yield* interruptSubAgents(thread)
    // A thread that got its task long ago and never began a turn will not begin it any more.
    yield* Effect.forEach(thread.expected, (about) => read(thread, about), { discard: true })
    thread.subAgents.conclude(conclude(turn))
    if (turn.status === "interrupted") yield* clean(thread, thread.threadId)
  })
}

/** A notification about the turns of a sub-agent. */
export const turnOfSubAgent = (thread: CodexThread, about: string, method: string, params: unknown) => {
  const { conversation, expected, subAgents, theirTurns } = thread
  if (method === "turn/started") {
    const turn = Option.getOrNull(decodeTurnBegan(params))?.turn.id
    if (turn === undefined || !conversation.owes()) return Effect.void
    expected.delete(about)
    theirTurns.set(about, turn)
    subAgents.begin(about)
    return thread.stopping ? interruptThread(thread, about) : Effect.void
  }
  if (method === "turn/completed" || method === "thread/closed") {
    const status = Option.getOrNull(decodeTurnCompleted(params))?.turn.status
    theirTurns.delete(about)
    if (!expected.has(about)) subAgents.end(about)
    return status === "interrupted" ? clean(thread, about) : Effect.void
  }
  return Effect.void
}

/** A sub-agent has a task: its turn may begin only after that of the agent has ended. */
export const setToWork = (thread: CodexThread, { receiverThreadIds, status, tool }: Codex.Item) => {
  const { expected, subAgents, theirTurns, threadId } = thread
  if (status !== "completed" || tool == null || !Codex.setsToWork.has(tool)) return Effect.void
  const threads = (receiverThreadIds ?? []).filter((about) => about !== threadId && !theirTurns.has(about))
  return Effect.forEach(threads, (about) => {
    expected.add(about)
    subAgents.begin(about)
    // Its turn may be over already. Threads that never begin a turn are asked when the agent's own turn is over.
    return subAgents.concluded() === null ? Effect.void : read(thread, about)
  }, { discard: true })
}
