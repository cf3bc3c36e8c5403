/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName = /** The folder of the service's files. */
  "dataDir"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/machine/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
