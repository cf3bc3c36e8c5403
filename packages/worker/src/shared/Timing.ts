/** How often a worker looks and how long it waits. Configuration; tests drive it with a `TestClock`. */
import { Context, Duration } from "effect"

export interface Timings {
  /** Every loop looks again after this, hint or not. */
  readonly tick: Duration.Duration
  /** Between two `message.updated` of one part (docs/decisions/5). */
  readonly message: Duration.Duration
  /** Between two `usage.updated` (docs/decisions/5). */
  readonly usage: Duration.Duration
  /** How long an agent may take to end a turn it was asked to end, before it is killed (docs/decisions/2.2). */
  readonly interrupt: Duration.Duration
  /** How long an agent may be without a turn before it is stopped, to be resumed with the next one. Below `Policy.idle`. */
  readonly agentIdle: Duration.Duration
  /** Between two comparisons of what this machine holds with the store. */
  readonly reap: Duration.Duration
  /** Between two rounds of forgetting what is no longer to be kept. */
  readonly purge: Duration.Duration
  /** How long a turn that runs when its worker is stopped may take to end, before it is interrupted. */
  readonly drain: Duration.Duration
  /**
   * How long a worker that is stopped then waits for its sessions: until their agents are gone, each has the checkpoint that it owes,
   * which may take 60 s, and that is recorded. Whatever is not through by then stays with its machine.
   */
  readonly shutdown: Duration.Duration
  /** How long attempts at webhooks that are under way then have. Within the 10 s of a server's shutdown. */
  readonly lastAttempts: Duration.Duration
}

export const Timing = Context.Reference<Timings>("@slipway/worker/Timing", {
  defaultValue: () => ({
    tick: Duration.seconds(1),
    message: Duration.millis(250),
    usage: Duration.seconds(5),
    interrupt: Duration.seconds(1),
    agentIdle: Duration.minutes(5),
    reap: Duration.minutes(1),
    purge: Duration.hours(1),
    drain: Duration.seconds(8),
    shutdown: Duration.seconds(75),
    lastAttempts: Duration.seconds(2)
  })
})
