/**
 * What whoever composes the adapters calls their options, for messages that tell an operator which one to change: a service that
 * reads them from its environment names its variables. Every name can stand behind "with".
 */
import * as Context from "effect/Context"

export type OptionName =
  /** Of the embedded Postgres. */
  | "account"
  | "dataDir"
  | "databaseUrl"
  | "secretsKeyFile"
  /** Of Docker. */
  | "image"
  | "images"
  | "socket"
  /** Of a box. */
  | "diskBytes"
  /** Of Kubernetes. */
  | "kubeconfig"
  /** Of the model gateway. */
  | "addresses"
  /** Of clones. */
  | "fetchTime"
  | "maximumFetchBytes"
  | "maximumCheckoutBytes"
  | "maximumCheckoutFiles"
  /** Of the link between workers. */
  | "listen"
  /** Of a worker's metrics. */
  | "metricsListen"

export const OptionNames = Context.Reference<(option: OptionName) => string>("@slipway/adapters/OptionNames", {
  defaultValue: () => (option) => `the option ${option}`
})
