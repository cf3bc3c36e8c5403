/** Runs prompts of a session over a fake process, for tests of one driver. */
import type { AgentEvent, AgentSession, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { assertWellFormed } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Effect } from "effect"
import { box } from "./FakeProcess.ts"

export const options: AgentSessionOptions = {
  box,
  profile: "fake",
  model: "m",
  access: null,
  instructions: null,
  reasoningEffort: null,
  toolApprovalMode: "prompt",
  repositories: [],
  resume: null
}

export const converse = (
  session: AgentSession,
  react: (event: AgentEvent) => Effect.Effect<void> = () => Effect.void,
  turnId = "turn"
) =>
  Effect.gen(function*() {
    const events: Array<AgentEvent> = []
    const outcome = yield* Effect.result(session.prompt({
      turnId,
      text: "go",
      onEvent: (event) => Effect.suspend(() => (events.push(event), react(event)))
    }))
    assertWellFormed(events)
    return { events, outcome }
  })

export const approving = (session: AgentSession, decision: "approve" | "deny" = "approve", reason?: string) => (event: AgentEvent) =>
  event._tag === "ApprovalRequested" ? session.decide(event.approvalId, decision, reason) : Effect.void

export const texts = (events: ReadonlyArray<AgentEvent>) => events.flatMap((event) => event._tag === "MessageUpdated" ? event.text : [])
