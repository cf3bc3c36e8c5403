/** Timeouts of agents, and the recorded details of their work. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  approval: Setting.withDefault({
    name: "SLIPWAY_APPROVAL_MINUTES",
    type: Type.minutes(1, 1440),
    default: "30",
    about: "How long a tool call waits for approval before it counts as denied.",
    role: "worker"
  }),
  agentIdle: Setting.withDefault({
    name: "SLIPWAY_AGENT_IDLE_MINUTES",
    type: Type.minutes(1, 1440),
    default: "5",
    about: "How long an agent may be without a turn before it is stopped; the next message resumes it.",
    role: "worker"
  }),
  toolDetail: Setting.withDefault({
    name: "SLIPWAY_TOOL_DETAIL",
    type: Type.oneOf(["full", "none"]),
    default: "full",
    about: "What events tell of tool calls beside their title: full, the command, the change and the end of the output; " +
      "or none, and who approves sees the title alone.",
    role: "worker"
  })
}

export const load = Setting.values(settings)
