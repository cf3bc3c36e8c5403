/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName =
  | "fetchTime"
  | "maximumFetchBytes"
  | "maximumCheckoutBytes"
  | "maximumCheckoutFiles"
  /** The disk of one sandbox. */
  | "diskBytes"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/git/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
