/** Time limits of sandboxes. The ranges exclude values that would end work in progress. */
import { Effect } from "effect"
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
    about: "How long a sandbox is kept in which no turn runs. It costs nothing but its files meanwhile.",
    role: "all"
  }),
  lifetime: Setting.withDefault({
    name: "SLIPWAY_LIFETIME_DAYS",
    type: Type.days(1, 365),
    default: "30",
    about: "How long a sandbox lives from its creation, whatever it does.",
    role: "all"
  }),
  turn: Setting.withDefault({
    name: "SLIPWAY_TURN_MINUTES",
    type: Type.minutes(1, 1440),
    default: "120",
    about: "How long a turn may take from when the agent takes the prompt.",
    role: "all"
  }),
  lost: Setting.withDefault({
    name: "SLIPWAY_MACHINE_LOST_SECONDS",
    type: Type.seconds(1, 86_400),
    default: "300",
    about: "How long a machine that went away without a word may take to come back for its sandboxes, once their leases have ended; " +
      "then other workers go on from their checkpoints. Also how long an agent that ended may take to start again.",
    role: "all"
  })
}

/** With the names of `Policy`. */
export const load = Effect.map(Setting.values(settings), (lifetimes) => ({ lifetimes }))
