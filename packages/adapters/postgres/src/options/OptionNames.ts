/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName = "databaseSchema" | "databaseUrl" | "secretsKeyCommand" | "secretsKeyFile"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/postgres/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
