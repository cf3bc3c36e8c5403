/** Clones of repositories and their limits. */
import * as AllowList from "@slipway/machine/egress/AllowList"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  depth: Setting.optional({
    name: "SLIPWAY_CLONE_DEPTH",
    type: Type.integer(1, 1_000_000),
    about: "Commits of history in clones. Without it, all.",
    role: "worker"
  }),
  time: Setting.withDefault({
    name: "SLIPWAY_CLONE_MINUTES",
    type: Type.minutes(1, 1440),
    default: "9",
    about: "Time limit of one download of a repository. A boot has ten minutes, or one more than this.",
    role: "all"
  }),
  bytes: Setting.withDefault({
    name: "SLIPWAY_CLONE_MIB",
    type: Type.mebibytes(1, 100_000_000),
    default: "10240",
    about: "Size limit of one download of a repository.",
    role: "worker"
  }),
  checkoutBytes: Setting.withDefault({
    name: "SLIPWAY_CHECKOUT_MIB",
    type: Type.mebibytes(1, 100_000_000),
    default: "5120",
    about: "Size limit of the files of a sandbox's start commit. There may be 500,000 files, and proportionally more if this is " +
      "raised.",
    role: "worker"
  }),
  lfsPrivate: Setting.optional({
    name: "SLIPWAY_LFS_PRIVATE",
    type: Type.parsed(
      "names with ports between commas, such as objects.internal:9000",
      (value) => Result.isSuccess(AllowList.parse(value))
    ),
    about: "Destinations of Git LFS contents, beside the source host, that may use http or have private addresses, such as " +
      "objects.internal:9000. Without it, they need https and public addresses.",
    role: "worker"
  })
}

const DEFAULT_CHECKOUT_BYTES = 5120 * 2 ** 20

/** `checkoutFiles`: 500,000, or more in proportion to a raised limit of bytes. */
export const load = Effect.map(Setting.values(settings), ({ lfsPrivate, ...loaded }) => ({
  ...loaded,
  lfsPrivate: Result.getOrElse(AllowList.parse(lfsPrivate ?? ""), (): AllowList.AllowList => new Set()),
  checkoutFiles: Math.ceil(500_000 * Math.max(1, loaded.checkoutBytes / DEFAULT_CHECKOUT_BYTES))
}))
