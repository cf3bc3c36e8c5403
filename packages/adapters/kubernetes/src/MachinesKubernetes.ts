/** `Machines` as pods of a Kubernetes cluster, each with the runner as its first process. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Machines } from "@slipway/runner/machines/Machines"
import { Clock, Effect, Layer } from "effect"
import type * as Cluster from "./Cluster.ts"
import * as Holders from "./Holders.ts"
import * as KubernetesApi from "./KubernetesApi.ts"
import { type KubernetesMachines, nameOf, owner } from "./KubernetesMachines.ts"
import * as Labels from "./Labels.ts"
import * as Lists from "./Lists.ts"
import { losses } from "./LostMachines.ts"
import type * as MachinePod from "./MachinePod.ts"
import { Held, PODS } from "./Objects.ts"
import { ensure } from "./OrderMachine.ts"
import * as PodWatch from "./PodWatch.ts"
import * as Refusal from "./Refusal.ts"
import * as WarmPool from "./WarmPool.ts"

export interface Options extends MachinePod.Template {
  readonly cluster: Cluster.Cluster
  readonly mode: Holders.Mode
  /**
   * A ConfigMap in the namespace that stands for the installation: with it, Kubernetes deletes all machines. `null`: nothing does. A
   * worker's pod must not be one, since sandboxes outlive it.
   */
  readonly owner: string | null
  /** How many pods wait for sandboxes in a pool of agent-sandbox. 0: each is made when its sandbox boots. */
  readonly warmPods: number
  readonly times?: Partial<Holders.Times>
  readonly timeLimits?: Partial<KubernetesApi.TimeLimits>
}

/** Machines whose loss is remembered as reported. */
const MOST_TOLD = 4096

/** A younger one may be of a sandbox that nobody knows yet, or of none: a worker that starts looks at a machine of its own. */
const YOUNG_MILLIS = 600_000

const remove = Effect.fn("Machines.remove")(function*(state: KubernetesMachines, sandboxId: SandboxId) {
  const { installation, machine, holders } = state
  const found = yield* holders.find("stop", nameOf(state, sandboxId))
  if (found === null) return
  const marks = Labels.marksOf(found.held)
  // Another's, which has the sandbox by now, or nobody's that we know.
  if (marks?.machine !== machine || found.held.metadata.labels?.[Labels.INSTALLATION] !== installation) return
  yield* holders.end("stop", found)
})

const list = ({ api, machine, namespace, ours, holders }: KubernetesMachines) =>
  Effect.gen(function*() {
    const found = new Set<SandboxId>()
    for (const kind of yield* holders.kinds("list")) {
      const selector = `${ours},${Labels.MACHINE}=${machine}`
      const { items } = yield* Effect.mapError(Lists.all(api, kind, namespace, selector, Held), Refusal.hostError("list"))
      for (const held of items) {
        const marks = Labels.marksOf(held)
        if (marks !== null) found.add(marks.sandboxId)
      }
    }
    return [...found]
  }).pipe(Effect.withSpan("Machines.list"))

const removeAbandoned = Effect.fn("Machines.removeAbandoned")(function*<E>(
  { api, holders, machine, namespace, ours }: KubernetesMachines,
  unneeded: (sandboxIds: ReadonlyArray<SandboxId>) => Effect.Effect<ReadonlyArray<SandboxId>, E>
) {
  const young = (yield* Clock.currentTimeMillis) - YOUNG_MILLIS
  const isYoung = ({ metadata: { creationTimestamp = "" } }: Held) => !(Date.parse(creationTimestamp) < young)
  const candidates: Array<Holders.Holder & { readonly marks: Labels.Marks }> = []
  for (const kind of yield* holders.kinds("list")) {
    const selector = `${ours},${Labels.MACHINE}!=${machine}`
    const { items } = yield* Effect.mapError(Lists.all(api, kind, namespace, selector, Held), Refusal.hostError("list"))
    for (const held of items) {
      const marks = Labels.marksOf(held)
      if (marks !== null && !isYoung(held) && !(kind === PODS && Holders.isControlled(held))) candidates.push({ kind, held, marks })
    }
  }
  if (candidates.length === 0) return []
  const abandoned = new Set(yield* unneeded([...new Set(candidates.map(({ marks }) => marks.sandboxId))]))
  for (const { held, kind, marks } of candidates) {
    if (abandoned.has(marks.sandboxId)) yield* holders.dismiss("stop", { kind, held })
  }
  return [...abandoned]
})

const stateOf = Effect.fnUntraced(function*(options: Options) {
  const { installation, machine, mode, namespace, warmPods } = options
  const times: Holders.Times = { ...Holders.TIMES, ...options.times }
  const api = yield* KubernetesApi.make(options.cluster, options.timeLimits)
  const ours = `${Labels.INSTALLATION}=${installation}`
  const watch = yield* PodWatch.make(api, namespace, `${ours},${Labels.MACHINE}=${machine}`)
  const holders = Holders.make(api, { namespace, mode, times, isPooled: warmPods > 0 }, watch)
  const pool = WarmPool.make(api, holders, { template: options, pods: warmPods, owner: owner({ holders, namespace, options }) })
  const state: KubernetesMachines = {
    options,
    installation,
    machine,
    namespace,
    api,
    times,
    ours,
    watch,
    holders,
    pool,
    told: new LruCache(MOST_TOLD)
  }
  return state
})

export const make = Effect.fnUntraced(function*(options: Options) {
  const { mode, warmPods } = options
  const state = yield* stateOf(options)
  const { holders, pool } = state
  // Pods that are there before the first sandbox are what it is for.
  if (warmPods > 0) {
    yield* Effect.andThen(holders.kindOfNew, pool.keys).pipe(
      Effect.catch(({ detail }) => Effect.logWarning(`no pods wait for sandboxes: ${detail}`)),
      Effect.forkScoped
    )
  } else if (mode !== "pods") yield* Effect.forkScoped(Effect.ignore(pool.retire))

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
