/** The time limits of a sandbox (docs/decisions/2.1, 2.2 and 3) and their consequences. */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import { isUnderWay } from "../../source/rules/PullState.ts"
import * as Instant from "../../time/Instant.ts"
import type { Limits } from "./Policy.ts"
import { questionsOf } from "./Question.ts"
import { evolveAll, type Sandbox } from "./Sandbox.ts"
import type { SandboxEvent } from "./SandboxEvent.ts"
import { closeQuestion, endTurn, type IllegalTransition, live, moveTo, resolveApprovals } from "./Transition.ts"
import { isActive } from "./Turn.ts"

/** The end of a limit that began at `start`. */
export const after = (start: DateTime.Utc, limit: Duration.Duration) => Instant.addDuration(start, limit)

/** The most time for the setups of a sandbox's repositories together, and the most that a boot is extended for all runs of them. */
export const MAX_SETUP = Duration.hours(1)

/** The deadline of a boot. The time of setups does not count; a running setup may use all of its limit. */
export const bootDeadline = ({ setupTime, statusAt }: Pick<Sandbox, "setupTime" | "statusAt">, { boot }: Limits): DateTime.Utc => {
  const setupMs = setupTime === null ? 0 : setupTime.spentMs + (setupTime.run?.limitMs ?? 0)
  return after(statusAt, Duration.sum(boot, Duration.min(Duration.millis(setupMs), MAX_SETUP)))
}

interface Deadline {
  readonly at: DateTime.Utc
  readonly expire: (sandbox: Sandbox) => Result.Result<Array<SandboxEvent>, IllegalTransition>
}

/** The limits of the present state, in the order in which they are applied. */
const deadlines = (sandbox: Sandbox, limits: Limits): ReadonlyArray<Deadline> => {
  const found: Array<Deadline> = []
  const { createdAt, idleSince, status, statusAt, turn } = sandbox
  if (live.includes(status)) {
    found.push({ at: after(createdAt, limits.lifetime), expire: (s) => moveTo(s, "max_lifetime") })
  }
  if (status === "queued") found.push({ at: after(createdAt, limits.queue), expire: (s) => moveTo(s, "queue_timeout") })
  if (status === "creating") found.push({ at: bootDeadline(sandbox, limits), expire: (s) => moveTo(s, "boot_timeout") })
  if (status === "terminating") {
    found.push({ at: after(statusAt, limits.release), expire: (s) => moveTo(s, "release_failed") })
  }
  if (status !== "running") return found
  for (const approval of sandbox.approvals) {
    found.push({
      at: approval.expires_at,
      expire: (s) => Result.succeed(resolveApprovals(s, [{ approval_id: approval.approval_id, outcome: "denied", by: "timeout" }]))
    })
  }
  for (const { expires_at: at, question_id } of questionsOf(sandbox)) {
    found.push({ at, expire: (s) => Result.succeed(closeQuestion(s, { question_id, by: "timeout" })) })
  }
  if (isActive(turn)) {
    if (turn.startedAt !== null) {
      found.push({
        at: after(turn.startedAt, limits.turn),
        expire: (s) => Result.succeed(endTurn(s, "failed", { reason: "turn_timeout", initiator: "policy" }))
      })
    }
  } else if (!sandbox.publications.some(isUnderWay)) {
    found.push({
      at: after(idleSince ?? statusAt, limits.idle),
      expire: (s) => moveTo(s, turn?.state === "failed" ? "last_turn_failed" : "idle_timeout")
    })
  }
  return found
}

/**
 * When `Expire` has something to do next; `null`: never, unless the sandbox changes. A store that keeps the result recomputes it for
 * every sandbox when `limits` change.
 */
export const nextDeadline = (sandbox: Sandbox, limits: Limits): DateTime.Utc | null =>
  deadlines(sandbox, limits).reduce<DateTime.Utc | null>(
    (first, { at }) => first === null ? at : Instant.min(first, at),
    null
  )

/** Applies every expired limit. */
export const expire = (
  sandbox: Sandbox,
  limits: Limits,
  now: DateTime.Utc
): Result.Result<ReadonlyArray<SandboxEvent>, IllegalTransition> => {
  const events: Array<SandboxEvent> = []
  let current = sandbox
  // One limit may end what another would have ended: compute again after each.
  for (;;) {
    const due = deadlines(current, limits).find(({ at }) => Instant.isLessThanOrEqualTo(at, now))
    if (due === undefined) return Result.succeed(events)
    const decided = due.expire(current)
    if (Result.isFailure(decided)) return Result.fail(decided.failure)
    events.push(...decided.success)
    current = evolveAll(current, decided.success, now)
  }
}
