/** Elapsed time by the monotonic clock, which does not change when the machine's clock is set. */
import { Clock, Effect } from "effect"

/** Milliseconds since some moment of this process's life. */
export const elapsedMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
