/**
 * Counts the changes that this process committed: sandboxes, boots, turns, approvals, publications, checkpoints, feedback. A commit whose
 * answer was lost is not counted.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { counters } from "../../observability/Metrics.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import type { Recorded } from "../ports/SandboxStore.ts"
import { publicationOf, type Sandbox } from "../rules/Sandbox.ts"
import type { SandboxEvent } from "../rules/SandboxEvent.ts"
import { transitions } from "../rules/Transition.ts"
import { ApprovalOutcome, FeedbackKind, RestoreCause, StatusReason } from "../schema/SandboxEvent.ts"
import { TurnOutcome } from "../schema/Turn.ts"

const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

const created = counter("slipway_sandboxes_created_total", "Sandboxes created through this process.")
const started = counter("slipway_boots_started_total", "Boots that this process began.")
const failed = counters(
  "slipway_sandboxes_failed_total",
  "Sandboxes that this process recorded as failed, by reason. boot_failed, boot_timeout, clone_failed and repo_not_accessible end a boot.",
  "reason",
  StatusReason.literals.filter((reason) => transitions[reason].to === "failed")
)
/** From half a second, the time of the offline agent, to the default limit of a boot. */
const durations = Metric.histogram("slipway_boot_duration_seconds", {
  description: "How long boots took that went through.",
  boundaries: [0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600]
})
const turns = counters(
  "slipway_turns_ended_total",
  "Turns whose end this process recorded, by how they ended.",
  "state",
  TurnOutcome.literals
)
const approvals = counters(
  "slipway_approvals_resolved_total",
  "Approvals that this process recorded as resolved, by outcome.",
  "outcome",
  ApprovalOutcome.literals
)
/** `invalid_request` means that there was nothing to publish. */
const outcomes: Readonly<Record<string, string>> = { invalid_request: "nothing_to_publish" }
const publications = counters(
  "slipway_publications_total",
  "Publications whose end this process recorded: published, or why not.",
  "outcome",
  ["published", "nothing_to_publish", "repo_not_accessible", "agent_disconnected", "source_host_error", "unavailable",
    "sandbox_not_running"]
)

const checkpoints = counters(
  "slipway_checkpoints_total",
  "Checkpoints that this process recorded: taken, or that they could not be.",
  "outcome",
  ["taken", "failed"]
)
const checkpointBytes = Metric.histogram("slipway_checkpoint_bytes", {
  description: "What is stored of a checkpoint.",
  boundaries: [4, 6, 8, 10, 12, 14, 16, 18].map((power) => 2 ** (power + 10))
})
/** Up to the longest duration of a checkpoint (docs/decisions/16). */
const checkpointDurations = Metric.histogram("slipway_checkpoint_duration_seconds", {
  description: "How long checkpoints took that were taken.",
  boundaries: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60]
})
const restores = counters(
  "slipway_restores_total",
  "Sandboxes that this process restored from a checkpoint, by cause.",
  "cause",
  RestoreCause.literals
)

const feedback = counters(
  "slipway_feedback_total",
  "Feedback on pull requests that this process passed on to sandboxes, by kind, and pauses after the last round.",
  "what",
  [...FeedbackKind.literals, "paused"]
)

/** Shows every series as 0. */
export const declare: Effect.Effect<void> = Effect.all([
  Metric.value(created),
  Metric.value(started),
  Metric.value(durations),
  failed.declare,
  turns.declare,
  approvals.declare,
  publications.declare,
  checkpoints.declare,
  Metric.value(checkpointBytes),
  Metric.value(checkpointDurations),
  restores.declare,
  feedback.declare
], { discard: true })

const countEvent = (before: Sandbox, event: SandboxEvent): Effect.Effect<void> => {
  switch (event.type) {
    case "sandbox.status": {
      const { reason, status } = event.data
      return status === "creating" ? Metric.update(started, 1) : status === "failed" ? failed.add(reason ?? "") : Effect.void
    }
    case "sandbox.boot":
      return event.data.stage === "ready" ? Metric.update(durations, event.data.ms / 1000) : Effect.void
    case "turn.completed":
      return turns.add(event.data.state)
    case "approval.resolved":
      return approvals.add(event.data.outcome)
    case "pull_request.updated": {
      const { action_state, error, repo } = event.data
      const isEnd = (action_state === "idle" || action_state === "failed") && isUnderWay(publicationOf(before, repo))
      return isEnd ? publications.add(error === undefined ? "published" : outcomes[error.code] ?? error.code) : Effect.void
    }
    case "sandbox.checkpoint": {
      const { bytes = 0, checkpoint, ms = 0 } = event.data
      return checkpoint === undefined ? checkpoints.add("failed") : Effect.all([
        checkpoints.add("taken"),
        Metric.update(checkpointBytes, bytes),
        Metric.update(checkpointDurations, ms / 1000)
      ], { discard: true })
    }
    case "sandbox.restored":
      return event.data.checkpoint === undefined ? Effect.void : restores.add(event.data.cause)
    case "feedback.received":
      return feedback.add(event.data.kind)
    case "feedback.paused":
      return feedback.add("paused")
    default:
      return Effect.void
  }
}

/** Counts recorded changes. Tap it into every write of a store. */
export const count = ({ before, events }: Recorded): Effect.Effect<void> =>
  Effect.forEach(events, (event) => countEvent(before, event), { discard: true })

/** Counts a creation, unless it is a replay. */
export const countCreation = ({ replayed }: { readonly replayed: boolean }): Effect.Effect<void> =>
  replayed ? Effect.void : Metric.update(created, 1)
