/** What recordings of agents show: the same few sessions of each. They are run to record, and again to replay. */
import { type AgentEvent, AgentRuntime, type AgentSessionOptions, type TurnEnd } from "@slipway/domain/sandbox/AgentRuntime"
import { Effect } from "effect"

export interface Scenario {
  readonly name: string
  readonly options?: Partial<AgentSessionOptions>
  /** Prompt of a process before the recorded one, which then goes on with its session. */
  readonly before?: string
  readonly prompts: ReadonlyArray<string>
  readonly decision?: "approve" | "deny"
  /** The event at which the first prompt is interrupted. */
  readonly interruptAt?: (event: AgentEvent) => boolean
}

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
    for (const [i, text] of scenario.prompts.entries()) {
      const events: Array<AgentEvent> = []
      let interrupted = false
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
            return event._tag === "ApprovalRequested" && scenario.decision !== undefined
              ? session.decide(event.approvalId, scenario.decision)
              : Effect.void
          })
      })
      turns.push({ end, events })
    }
    const told: Told = { sessionId: yield* session.sessionId, turns }
    return told
  })
