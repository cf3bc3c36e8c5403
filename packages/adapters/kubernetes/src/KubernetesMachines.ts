/** The state that the operations on machines of Kubernetes share. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { LruCache } from "@slipway/domain/store/LruCache"
import { Effect } from "effect"
import type { KubernetesApi } from "./KubernetesApi.ts"
import * as KubernetesErrorMapping from "./KubernetesErrorMapping.ts"
import * as Labels from "./Labels.ts"
import type { MachineResources, Times } from "./MachineResources.ts"
import type { Options } from "./MachinesKubernetes.ts"
import { CONFIG_MAPS, KubernetesObject } from "./ObjectSchemas.ts"
import type { PodWatch } from "./PodWatch.ts"

export interface KubernetesMachines {
  readonly options: Options
  /** As in `options`. */
  readonly installation: string
  readonly machine: string
  readonly namespace: string
  readonly api: KubernetesApi
  readonly times: Times
  /** Selects the objects of this installation. */
  readonly ours: string
  readonly watch: PodWatch
  readonly resources: MachineResources
  /** Pods whose loss was reported, by uid. */
  readonly told: LruCache<string, true>
}

export const provision = KubernetesErrorMapping.hostError("provision")

export const nameOf = ({ installation }: KubernetesMachines, sandboxId: SandboxId) => Labels.nameOf(installation, sandboxId)

/** The owner of all pods, which are deleted with it. Looked up each time, because a new ConfigMap of the same name has another uid. */
export const owner = ({ namespace, options: { owner: name }, resources }: KubernetesMachines) =>
  Effect.gen(function*() {
    if (name === null) return null
    const found = yield* resources.get("provision", CONFIG_MAPS, name, KubernetesObject)
    if (found !== null) return { apiVersion: CONFIG_MAPS.apiVersion, kind: CONFIG_MAPS.kind, name, uid: found.metadata.uid }
    return yield* new HostError({
      operation: "provision",
      detail: `The ConfigMap ${name}, which stands for this installation, is not in the namespace ${namespace}. ` +
        `Make it: kubectl --namespace ${namespace} create configmap ${name}`,
      retryable: false
    })
  })
