/** The recorded sessions of agents: the same few of each. They are run to record, and again to replay. */
import { profileSteers } from "@slipway/domain/models/rules/Steering"
import { type AgentEvent, AgentRuntime, type AgentSessionOptions, type TurnEnd } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect } from "effect"
import { calling } from "./fake-model/Directives.ts"

export interface Scenario {
  readonly name: string
  readonly options?: Partial<AgentSessionOptions>
  /** Prompt of a process before the recorded one, which then goes on with its session. */
  readonly before?: string
  readonly prompts: ReadonlyArray<string>
  /** A sub-agent does this before the first prompt: of agents that have sub-agents where people are asked. */
  readonly subAgent?: string
  readonly decision?: "approve" | "deny"
  /** The event at which the first prompt is interrupted. */
  readonly interruptAt?: (event: AgentEvent) => boolean
  /** Steering of the first prompt at its first event of this kind: for agents that can be steered. */
  readonly steer?: { readonly at: AgentEvent["_tag"]; readonly text: string }
}

/** Names what a prompt is steered with. */
export const STEER_ID = "00000000-0000-5000-8000-000000000001"

/** How each agent is made to begin a sub-agent with this prompt, in the background where it can. */
export const subAgents: Readonly<Record<string, (prompt: string) => string>> = {
  claude: (prompt) => calling("Agent", { description: "child", prompt, subagent_type: "general-purpose", run_in_background: true }),
  codex: (message) => calling("spawn_agent", { message }),
  grok: (prompt) => calling("spawn_subagent", { description: "child", prompt, subagent_type: "general-purpose", background: true }),
  opencode: (prompt) => calling("task", { description: "child", prompt, subagent_type: "general" })
}
/** Agents without sub-agents where people are asked, because no approval is asked for a sub-agent's calls. */
export const withoutSubAgents: ReadonlySet<string> = new Set(["opencode"])

/** Whether there is a recording of it for this runtime. */
export const isFor = (runtime: string, { steer, subAgent }: Scenario): boolean =>
  (steer === undefined || profileSteers(runtime)) &&
  (subAgent === undefined || Object.hasOwn(subAgents, runtime) && !withoutSubAgents.has(runtime))

export const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "approve",
    options: { toolApprovalMode: "prompt", reasoningEffort: "high", instructions: "Be brief.\n" },
    prompts: ["[[think let me see]] [[say hello]] [[write path=f.txt content=hi]] [[shell echo hi > s.txt]] [[say done]]"],
    decision: "approve"
  },
  {
    name: "deny",
    options: { toolApprovalMode: "prompt" },
    prompts: ["[[write path=f.txt content=hi]] [[say after]]", "[[say still here]]"],
    decision: "deny"
  },
  {
    name: "interrupt-approval",
    options: { toolApprovalMode: "prompt" },
    prompts: ["[[write path=f.txt content=hi]] [[say after]]", "[[say next]]"],
    interruptAt: ({ _tag }) => _tag === "ApprovalRequested"
  },
  {
    name: "interrupt-answer",
    prompts: ["[[slow 200 50]]", "[[say next]]"],
    interruptAt: ({ _tag }) => _tag === "MessageUpdated"
  },
  {
    name: "interrupt-command",
    prompts: ["[[shell sleep 1000]] [[say after]]", "[[say next]]"],
    interruptAt: (event) => event._tag === "ToolUpdated" && event.status === "running"
  },
  { name: "error", prompts: ["[[error 401]]", "[[say next]]"] },
  {
    name: "steer-approval",
    options: { toolApprovalMode: "prompt" },
    prompts: ["[[write path=f.txt content=hi]] [[say after]]", "[[recall]]"],
    decision: "approve",
    steer: { at: "ApprovalRequested", text: "[[say to the left]]" }
  },
  { name: "steer-answer", prompts: ["[[slow 6 50]]", "[[recall]]"], steer: { at: "MessageUpdated", text: "[[say to the left]]" } },
  {
    name: "sub-agent",
    options: { toolApprovalMode: "prompt" },
    subAgent: "[[write path=f.txt content=hi]] [[shell sleep 1; echo hi > s.txt]] [[say theirs]]",
    prompts: ["[[say done]]"],
    decision: "approve"
  },
  { name: "resume", before: "[[say the word is XYZZY]]", prompts: ["[[recall]]"] }
]

export interface Told {
  readonly sessionId: string | null
  readonly turns: ReadonlyArray<{ readonly end: TurnEnd; readonly events: ReadonlyArray<AgentEvent> }>
}

/** Runs the recorded part of a scenario. */
export const run = (scenario: Scenario, options: AgentSessionOptions) =>
  Effect.gen(function*() {
    const runtime = yield* AgentRuntime
    const session = yield* runtime.open({ ...options, ...scenario.options })
    const turns: Array<Told["turns"][number]> = []
    for (const [i, prompt] of scenario.prompts.entries()) {
      const before = i > 0 || scenario.subAgent === undefined ? undefined : subAgents[options.profile]?.(scenario.subAgent)
      const text = before === undefined ? prompt : `${before} ${prompt}`
      const events: Array<AgentEvent> = []
      let interrupted = false
      let steered = false
      const end = yield* session.prompt({
        turnId: `turn-${i + 1}`,
        text,
        onEvent: (event) =>
          Effect.suspend(() => {
            events.push(event)
            if (i === 0 && !interrupted && scenario.interruptAt?.(event) === true) {
              interrupted = true
              return session.interrupt
            }
            const { steer } = scenario
            const steering = i > 0 || steered || steer?.at !== event._tag
              ? Effect.void
              : session.steer?.({ id: STEER_ID, text: steer.text }) ?? Effect.void
            steered ||= steer?.at === event._tag
            const deciding = event._tag === "ApprovalRequested" && scenario.decision !== undefined
              ? session.decide(event.approvalId, scenario.decision)
              : Effect.void
            return Effect.andThen(steering, deciding)
          })
      })
      turns.push({ end, events })
    }
    const told: Told = { sessionId: yield* session.sessionId, turns }
    return told
  })
