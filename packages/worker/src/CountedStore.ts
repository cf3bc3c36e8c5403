/**
 * The store of sandboxes, with a count of what this process commits: boots, turns, approvals, publications. What a lost
 * answer hides was committed and is not counted.
 */
import { counters } from "@slipway/domain/Metrics"
import { isUnderWay, publicationOf } from "@slipway/domain/publishing/Publication"
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { ApprovalOutcome, type SandboxEvent, StatusReason } from "@slipway/domain/sandbox/SandboxEvent"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { transitions } from "@slipway/domain/sandbox/Transition"
import { TurnOutcome } from "@slipway/domain/sandbox/Turn"
import { Effect, Layer, Metric, Result } from "effect"

const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

const created = counter("slipway_sandboxes_created_total", "Sandboxes created through this process.")
const started = counter("slipway_boots_started_total", "Boots that this process began.")
const failed = counters(
  "slipway_sandboxes_failed_total",
  "Sandboxes that this process recorded as failed, by reason. boot_failed, boot_timeout, clone_failed and repo_not_accessible end a boot.",
  "reason",
  StatusReason.literals.filter((reason) => transitions[reason].to === "failed")
)
/** From half a second, as the offline agent takes, to the longest that a boot may take unless it is configured. */
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
/** `invalid_request` is told when there was nothing to publish. */
const outcomes: Readonly<Record<string, string>> = { invalid_request: "nothing_to_publish" }
const publications = counters(
  "slipway_publications_total",
  "Publications whose end this process recorded: published, or why not.",
  "outcome",
  ["published", "nothing_to_publish", "repo_not_accessible", "agent_disconnected", "source_host_error", "unavailable",
    "sandbox_not_running"]
)
const purged = counter("slipway_event_logs_purged_total", "Sandboxes whose events this process forgot because their time was over.")

const declare = Effect.all([
  Metric.value(created),
  Metric.value(started),
  Metric.value(durations),
  Metric.value(purged),
  failed.declare,
  turns.declare,
  approvals.declare,
  publications.declare
], { discard: true })

const count = (before: Sandbox, event: SandboxEvent): Effect.Effect<void> => {
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
    default:
      return Effect.void
  }
}

/** Decided on a sandbox as it was. */
interface Decided {
  readonly before: Sandbox
  readonly events: ReadonlyArray<SandboxEvent>
}
const countAll = (decided: Decided | null) =>
  decided === null ? Effect.void : Effect.forEach(decided.events, (event) => count(decided.before, event), { discard: true })

/** In front of the store beneath it. */
export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const store = yield* SandboxStore
    yield* declare
    return SandboxStore.of({
      ...store,
      create: (...creation) => Effect.tap(store.create(...creation), ({ replayed }) => replayed ? Effect.void : Metric.update(created, 1)),
      command: (key, command, now, keyed) =>
        Effect.suspend(() => {
          let decided: Decided | null = null
          const watched: typeof command = {
            ...command,
            decide: (current) =>
              Result.map(command.decide(current), (verdict) => {
                decided = verdict.outcome === "applied" ? { before: current.sandbox, events: verdict.events } : null
                return verdict
              })
          }
          return Effect.tap(store.command(key, watched, now, keyed), () => countAll(decided))
        }),
      change: (id, by, decide, now, opened) =>
        Effect.suspend(() => {
          let decided: Decided | null = null
          const watched = (before: Sandbox) =>
            Result.map(decide(before), (events) => {
              decided = { before, events }
              return events
            })
          return Effect.tap(store.change(id, by, watched, now, opened), () => countAll(decided))
        }),
      purgeEvents: (endedBefore, limit) => Effect.tap(store.purgeEvents(endedBefore, limit), (found) => Metric.update(purged, found))
    })
  })
)
