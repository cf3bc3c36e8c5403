/**
 * Starts the runs of automations: of schedules that are due, and those that another process began and did not end. Any number of
 * workers may do it: the store gives each run to one worker, and its sandbox is created once even if several workers try.
 */
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { RUN_RETENTION } from "@slipway/domain/automation/rules/Automation"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import { runsEnded } from "@slipway/domain/automation/usecases/StartRun"
import { Cause, DateTime, Duration, Effect, Layer, Schedule } from "effect"
import { Timing } from "../shared/Timing.ts"

/** Between two looks. A schedule's shortest interval is a minute. */
const LOOK = Duration.seconds(5)
/** Runs of one look. Creations are short transactions, made one after the other. */
const AT_ONCE = 20
const PURGED_AT_ONCE = 1000

/** Logs a failure of one round. What was not done is due the next time. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("running automations failed", cause)),
    Effect.ignoreCause
  )

/** Starts what is due now. */
export const look = Effect.fn("RunAutomations.look")(function*() {
  const { work } = yield* Automations
  while ((yield* work(AT_ONCE)) === AT_ONCE) continue
})

/** Deletes runs older than `RUN_RETENTION`. */
export const purgeLog = Effect.fn("RunAutomations.purgeLog")(function*() {
  const store = yield* AutomationStore
  const before = DateTime.subtractDuration(yield* DateTime.now, RUN_RETENTION)
  while ((yield* store.purge(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) continue
})

/** Runs until the scope closes. */
export const start = Effect.fn("RunAutomations.start")(function*() {
  const { purge } = yield* Timing
  yield* runsEnded.declare
  yield* look().pipe(surviving, Effect.repeat(Schedule.spaced(LOOK)), Effect.forkScoped)
  yield* purgeLog().pipe(surviving, Effect.repeat(Schedule.spaced(purge)), Effect.forkScoped)
})

export const layer = Layer.effectDiscard(start())
