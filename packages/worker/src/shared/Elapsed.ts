/** Time that passes, by a clock that nobody sets: an hour of it is an hour whatever the machine's clock says meanwhile. */
import { Clock, Effect } from "effect"

/** Milliseconds since some moment of this process's life. */
export const elapsedMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
