/**
 * One time for all processes: the store's. Every process measures the time that passes with a clock that nobody sets and learns
 * from the store what time that is, so a wrong or a stepping clock of its machine ends nothing too early or too late.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { Maintenance } from "../ports/Maintenance.ts"

/** How far the clock of this process's machine is from the store's now, in milliseconds; above 0: it is ahead. */
export const ClockSkew = Context.Reference<Effect.Effect<number>>("@slipway/domain/ClockSkew", {
  defaultValue: () => Effect.succeed(0)
})

/** A machine whose clock is off by more is not trusted: it says so, is not ready, and enforces nothing. */
const MAX_SKEW = Duration.seconds(30)

/** Between two looks at the store's clock. Also how long a process may be behind after its machine slept. */
const INTERVAL = Duration.seconds(5)

/** What the skew comes to, for people; `null`: it is within bounds. */
export const skewProblem = (millis: number): string | null =>
  Math.abs(millis) <= Duration.toMillis(MAX_SKEW)
    ? null
    : `The clock of this machine is ${Math.round(Math.abs(millis) / 1000)} seconds ${millis > 0 ? "ahead of" : "behind"} the database's.`

/**
 * The clock of the process from here on: it is never ahead of the store's, and behind it by no more than the fastest answer
 * took. Building it waits for the store's first answer.
 */
export const layer: Layer.Layer<never, never, Maintenance> = Layer.effectContext(Effect.gen(function*() {
  const maintenance = yield* Maintenance
  const own = yield* Clock.Clock
  const elapsed = () => Number(own.monotonicTimeNanosUnsafe() / 1_000_000n)
  /** What is to be added to the time that passed. */
  let offset = Number.NEGATIVE_INFINITY
  const skew = Effect.sync(() => own.currentTimeMillisUnsafe() - elapsed() - offset)

  /** The answer was true at some moment between question and receipt: what is known by now is kept as far as that allows. */
  const look = Effect.gen(function*() {
    const asked = elapsed()
    const { epochMilliseconds } = yield* maintenance.now
    const [least, most] = [epochMilliseconds - elapsed(), epochMilliseconds - asked + 1]
    offset = Math.min(Math.max(offset, least), most)
  })

  let told: string | null = null
  const tell = Effect.gen(function*() {
    const problem = skewProblem(yield* skew)
    if (problem === null && told !== null) yield* Effect.logInfo("the clock of this machine is right again")
    if (problem !== null && told === null) yield* Effect.logWarning(`${problem} Until it is set, this process enforces no time limits.`)
    told = problem
  })

  yield* Effect.orDie(Effect.retry(look, Schedule.spaced("1 second")))
  yield* tell
  yield* Effect.ignore(look).pipe(Effect.andThen(tell), Effect.delay(INTERVAL), Effect.forever, Effect.forkScoped)

  const millis = () => elapsed() + offset
  const nanos = () => own.monotonicTimeNanosUnsafe() + BigInt(offset) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => own.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: own.monotonicTimeNanos,
    sleep: (duration) => own.sleep(duration)
  }
  return Context.make(Clock.Clock, clock).pipe(Context.add(ClockSkew, skew))
}))
