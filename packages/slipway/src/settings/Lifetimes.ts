/** Time limits of sandboxes. The ranges exclude values that would end work in progress. */
import { RETENTION_BOUNDS } from "@slipway/domain/access/rules/Retention"
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  queue: Setting.withDefault({
    name: "SLIPWAY_QUEUE_HOURS",
    type: Type.hours(1, 720),
    default: "24",
    about: "How long a sandbox waits for a worker before it fails.",
    role: "all"
  }),
  idle: Setting.withDefault({
    name: "SLIPWAY_IDLE_HOURS",
    type: Type.hours(1, 720),
    default: "24",
    about: "How long a sandbox without a turn is kept. It costs only its files.",
    role: "all"
  }),
  lifetime: Setting.withDefault({
    name: "SLIPWAY_LIFETIME_DAYS",
    type: Type.days(1, 365),
    default: "30",
    about: "Lifetime of a sandbox from its creation.",
    role: "all"
  }),
  turn: Setting.withDefault({
    name: "SLIPWAY_TURN_MINUTES",
    type: Type.minutes(1, 1440),
    default: "120",
    about: "Time limit of a turn, from when the agent takes the prompt.",
    role: "all"
  }),
  retention: Setting.withDefault({
    name: "SLIPWAY_RETENTION_DAYS",
    type: Type.days(RETENTION_BOUNDS.least, RETENTION_BOUNDS.most),
    default: "30",
    about:
      "How long events, setup output and checkpoints of ended sandboxes are kept. A grant may have its own: `slipway grants retention`.",
    role: "all"
  }),
  lost: Setting.withDefault({
    name: "SLIPWAY_MACHINE_LOST_SECONDS",
    type: Type.seconds(1, 86_400),
    default: "300",
    about: "How long a lost machine may take to come back for its sandboxes after their leases; then other workers continue from " +
      "their checkpoints. Also how long an ended agent may take to start again.",
    role: "all"
  })
}

/** With the names of `Policy`. */
export const load = Effect.map(Setting.values(settings), (lifetimes) => ({ lifetimes }))
