/** A virtual clock, and a scheduler that knows whether something is left to run before time passes. */
import { type Context, Duration, Effect, Layer, ManagedRuntime, Scheduler } from "effect"
import { TestClock } from "effect/testing"

/** Turns of the event loop without a task until everything counts as settled: promises may take a few to wake a fiber. */
const QUIET_TURNS = 4

/** Time passes in steps of this, or in this many steps if those are longer. Promises of agents are waited for between steps. */
const STEP_MILLIS = 1000
const MAX_STEPS = 600

/** Counts the tasks that have not run yet. */
class CountingScheduler implements Scheduler.Scheduler {
  pending = 0
  readonly #scheduler = new Scheduler.MixedScheduler()

  get executionMode() {
    return this.#scheduler.executionMode
  }

  shouldYield(fiber: Parameters<Scheduler.Scheduler["shouldYield"]>[0]): boolean {
    return this.#scheduler.shouldYield(fiber)
  }

  makeDispatcher(): Scheduler.SchedulerDispatcher {
    const dispatcher = this.#scheduler.makeDispatcher()
    return {
      scheduleTask: (task, priority) => {
        this.pending++
        dispatcher.scheduleTask(() => {
          this.pending--
          task()
        }, priority)
      },
      flush: () => dispatcher.flush()
    }
  }
}

/** The time of a test. */
export interface VirtualTime {
  /** The clock and the scheduler. Everything that runs on others is not waited for. */
  readonly context: Context.Context<never>
  /** Epoch milliseconds. */
  now(): number
  /** Until nothing more happens without the passing of time. */
  settle(): Promise<void>
  /** Passes time in steps, each with everything that becomes due then. */
  advance(duration: Duration.Input): Promise<void>
}

/** Time that begins then; epoch milliseconds. */
export const make = async (start: number): Promise<VirtualTime> => {
  const scheduler = new CountingScheduler()
  const clock = ManagedRuntime.make(TestClock.layer().pipe(Layer.provide(Layer.succeed(Scheduler.Scheduler, scheduler))))
  const context = await clock.context()
  await clock.runPromise(TestClock.setTime(start))

  const quiet = Effect.gen(function*() {
    for (let turns = 0; turns < QUIET_TURNS; turns = scheduler.pending === 0 ? turns + 1 : 0) yield* Effect.yieldNow
  })
  // On a scheduler of its own, which is not counted.
  const settle = () => Effect.runPromise(quiet, { scheduler: new Scheduler.MixedScheduler() })

  return {
    context,
    now: () => clock.runSync(TestClock.testClockWith((clock) => Effect.succeed(clock.currentTimeMillisUnsafe()))),
    settle,
    advance: async (duration) => {
      await settle()
      const millis = Duration.toMillis(Duration.fromInputUnsafe(duration))
      const step = Math.max(STEP_MILLIS, millis / MAX_STEPS)
      for (let left = millis; left > 0; left -= step) {
        await clock.runPromise(TestClock.adjust(Math.min(step, left)))
        await settle()
      }
    }
  }
}
