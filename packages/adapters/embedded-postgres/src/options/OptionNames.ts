/**
 * The names of this package's options in messages for the operator: a service that reads its options from environment variables names
 * those. Each name reads well after "with".
 */
import * as Context from "effect/Context"

export type OptionName =
  /** The system user that runs the server. */
  | "account"
  /** The address of a Postgres to use instead. */
  | "databaseUrl"
  | "dataDir"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/embedded-postgres/options/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
