/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName =
  /** The address for other workers. */
  | "listen"
  /** The address for metrics. */
  | "metricsListen"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/worker-link/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
