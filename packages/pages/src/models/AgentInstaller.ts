/** Installs the agents of this machine. The page of models offers it where this service is given. */
import { Context, type Effect } from "effect"

/** An agent with a program of its own. */
export interface InstallableAgent {
  readonly name: string
  /** The version that is installed. */
  readonly version: string
  /** The terms that an installation accepts; `null`: none. */
  readonly notice: string | null
  readonly state: "installed" | "missing" | "installing" | "failed"
  /** The present step, or why the last installation failed. */
  readonly detail: string | null
}

export class AgentInstaller extends Context.Service<AgentInstaller, {
  readonly agents: Effect.Effect<ReadonlyArray<InstallableAgent>>
  /** Why this process cannot install, ending with the command that can, without the agent's name; `null`: it can. */
  readonly problem: Effect.Effect<string | null>
  /** Begins an installation, which runs on, and answers whether there is such an agent. Safe to repeat. */
  install(name: string): Effect.Effect<boolean>
}>()("@slipway/pages/AgentInstaller") {}
