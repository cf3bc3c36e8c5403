/** How one agent runtime is started and what it can do, as data. A new runtime is a new profile and a registry line. */
import type { AgentRuntimeName, AgentSessionOptions, ReasoningEffort } from "@slipway/domain/sandbox/AgentRuntime"
import type { BoxCommand } from "@slipway/domain/sandbox/SandboxHost"

export interface Profile {
  /** The public name of what this runs. */
  readonly runtime: AgentRuntimeName
  /** The protocol it speaks on its standard input and output. */
  readonly dialect: "acp"
  /** Checked against the model catalogue at start-up, so that nothing is silently ignored later. */
  readonly capabilities: {
    /** Whether `prompt` mode is enforced: the agent asks before every edit and command. */
    readonly toolApprovals: boolean
    readonly reasoningEfforts: ReadonlyArray<ReasoningEffort>
  }
  /** Pure. Secrets go into the environment, never into the arguments. */
  launch(options: AgentSessionOptions): BoxCommand
}
