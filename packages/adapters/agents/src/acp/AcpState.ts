/** A session's prompt and the sessions of its sub-agents. */
import type { CancelNotification } from "@agentclientprotocol/sdk"
import { Effect } from "effect"
import type { Conversation, Ended } from "../Conversation.ts"
import type { AcpQuirks } from "../Profile.ts"
import type * as JsonRpc from "../stdio/JsonRpc.ts"
import type { SubAgents } from "../SubAgents.ts"
import type { WorkspacePaths } from "../WorkspacePaths.ts"
import type * as Acp from "./Acp.ts"

export interface Approval {
  readonly request: JsonRpc.RequestId
  readonly options: (typeof Acp.PermissionRequest.Type)["options"]
}

export interface AcpState {
  readonly rpc: JsonRpc.JsonRpc
  readonly conversation: Conversation<Approval>
  readonly paths: WorkspacePaths
  readonly quirks: AcpQuirks
  /** The names of the MCP servers that the gateway leads to. */
  readonly servers: ReadonlyArray<string>
  /** The agent said that it has their tools. */
  mcpStarted: boolean
  /** `null`: it is not open yet. */
  sessionId: string | null
  promptId: JsonRpc.RequestId | null
  requests: number
  readonly subAgents: SubAgents
  /** Open sessions of sub-agents, by sub-agent. */
  readonly theirSessions: Map<string, string>
  /** Calls that start sub-agents whose sessions have not begun, with the tasks: the oldest first. */
  readonly tasks: Map<string, string>
  /** The calls that started sub-agents, by session. */
  readonly parents: Map<string, string>
  /** Every sub-agent that begins now is cancelled. */
  stopping: boolean
}

/** For the next prompt. */
export const reset = (state: AcpState) => {
  state.requests = 0
  state.subAgents.reset()
  state.theirSessions.clear()
  state.tasks.clear()
  state.parents.clear()
  state.stopping = false
}

/** Whether the session is that of a sub-agent. */
export const isTheirs = ({ theirSessions }: AcpState, session: string) => [...theirSessions.values()].includes(session)

export const cancelSession = ({ rpc }: AcpState, session: string) =>
  rpc.notify("session/cancel", { sessionId: session } satisfies CancelNotification)

export const cancelSubAgents = (state: AcpState) =>
  Effect.suspend(() => {
    state.stopping = true
    return Effect.forEach(state.theirSessions.values(), (session) => cancelSession(state, session), { discard: true })
  })

/** The agent does not name the call that started a sub-agent, only its task (grok 1.0.41). */
const foundParent = ({ parents, tasks }: AcpState, session: string, task: string) => {
  const found = [...tasks].find(([, description]) => description === task)?.[0]
  if (found === undefined) return
  tasks.delete(found)
  parents.set(session, found)
}

/** A notification about a sub-agent. */
export const aboutSubAgent = (state: AcpState, { child_session_id, description, sessionUpdate, subagent_id }: Acp.ExtensionUpdate) => {
  const { conversation, quirks, subAgents, theirSessions } = state
  const names = quirks.subAgents
  if (names === undefined || subagent_id == null || !conversation.owes()) return Effect.void
  if (sessionUpdate === names.began && child_session_id != null) {
    subAgents.begin(subagent_id)
    theirSessions.set(subagent_id, child_session_id)
    foundParent(state, child_session_id, description ?? "")
    return state.stopping ? cancelSession(state, child_session_id) : Effect.void
  }
  if (sessionUpdate === names.ended) {
    theirSessions.delete(subagent_id)
    subAgents.end(subagent_id)
  }
  return Effect.void
}

/** The agent has ended the prompt. Its sub-agents go on as long as it succeeded. */
export const concluded = (state: AcpState, ended: Ended) => {
  state.subAgents.conclude(ended)
  return ended.failure === undefined ? Effect.void : cancelSubAgents(state)
}
