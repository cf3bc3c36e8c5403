/** The time limits of a sandbox's life. A setting; the defaults are those of docs/decisions/2.1, 2.2, 3 and 5. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/** The longest duration of each state of a sandbox. */
export interface Limits {
  /** Waiting for a worker. */
  readonly queue: Duration.Duration
  /** From the first worker's lease until the agent is ready. */
  readonly boot: Duration.Duration
  /** Running without an active turn or a pending approval. Such a sandbox costs nothing (docs/decisions/15), so the limit may be long. */
  readonly idle: Duration.Duration
  /**
   * How long a lost machine keeps its sandboxes before other machines may take them (docs/decisions/15), and how long an agent or a box
   * may fail to restart.
   */
  readonly lost: Duration.Duration
  /** From creation until termination, whatever the sandbox does. */
  readonly lifetime: Duration.Duration
  /** How long the host may fail to confirm that no data is left. */
  readonly release: Duration.Duration
  /** From the start of a turn until it fails. */
  readonly turn: Duration.Duration
  /** From the request of an approval until it expires and counts as denied. A change does not move approvals that are pending. */
  readonly approval: Duration.Duration
  /** How long the events of an ended sandbox are stored. */
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
