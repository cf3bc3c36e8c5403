/** `Machines` as pods of a Kubernetes cluster, each with the runner as its first process. Experimental: no cluster has run it yet. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Machines } from "@slipway/runner/machines/Machines"
import { Clock, Effect, Layer } from "effect"
import type * as Cluster from "./Cluster.ts"
import * as KubernetesApi from "./KubernetesApi.ts"
import * as KubernetesErrorMapping from "./KubernetesErrorMapping.ts"
import { type KubernetesMachines, nameOf } from "./KubernetesMachines.ts"
import * as Labels from "./Labels.ts"
import { losses } from "./LostMachines.ts"
import type * as MachinePod from "./MachinePod.ts"
import * as MachineResources from "./MachineResources.ts"
import * as ObjectList from "./ObjectList.ts"
import { KubernetesObject, PODS } from "./ObjectSchemas.ts"
import { ensure } from "./OrderMachine.ts"
import * as PodWatch from "./PodWatch.ts"

export interface Options extends MachinePod.Template {
  readonly cluster: Cluster.Cluster
  /**
   * A ConfigMap in the namespace that owns all machines: when it is deleted, Kubernetes deletes them. `null`: no owner. A worker's pod
   * must not be the owner, since sandboxes outlive it.
   */
  readonly owner: string | null
  readonly times?: Partial<MachineResources.Times>
  readonly timeLimits?: Partial<KubernetesApi.TimeLimits>
}

/** Machines whose loss is remembered as reported. */
const MOST_TOLD = 4096

/** Younger machines are not removed: the sandbox may not be stored yet, and a worker that starts makes a machine for its probe. */
const YOUNG_MILLIS = 600_000

const remove = Effect.fn("Machines.remove")(function*(state: KubernetesMachines, sandboxId: SandboxId) {
  const { installation, machine, resources } = state
  const pod = yield* resources.podOf("stop", nameOf(state, sandboxId))
  // Another worker's pod, which has the sandbox by now, or an unknown pod of that name.
  if (pod === null || Labels.marksOf(pod)?.machine !== machine || pod.metadata.labels?.[Labels.INSTALLATION] !== installation) return
  yield* resources.end("stop", pod)
})

/** Pods of machines by a selector on the label of the worker's machine. */
const machinesBy = ({ api, namespace, ours }: KubernetesMachines, selector: string) =>
  ObjectList.all(api, PODS, namespace, `${ours},${selector}`, KubernetesObject).pipe(
    Effect.map(({ items }) =>
      items.flatMap((pod) => {
        const marks = Labels.marksOf(pod)
        return marks === null ? [] : [{ pod, sandboxId: marks.sandboxId }]
      })
    ),
    Effect.mapError(KubernetesErrorMapping.hostError("list"))
  )

const list = (state: KubernetesMachines) =>
  machinesBy(state, `${Labels.MACHINE}=${state.machine}`).pipe(
    Effect.map((found) => [...new Set(found.map(({ sandboxId }) => sandboxId))]),
    Effect.withSpan("Machines.list")
  )

const removeAbandoned = Effect.fn("Machines.removeAbandoned")(function*<E>(
  state: KubernetesMachines,
  unneeded: (sandboxIds: ReadonlyArray<SandboxId>) => Effect.Effect<ReadonlyArray<SandboxId>, E>
) {
  const young = (yield* Clock.currentTimeMillis) - YOUNG_MILLIS
  const isYoung = ({ metadata: { creationTimestamp = "" } }: KubernetesObject) => !(Date.parse(creationTimestamp) < young)
  const others = yield* machinesBy(state, `${Labels.MACHINE}!=${state.machine}`)
  const candidates = others.filter(({ pod }) => !isYoung(pod))
  if (candidates.length === 0) return []
  const abandoned = new Set(yield* unneeded([...new Set(candidates.map(({ sandboxId }) => sandboxId))]))
  for (const { pod, sandboxId } of candidates) {
    if (abandoned.has(sandboxId)) yield* state.resources.dismiss("stop", pod)
  }
  return [...abandoned]
})

export const make = Effect.fnUntraced(function*(options: Options) {
  const { installation, machine, namespace } = options
  const times: MachineResources.Times = { ...MachineResources.TIMES, ...options.times }
  const api = yield* KubernetesApi.make(options.cluster, options.timeLimits)
  const ours = `${Labels.INSTALLATION}=${installation}`
  const watch = yield* PodWatch.make(api, namespace, `${ours},${Labels.MACHINE}=${machine}`)
  const resources = MachineResources.make(api, { namespace, times }, watch)
  const state: KubernetesMachines = {
    options,
    installation,
    machine,
    namespace,
    api,
    times,
    ours,
    watch,
    resources,
    told: new LruCache(MOST_TOLD)
  }
  return Machines.of({
    isolation: "kubernetes",
    programs: Effect.succeed(options.image),
    ensure: (order) => ensure(state, order),
    remove: (sandboxId) => remove(state, sandboxId),
    list: list(state),
    losses: losses(state),
    removeAbandoned: (unneeded) => removeAbandoned(state, unneeded)
  })
})

export const layer = (options: Options): Layer.Layer<Machines> => Layer.effect(Machines, make(options))
