/** How an agent runtime is installed, started and driven, as data. A new runtime is a profile and a registry line. */
import type { AgentRuntimeName } from "@slipway/domain/models/schema/AgentRuntimeName"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import type { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import type { AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Answer, Question } from "@slipway/domain/sandbox/rules/Question"
import type { Pin } from "./AgentVersions.ts"

/** Checked against the model catalogue at start-up, so that nothing is silently ignored later. */
export interface Capabilities {
  /** Whether `prompt` mode is enforced: the agent asks before every edit, and before every command that can change anything. */
  readonly toolApprovals: boolean
  /** Whether prompts may have images. As the rule `Images.profileTakesImages` says. */
  readonly images: boolean
  /** Weakest first. A model offers these or fewer. */
  readonly reasoningEfforts: ReadonlyArray<ReasoningEffort>
  /** The effect of a denial: the turn `goes on` when the model has it, otherwise the turn ends. */
  readonly afterDenial: "goes on" | "ends the turn"
  /** Whether it can ask people questions while a turn waits. */
  readonly asksQuestions: boolean
  /** Whether the requests of a turn are counted while it runs. */
  readonly countsRequests: boolean
  /**
   * Whether its conversation continues if the workspace, or its home, has another path than before. If not, the agent always refuses,
   * and a new conversation needs the history as text.
   */
  readonly bearsOtherPaths: { readonly workspace: boolean; readonly home: boolean }
  /** The model API it speaks; `null`: it needs no model. */
  readonly modelProtocol: UpstreamProtocol | null
}

export interface Platform {
  /** Node's name: `linux`, `darwin`. */
  readonly os: string
  /** Node's name: `x64`, `arm64`. */
  readonly arch: string
  /** Whether the processor certainly has AVX2. */
  readonly avx2: boolean
}

/** A program that `slipway agents install` fetches from the npm registry. */
export interface Program {
  readonly package: string
  /** The only version that the profile was tested with. */
  readonly version: string
  /** The day on which it was the newest version of the registry, as `2026-11-30`. */
  readonly pinnedOn: string
  /** The packages to fetch. All are checked before any is unpacked. Install scripts never run. */
  pins(platform: Platform): ReadonlyArray<Pin>
  /** A file below `node_modules` with the binary, compressed by brotli. It is unpacked to the first of `binaries`. */
  compressed?(platform: Platform): string
  /** Possible paths of the binary below `node_modules`, best first. Not the launcher: with one process per agent, signals arrive. */
  binaries(platform: Platform): ReadonlyArray<string>
  readonly license: string
  /** Information for the operator before the installation. */
  readonly notice?: string
}

/** Questions in an agent's own extension of ACP. */
export interface AcpQuestions {
  readonly method: string
  /** The questions of a request; `null`: it has none that can be read. */
  read(params: unknown): { readonly sessionId: string; readonly questions: ReadonlyArray<Question> } | null
  /** The result of the request: an entry for each question, `null` for one without an answer; `null`: no person answered. */
  result(questions: ReadonlyArray<Question>, answers: ReadonlyArray<Answer | null> | null, why?: string): object
}

/** The differences of an agent that speaks ACP. */
export interface AcpQuirks {
  /** A login method that a session needs first, with values of the environment. */
  readonly authMethod?: string
  /** The effort for "no effort"; absent: the agent's default is used. */
  readonly noEffort?: string
  /** Additional parameters of a new session. */
  readonly newSession?: (options: AgentSessionOptions) => object
  /** The notification that the model answered one request. */
  readonly answered?: { readonly method: string; readonly update: string }
  /** The notification that a sub-agent, a session of its own, `began` or `ended`. Absent: sub-agents are not reported. */
  readonly subAgents?: { readonly method: string; readonly began: string; readonly ended: string }
  /** The notification that it has the tools of its MCP servers, or gave up. Absent: it has them when the session is open. */
  readonly mcpStarted?: string
  /** It takes no images in prompts. */
  readonly noImages?: true
  /** The notification that adds a text to the turn, with `messageId` and `text`, and the agent's notification that it took `messageId`. */
  readonly steering?: { readonly method: string; readonly taken: string }
  /** The request by which it asks a person, and how the answer is told. Absent: it cannot ask. */
  readonly questions?: AcpQuestions
  /** The key of `_meta` in the answer to a permission request, for the reason of a denial. */
  readonly denialReason?: string
}

interface Common {
  /** The public name of the runtime. */
  readonly runtime: AgentRuntimeName
  readonly capabilities: Capabilities
  /** `null`: a part of Slipway. */
  readonly program: Program | null
  /** The files below its home that continue a session, for `SandboxHost.readHome`: none that we write, no secrets. */
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
