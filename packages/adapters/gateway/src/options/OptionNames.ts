/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName = /** Addresses that requests to models may name. */
  "addresses"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/gateway/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
