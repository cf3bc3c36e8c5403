/** How one agent runtime is installed, started and spoken to, as data. A new runtime is a profile and a registry line. */
import type { AgentRuntimeName } from "@slipway/domain/models/schema/AgentRuntimeName"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import type { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import type { AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Pin } from "./AgentVersions.ts"

/** Checked against the model catalogue at start-up, so that nothing is silently ignored later. */
export interface Capabilities {
  /** Whether `prompt` mode is enforced: the agent asks before every edit, and before every command that can change anything. */
  readonly toolApprovals: boolean
  /** Weakest first. A model offers these or fewer. */
  readonly reasoningEfforts: ReadonlyArray<ReasoningEffort>
  /** What a denial does: `goes on` when the model is told, else the turn ends there. */
  readonly afterDenial: "goes on" | "ends the turn"
  /** Whether the requests of a turn are counted while it runs. */
  readonly countsRequests: boolean
  /**
   * Whether its conversation goes on from files that it wrote where the workspace, or its home, had another path. Where not, it
   * refuses for good, and a new conversation has to be told what was said.
   */
  readonly bearsOtherPaths: { readonly workspace: boolean; readonly home: boolean }
  /** The model API it speaks; `null`: it needs no model. */
  readonly modelProtocol: UpstreamProtocol | null
}

export interface Platform {
  /** As of Node: `linux`, `darwin`. */
  readonly os: string
  /** As of Node: `x64`, `arm64`. */
  readonly arch: string
  /** Whether the processor is known to have AVX2. */
  readonly avx2: boolean
}

/** A program that `slipway agents install` fetches from the npm registry. */
export interface Program {
  readonly package: string
  /** The one version the profile was tried with. */
  readonly version: string
  /** What is fetched: all of it is checked before anything of it is unpacked. None of its install scripts run. */
  pins(platform: Platform): ReadonlyArray<Pin>
  /** A file below `node_modules` that is the binary, compressed by brotli: unpacked to the first of `binaries`. */
  compressed?(platform: Platform): string
  /** Where the binary may lie below `node_modules`, best first. Not the launcher: one process per agent, signals arrive. */
  binaries(platform: Platform): ReadonlyArray<string>
  readonly license: string
  /** What the operator should know before installing it. */
  readonly notice?: string
}

/** In which ways an agent that speaks ACP is special. */
export interface AcpQuirks {
  /** Login that a session needs first, with what the environment holds. */
  readonly authMethod?: string
  /** The effort to choose when none is wanted; absent: the agent's own choice is to choose none. */
  readonly noEffort?: string
  /** Goes with a new session. */
  readonly newSession?: (options: AgentSessionOptions) => object
  /** The notification that says that the model answered one request. */
  readonly answered?: { readonly method: string; readonly update: string }
  /** The notification that says that a sub-agent, a session of its own, `began` or `ended`. Absent: nothing is said of sub-agents. */
  readonly subAgents?: { readonly method: string; readonly began: string; readonly ended: string }
  /** The notification, with `messageId` and `text`, that hands a text to the turn, and the agent's with that `messageId`: it took it. */
  readonly steering?: { readonly method: string; readonly taken: string }
  /** The key of `_meta` in the answer to a request for permission, where it reads why a person denies. */
  readonly denialReason?: string
}

interface Common {
  /** The public name of what this runs. */
  readonly runtime: AgentRuntimeName
  readonly capabilities: Capabilities
  /** `null`: it is a part of Slipway. */
  readonly program: Program | null
  /** What it needs below its home to go on with a session, as `SandboxHost.readHome` takes it. Nothing that we write there, no secrets. */
  readonly conversationFiles: ReadonlyArray<string>
  /** Pure. Secrets go into the environment, never into the arguments. `command` is the program's binary. */
  launch(options: AgentSessionOptions, command: string): BoxCommand
}

/** `dialect` is the protocol on its standard input and output. */
export type Profile =
  & Common
  & (
    | { readonly dialect: "acp"; readonly acp: AcpQuirks }
    | { readonly dialect: "codex-app-server" }
    | { readonly dialect: "claude-stream-json" }
  )
