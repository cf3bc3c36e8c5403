/** The cluster and the template of machines, by the settings. */
import * as Cluster from "@slipway/kubernetes/Cluster"
import { RUNNER } from "@slipway/kubernetes/MachinePod"
import * as PodTemplate from "@slipway/kubernetes/PodTemplate"
import * as KubernetesProbe from "@slipway/kubernetes/Probe"
import { defaults } from "@slipway/machine/host/Limits"
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { Effect } from "effect"
import { settings as known } from "../../settings/Kubernetes.ts"
import type { Settings } from "../../settings/Settings.ts"

export const HELP = "See what slipway doctor says of Kubernetes, and docs/operating/machines.md."

/** Tells machines of this service from others in the namespace, where no owner names it. */
const DEFAULT_INSTALLATION = "slipway"

/** Everything but the worker's own name. */
export const find = Effect.fnUntraced(function*({ kubernetes, limits }: Pick<Settings, "kubernetes" | "limits">) {
  const { image, kubeconfig, namespace, owner, podTemplate: file, userNamespaces } = kubernetes
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (image === null) {
    return yield* refuse(`${known.image.name} is not set.`, "Set it to the service's own image, as the cluster pulls it.")
  }
  const podTemplate = file === null ? PodTemplate.EMPTY : yield* PodTemplate.read(file)
  if (!userNamespaces && podTemplate.spec.runtimeClassName === undefined) {
    return yield* refuse(
      "The root of a machine would be root of its node.",
      `Give ${known.podTemplate.name} a spec.runtimeClassName with its own kernel, or leave ${known.userNamespaces.name} true.`
    )
  }
  const cluster = yield* Cluster.find(kubeconfig === null ? {} : { kubeconfig })
  const options = {
    namespace,
    installation: owner ?? DEFAULT_INSTALLATION,
    image,
    podTemplate,
    userNamespaces,
    owner,
    runner: RUNNER,
    limits: { ...defaults, ...limits }
  }
  return { cluster, options }
})

/** Checks the cluster. Never fails: a missing part is a finding. */
export const examine = (settings: Pick<Settings, "kubernetes" | "limits">): Effect.Effect<ReadonlyArray<KubernetesProbe.Finding>> =>
  find(settings).pipe(
    Effect.flatMap(({ cluster, options: { owner, ...template } }) =>
      KubernetesProbe.examine({ cluster, owner, template: { ...template, machine: "none" } })
    ),
    Effect.catchTag(
      "NotIsolated",
      ({ message }) => Effect.succeed<ReadonlyArray<KubernetesProbe.Finding>>([{ what: "Kubernetes", state: "missing", detail: message }])
    ),
    Effect.scoped
  )
