/** The cluster that machines of sandboxes are made in, and what they are made of there, as the settings say. */
import * as Cluster from "@slipway/kubernetes/Cluster"
import { RUNNER } from "@slipway/kubernetes/MachinePod"
import * as KubernetesProbe from "@slipway/kubernetes/Probe"
import { defaults } from "@slipway/machine/host/Limits"
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { Effect } from "effect"
import { settings as known } from "../../settings/Kubernetes.ts"
import type { Settings } from "../../settings/Settings.ts"

export const HELP = "See what slipway doctor says of Kubernetes, and docs/operating/machines.md."

/** All but what names this worker's. */
export const find = Effect.fnUntraced(function*({ kubernetes, limits }: Pick<Settings, "kubernetes" | "limits">) {
  const { context, image, kubeconfig, mode, owner, runtimeClass, userNamespaces, warmPods, ...template } = kubernetes
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (image === null) {
    return yield* refuse(`${known.image.name} is not set.`, "Set it to the service's own image, as the cluster pulls it.")
  }
  if (!userNamespaces && runtimeClass === null) {
    return yield* refuse(
      "The root of a machine would be root of its node.",
      `Set ${known.runtimeClass.name} to one that gives each its own kernel, or leave ${known.userNamespaces.name} true.`
    )
  }
  const cluster = yield* Cluster.find({
    ...(kubeconfig === null ? {} : { kubeconfig }),
    ...(context === null ? {} : { context })
  })
  const options = {
    ...template,
    image,
    runtimeClass,
    userNamespaces,
    mode,
    owner,
    warmPods,
    runner: RUNNER,
    limits: { ...defaults, ...limits }
  }
  return { cluster, options }
})

/** What the cluster gives them. Never fails: what is missing is a finding. */
export const examine = (settings: Pick<Settings, "kubernetes" | "limits">): Effect.Effect<ReadonlyArray<KubernetesProbe.Finding>> =>
  find(settings).pipe(
    Effect.flatMap(({ cluster, options: { mode, owner, warmPods, ...template } }) =>
      KubernetesProbe.examine({ cluster, mode, owner, warmPods, template: { ...template, machine: "none" } })
    ),
    Effect.catchTag(
      "NotIsolated",
      ({ message }) => Effect.succeed<ReadonlyArray<KubernetesProbe.Finding>>([{ what: "Kubernetes", state: "missing", detail: message }])
    ),
    Effect.scoped
  )
