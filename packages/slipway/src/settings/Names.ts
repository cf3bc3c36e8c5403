/** The names of the adapters' options in messages: the settings that set them. */
import * as DockerOptions from "@slipway/docker/options/OptionNames"
import * as EmbeddedPostgresOptions from "@slipway/embedded-postgres/options/OptionNames"
import * as GatewayOptions from "@slipway/gateway/options/OptionNames"
import * as GitOptions from "@slipway/git/options/OptionNames"
import * as KubernetesOptions from "@slipway/kubernetes/options/OptionNames"
import * as MachineOptions from "@slipway/machine/options/OptionNames"
import * as PostgresOptions from "@slipway/postgres/options/OptionNames"
import * as WorkerLinkOptions from "@slipway/worker-link/options/OptionNames"
import * as Layer from "effect/Layer"
import * as Clones from "./Clones.ts"
import * as Isolation from "./Isolation.ts"
import * as Kubernetes from "./Kubernetes.ts"
import * as Models from "./Models.ts"
import * as Processes from "./Processes.ts"
import type { Setting } from "./Setting.ts"
import * as Storage from "./Storage.ts"

type OptionName =
  | DockerOptions.OptionName
  | EmbeddedPostgresOptions.OptionName
  | GatewayOptions.OptionName
  | GitOptions.OptionName
  | KubernetesOptions.OptionName
  | MachineOptions.OptionName
  | PostgresOptions.OptionName
  | WorkerLinkOptions.OptionName

const settings: Readonly<Record<OptionName, Setting<unknown>>> = {
  account: Storage.settings.postgresAccount,
  dataDir: Storage.settings.dataDir,
  databaseSchema: Storage.settings.databaseSchema,
  databaseUrl: Storage.settings.databaseUrl,
  secretsKeyCommand: Storage.settings.secretsKeyCommand,
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
  maximumCheckoutFiles: Clones.settings.checkoutBytes,
  listen: Processes.settings.workerAddress,
  metricsListen: Processes.settings.metricsAddress
}

const nameOf = (option: OptionName): string => settings[option].name

/** For messages of adapters. */
export const layer = Layer.mergeAll(
  Layer.succeed(DockerOptions.OptionNames, nameOf),
  Layer.succeed(EmbeddedPostgresOptions.OptionNames, nameOf),
  Layer.succeed(GatewayOptions.OptionNames, nameOf),
  Layer.succeed(GitOptions.OptionNames, nameOf),
  Layer.succeed(KubernetesOptions.OptionNames, nameOf),
  Layer.succeed(MachineOptions.OptionNames, nameOf),
  Layer.succeed(PostgresOptions.OptionNames, nameOf),
  Layer.succeed(WorkerLinkOptions.OptionNames, nameOf)
)
