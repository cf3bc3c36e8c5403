/**
 * One clock for all processes: the store's. Every process measures time with a monotonic clock and reads the offset from the store. So
 * a wrong or adjusted clock of its machine ends nothing too early or too late.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { Maintenance } from "../ports/Maintenance.ts"

/** How far the clock of this process's machine is ahead of the store's, in milliseconds; negative: behind. */
export const ClockSkew = Context.Reference<Effect.Effect<number>>("@slipway/domain/ClockSkew", {
  defaultValue: () => Effect.succeed(0)
})

/** A machine with a larger skew is not trusted: it reports the problem, is not ready, and enforces no limits. */
const MAX_SKEW = Duration.seconds(30)

/** The interval of reading the store's clock, and the longest lag of a process after its machine slept. */
const INTERVAL = Duration.seconds(5)

/** The sentence for people about the skew; `null`: it is within the limit. */
export const skewProblem = (millis: number): string | null =>
  Math.abs(millis) <= Duration.toMillis(MAX_SKEW)
    ? null
    : `The clock of this machine is ${Math.round(Math.abs(millis) / 1000)} seconds ${millis > 0 ? "ahead of" : "behind"} the database's.`

/**
 * The clock of the process from here on. It is never ahead of the store's, and behind it by at most the duration of the fastest answer.
 * Building it waits for the store's first answer.
 */
export const layer: Layer.Layer<never, never, Maintenance> = Layer.effectContext(Effect.gen(function*() {
  const maintenance = yield* Maintenance
  const own = yield* Clock.Clock
  const elapsed = () => Number(own.monotonicTimeNanosUnsafe() / 1_000_000n)
  /** The offset between the monotonic clock and the store's. */
  let offset = Number.NEGATIVE_INFINITY
  const skew = Effect.sync(() => own.currentTimeMillisUnsafe() - elapsed() - offset)

  /** The answer was true at some time between question and answer, so the known offset is kept as far as that allows. */
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
