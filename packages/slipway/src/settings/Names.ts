/** What the adapters' options are called here: by the settings that say them. */
import { type OptionName, OptionNames } from "@slipway/adapters/options/OptionNames"
import { Layer } from "effect"
import * as Clones from "./Clones.ts"
import * as Isolation from "./Isolation.ts"
import * as Kubernetes from "./Kubernetes.ts"
import * as Models from "./Models.ts"
import * as Processes from "./Processes.ts"
import type { Setting } from "./Setting.ts"
import * as Storage from "./Storage.ts"

const settings: Readonly<Record<OptionName, Setting<unknown>>> = {
  account: Storage.settings.postgresAccount,
  dataDir: Storage.settings.dataDir,
  databaseUrl: Storage.settings.databaseUrl,
  secretsKeyFile: Storage.settings.secretsKeyFile,
  image: Isolation.settings.dockerImage,
  images: Isolation.settings.dockerImages,
  socket: Isolation.settings.dockerSocket,
  kubeconfig: Kubernetes.settings.kubeconfig,
  diskBytes: Isolation.limits.diskBytes,
  addresses: Models.settings.modelAddresses,
  fetchTime: Clones.settings.time,
  maximumFetchBytes: Clones.settings.bytes,
  maximumCheckoutBytes: Clones.settings.checkoutBytes,
  maximumCheckoutFiles: Clones.settings.checkoutFiles,
  listen: Processes.settings.workerAddress,
  metricsListen: Processes.settings.metricsAddress
}

/** For messages of adapters. */
export const layer = Layer.succeed(OptionNames, (option) => settings[option].name)
