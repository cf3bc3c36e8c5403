/** Timeouts of agents, and the recorded details of their work. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  approval: Setting.withDefault({
    name: "SLIPWAY_APPROVAL_MINUTES",
    type: Type.minutes(1, 1440),
    default: "30",
    about: "How long a tool call waits for approval; then it counts as denied.",
    role: "worker"
  }),
  agentIdle: Setting.withDefault({
    name: "SLIPWAY_AGENT_IDLE_MINUTES",
    type: Type.minutes(1, 1440),
    default: "5",
    about: "How long an agent without a turn is kept; the next message resumes it.",
    role: "worker"
  }),
  toolDetail: Setting.withDefault({
    name: "SLIPWAY_TOOL_DETAIL",
    type: Type.oneOf(["full", "none"]),
    default: "full",
    about: "Content of tool calls in events beside the title: full (command, change, end of the output) or none; then approvers see " +
      "only the title.",
    role: "worker"
  })
}

export const load = Setting.values(settings)
