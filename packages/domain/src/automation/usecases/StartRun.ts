/** Starts a run: creates its sandbox as the automation's creator, and records what came of it. Safe to repeat by any process. */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AccessStore } from "../../access/ports/AccessStore.ts"
import type { MemberStore } from "../../access/ports/MemberStore.ts"
import { presentRights } from "../../access/usecases/PresentRights.ts"
import { counters } from "../../observability/Metrics.ts"
import type { CreationRefused } from "../../sandbox/usecases/SandboxCreation.ts"
import type { Sandboxes } from "../../sandbox/usecases/Sandboxes.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { AutomationStore, TakenRun } from "../ports/AutomationStore.ts"
import { creationKey, STARTING_TIME } from "../rules/Automation.ts"
import type { Outcome } from "../schema/Automation.ts"

/** The ports that starting needs. */
export interface Starting {
  readonly store: AutomationStore["Service"]
  readonly sandboxes: Sandboxes["Service"]
  readonly access: AccessStore["Service"]
  readonly members: MemberStore["Service"]
}

/** Runs whose outcome this process recorded. */
export const runsEnded = counters(
  "slipway_automation_runs_total",
  "Runs of automations that this process started, and those that could not start.",
  "outcome",
  ["started", "refused"]
)

type Ended = Exclude<Outcome, { readonly type: "starting" | "skipped" }>

const refused = (code: string, message: string): Ended => ({ type: "refused", code, message })

/** The codes of the API's errors. */
const CODES = {
  ApprovalsUnsupported: "approvals_unsupported",
  BudgetExceeded: "budget_exceeded",
  BudgetTooLarge: "invalid_request",
  ConcurrencyLimitExceeded: "concurrency_limit_exceeded",
  IdempotencyConflict: "idempotency_conflict",
  InvalidModel: "invalid_model",
  InvalidReasoningEffort: "invalid_reasoning_effort",
  InvalidRequest: "invalid_request",
  NoCredits: "no_credits",
  PullRequestNotWritable: "pull_request_not_writable",
  RepoNotAccessible: "repo_not_accessible",
  SandboxDeleted: "sandbox_deleted",
  SourceUnreadable: "unavailable"
} as const satisfies Record<Exclude<CreationRefused["_tag"], "CreationDenied" | "StoreUnavailable">, string>

const refusalOf = (error: Exclude<CreationRefused, StoreUnavailable>): Ended =>
  refused(error._tag === "CreationDenied" ? error.code : CODES[error._tag], error.message)

const create = Effect.fnUntraced(function*(deps: Starting, { automation, id, request }: TakenRun) {
  const { createdBy, grantId, test } = automation
  const by = yield* presentRights(deps, { grantId, userId: createdBy, keyId: "automation", test, work: "automation" })
  if ("code" in by) return refused(by.code, by.message)
  return yield* deps.sandboxes.create(by, request, Option.some(creationKey(id))).pipe(
    Effect.map(({ sandbox }): Ended => ({ type: "started", sandboxId: sandbox.id })),
    Effect.catch((error) => error._tag === "StoreUnavailable" ? Effect.fail(error) : Effect.succeed(refusalOf(error)))
  )
})

/** A bug leaves the run to the next attempt, and ends it when the time for starting is over. */
const orRefuse = (taken: TakenRun) => (cause: Cause.Cause<StoreUnavailable>) =>
  Effect.flatMap(
    DateTime.now,
    (now) =>
      Cause.hasInterrupts(cause) || !Cause.hasDies(cause) || DateTime.isLessThan(now, DateTime.addDuration(taken.at, STARTING_TIME))
        ? Effect.failCause(cause)
        : Effect.as(
          Effect.logError("a run of an automation could not be started", cause),
          refused("internal_error", "The service failed. Its log has the reason.")
        )
  )

/** Returns the outcome. Fails while the stores cannot be asked; then another attempt follows. */
export const startRun = Effect.fn("Automations.startRun")(function*(deps: Starting, taken: TakenRun) {
  const outcome = yield* create(deps, taken).pipe(Effect.catchCause(orRefuse(taken)))
  if (yield* deps.store.record(taken, outcome, yield* DateTime.now)) yield* runsEnded.add(outcome.type)
  return outcome
})
