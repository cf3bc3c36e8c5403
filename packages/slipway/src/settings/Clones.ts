/** Clones of repositories and their limits. */
import { Duration, Effect } from "effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  depth: Setting.optional({
    name: "SLIPWAY_CLONE_DEPTH",
    type: Type.integer(1, 1_000_000),
    about: "Commits of history that clones have. Without it, all.",
    role: "worker"
  }),
  time: Setting.withDefault({
    name: "SLIPWAY_CLONE_MINUTES",
    type: Type.minutes(1, 1440),
    default: "9",
    about: "How long one download of a repository may take. A boot may take ten minutes, or one more than this.",
    role: "all"
  }),
  bytes: Setting.withDefault({
    name: "SLIPWAY_CLONE_MIB",
    type: Type.mebibytes(1, 100_000_000),
    default: "10240",
    about: "What one download of a repository may have.",
    role: "worker"
  }),
  unused: Setting.withDefault({
    name: "SLIPWAY_CLONE_UNUSED_DAYS",
    type: Type.days(0, 36_500),
    default: "30",
    about: "After how long a clone is removed that no sandbox has or asks for; 0 keeps all.",
    role: "worker"
  }),
  checkoutBytes: Setting.withDefault({
    name: "SLIPWAY_CHECKOUT_MIB",
    type: Type.mebibytes(1, 100_000_000),
    default: "5120",
    about: "What the files of the commit that a sandbox starts from may have together.",
    role: "worker"
  }),
  checkoutFiles: Setting.withDefault({
    name: "SLIPWAY_CHECKOUT_FILES",
    type: Type.integer(1, 10_000_000),
    default: "500000",
    about: "How many files the commit that a sandbox starts from may have.",
    role: "worker"
  })
}

/** `unused` is `null` if clones are never removed. */
export const load = Effect.map(
  Setting.values(settings),
  ({ unused, ...loaded }) => ({ ...loaded, unused: Duration.isZero(unused) ? null : unused })
)
