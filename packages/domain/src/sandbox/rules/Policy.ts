/** The time limits of a sandbox's life. Configuration; the defaults are those of docs/decisions/2.1, 2.2, 3 and 5. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/** How long each state of a sandbox may last. */
export interface Limits {
  /** Waiting for a worker. */
  readonly queue: Duration.Duration
  /** From the first worker's lease until the agent is ready. */
  readonly boot: Duration.Duration
  /** Running without an active turn or a pending approval. It costs nothing meanwhile (docs/decisions/15), so it may be long. */
  readonly idle: Duration.Duration
  /**
   * How long a lost machine keeps its sandboxes to itself before other machines may take them (docs/decisions/15), and how long an agent or
   * a box may fail to start again.
   */
  readonly lost: Duration.Duration
  /** From creation until it is terminated, whatever it does. */
  readonly lifetime: Duration.Duration
  /** How long the host may refuse to confirm that nothing is left. */
  readonly release: Duration.Duration
  /** From the agent's taking a prompt until the turn fails. */
  readonly turn: Duration.Duration
  /** A pending approval counts as denied from then on. */
  readonly approval: Duration.Duration
  /** How long the events of a sandbox are kept after its end. */
  readonly retention: Duration.Duration
}

/** The limits in force. */
export const Policy = Context.Reference<Limits>("@slipway/domain/Policy", {
  defaultValue: () => ({
    queue: Duration.hours(24),
    boot: Duration.minutes(10),
    idle: Duration.hours(24),
    lost: Duration.minutes(5),
    lifetime: Duration.days(30),
    release: Duration.minutes(10),
    turn: Duration.hours(2),
    approval: Duration.minutes(30),
    retention: Duration.days(30)
  })
})
