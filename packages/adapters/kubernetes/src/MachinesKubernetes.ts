/** `Machines` as pods of a Kubernetes cluster, each with the runner as its first process. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Adopting from "@slipway/runner/client/Adopting"
import { type Loss, Machines, type Order, settingsOf } from "@slipway/runner/machines/Machines"
import type { Address } from "@slipway/runner/wire/RunnerSettings"
import { Clock, Duration, Effect, Layer, Result, Stream } from "effect"
import type * as Cluster from "./Cluster.ts"
import * as Holders from "./Holders.ts"
import * as KubernetesApi from "./KubernetesApi.ts"
import * as Labels from "./Labels.ts"
import * as Lists from "./Lists.ts"
import * as MachinePod from "./MachinePod.ts"
import { CLAIMS, CONFIG_MAPS, Held, type Kind, listPath, pathOf, type Pod, PODS, SANDBOXES, SECRETS } from "./Objects.ts"
import * as PodTrouble from "./PodTrouble.ts"
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

/** A younger one may be of a sandbox that nobody knows yet, or of none: a worker that starts looks at a machine of its own. */
const YOUNG_MILLIS = 600_000

/** How often an order begins anew because what it found went away under it. */
const MOST_TRIES = 8

/** Of what is not watched: how soon it is looked at again first. Each time it takes half as long again. */
const FIRST_LOOK_MILLIS = 50

/** How many machines that were lost are remembered as told. */
const MOST_TOLD = 4096

const lossOf = (pod: Pod, isGone: boolean): Pick<Loss, "detail" | "ofSandbox"> | null => {
  const ended = PodTrouble.endOf(pod)
  if (ended !== null) return { detail: ended.detail, ofSandbox: ended.ofSandbox === true }
  if (!isGone && pod.metadata.deletionTimestamp === undefined) return null
  const disruption = pod.status?.conditions?.find(({ status, type }) => type === "DisruptionTarget" && status === "True")
  const why = disruption === undefined ? "Somebody deleted it." : `Kubernetes says: ${disruption.reason ?? ""} ${disruption.message ?? ""}`
  return { detail: `The machine is being deleted. ${KubernetesApi.words(why)}`, ofSandbox: false }
}

export const make = Effect.fnUntraced(function*(options: Options) {
  const { installation, machine, mode, namespace, warmPods } = options
  const times: Holders.Times = { ...Holders.TIMES, ...options.times }
  const api = yield* KubernetesApi.make(options.cluster, options.timeLimits)
  const ours = `${Labels.INSTALLATION}=${installation}`
  const watch = yield* PodWatch.make(api, namespace, `${ours},${Labels.MACHINE}=${machine}`)
  const holders = Holders.make(api, { namespace, mode, times, isPooled: warmPods > 0 }, watch)
  const nameOf = (sandboxId: SandboxId) => Labels.nameOf(installation, sandboxId)
  const provision = Refusal.hostError("provision")

  /** Of whom the holder is; dies with it. Asked for anew each time: one that was deleted and made again is another. */
  const owner = Effect.gen(function*() {
    const { owner: name } = options
    if (name === null) return null
    const found = yield* holders.get("provision", CONFIG_MAPS, name, Held)
    if (found !== null) return { apiVersion: CONFIG_MAPS.apiVersion, kind: CONFIG_MAPS.kind, name, uid: found.metadata.uid }
    return yield* new HostError({
      operation: "provision",
      detail: `The ConfigMap ${name}, which stands for this installation, is not in the namespace ${namespace}. ` +
        `Make it: kubectl --namespace ${namespace} create configmap ${name}`,
      retryable: false
    })
  })

  const pool = WarmPool.make(api, holders, { template: options, pods: warmPods, owner })

  /** `false`: one is there already. */
  const create = Effect.fnUntraced(function*(kind: Kind, order: Order) {
    const body = MachinePod.holder(kind, options, order, yield* owner)
    return yield* api.call({ method: "POST", path: listPath(kind, namespace), body }).pipe(
      Effect.asVoid,
      Effect.as(true),
      Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
      Effect.mapError(provision)
    )
  })

  /** After its owner, so that it never is without: a pod waits for its volumes. */
  const deliver = Effect.fnUntraced(function*(order: Order, { held, kind }: Holders.Holder) {
    const { name, uid } = held.metadata
    const secret = MachinePod.secretNameOf(options, order)
    const body = MachinePod.secret(options, order, { apiVersion: kind.apiVersion, kind: kind.kind, name, uid })
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const made = yield* api.call({ method: "POST", path: listPath(SECRETS, namespace), body }).pipe(
        Effect.as(true),
        Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
        Effect.mapError(provision)
      )
      if (made) return
      const found = yield* holders.get("provision", SECRETS, secret, Held)
      if (found === null) continue
      const { deletionTimestamp, ownerReferences = [] } = found.metadata
      if (deletionTimestamp === undefined && ownerReferences.some((reference) => reference.uid === uid)) return
      // Of a pod that is gone: Kubernetes would delete it when it comes to it.
      yield* holders.removeSecret(found)
    }
    return yield* new HostError({ operation: "provision", detail: `The Secret ${secret} keeps coming back.`, retryable: true })
  })

  /** Refuses what is not ours to use or to end. */
  const check = (operation: HostError["operation"], { held }: Holders.Holder, fence: number) => {
    const marks = Labels.marksOf(held)
    const { name } = held.metadata
    if (marks === null || held.metadata.labels?.[Labels.INSTALLATION] !== installation) {
      const detail = `There is an object ${name} in the namespace ${namespace} that is not of this installation. Delete or rename it.`
      return Effect.fail(new HostError({ operation, detail, retryable: false }))
    }
    return marks.fence > fence
      ? Effect.fail(new HostError({ operation, detail: "A later lease has a machine of this sandbox.", retryable: false }))
      : Effect.succeed(marks)
  }

  /** Whoever looks, and `removeAbandoned`, see how old the use of a machine is. */
  const mark = ({ held, kind }: Holders.Holder, fence: number) => {
    const labels = { [Labels.FENCE]: String(fence) }
    const body = {
      metadata: { labels },
      ...(kind === SANDBOXES ? { spec: { podTemplate: { metadata: { labels } } } } : {})
    }
    return Effect.mapError(
      api.call({ method: "PATCH", path: pathOf(kind, namespace, held.metadata.name), body }),
      provision
    )
  }

  const isUsable = Effect.fnUntraced(function*({ held, kind }: Holders.Holder, order: Order) {
    const { annotations, deletionTimestamp } = held.metadata
    if (deletionTimestamp !== undefined) return false
    if (annotations?.[Labels.CERTIFICATE] !== Labels.digestOf(order.identity.certificate)) return false
    // A pod without its `Sandbox`, which Kubernetes is about to delete.
    if (kind === PODS && Holders.isControlled(held)) return false
    const pod = yield* holders.podOfHolder("provision", { held, kind })
    return pod === null || PodTrouble.endOf(pod) === null
  })

  /** What a claim that is gone had, until Kubernetes deletes it. It is called as the claim was where no pod was waiting. */
  const isLeftOver = ({ held, kind }: Holders.Holder) =>
    kind === SANDBOXES && Holders.isClaimed(held) ||
    kind === PODS && Holders.isControlled(held) && held.metadata.labels?.[Labels.INSTALLATION] === installation &&
      Labels.marksOf(held) === null

  interface Look {
    readonly isGone: boolean
    /** `null`: there is none yet. */
    readonly pod: Pod | null
    /** What is in the way of a claim, as its controller says it. */
    readonly trouble?: string | undefined
  }

  const lookAtClaim = Effect.fnUntraced(function*({ name, uid }: Held["metadata"]): Effect.fn.Return<Look, HostError> {
    const claim = yield* holders.claimOf("provision", name)
    if (claim === null || claim.metadata.uid !== uid || claim.metadata.deletionTimestamp !== undefined) return { isGone: true, pod: null }
    const condition = claim.status?.conditions?.find(({ status, type }) => type === "Ready" && status === "False")
    if (condition?.reason === "WarmPoolNotFound" || condition?.reason === "TemplateNotFound") pool.forget()
    const trouble = condition === undefined ? undefined : `${condition.reason ?? ""}: ${condition.message ?? ""}`
    const box = claim.status?.sandbox?.name ?? ""
    if (box === "") return { isGone: false, pod: null, trouble }
    const sandbox = yield* holders.get("provision", SANDBOXES, box, Held)
    const pod = sandbox !== null && Holders.isOwnedBy(sandbox, uid) ? yield* holders.podOf("provision", box) : null
    // Of one that is being deleted the controller makes another.
    const isIts = pod !== null && sandbox !== null && Holders.isOwnedBy(pod, sandbox.metadata.uid) &&
      pod.metadata.deletionTimestamp === undefined
    return { isGone: false, pod: isIts ? pod : null, trouble }
  })

  const lookAt = Effect.fnUntraced(function*({ held, kind }: Holders.Holder): Effect.fn.Return<Look, HostError> {
    if (kind === CLAIMS) return yield* lookAtClaim(held.metadata)
    const { name, uid } = held.metadata
    const found = yield* holders.podOf("provision", name)
    if (kind === PODS && found?.metadata.uid !== uid) return { isGone: true, pod: null }
    // What a controller has not replaced yet is an earlier one's.
    const pod = found !== null && (kind === PODS || Holders.isOwnedBy(found, uid)) ? found : null
    return { isGone: pod?.metadata.deletionTimestamp !== undefined, pod }
  })

  /** Tells a pod whose it is, that waited for it in a pool. One that was told is found to be. */
  const adopt = Effect.fnUntraced(function*(pod: Pod, host: string, order: Order) {
    const labels = MachinePod.labelsOf(options, order)
    if (Object.entries(labels).some(([name, value]) => pod.metadata.labels?.[name] !== value)) {
      // Of that pod alone: by now another may have its name.
      const body = { metadata: { uid: pod.metadata.uid, labels } }
      yield* api.call({ method: "PATCH", path: pathOf(PODS, namespace, pod.metadata.name), body }).pipe(
        Effect.mapError((failed) =>
          failed.status === 404 || failed.status === 409 ? new Adopting.NotAdopted({ detail: "its pod went away" }) : provision(failed)
        )
      )
    }
    const keys = yield* pool.keys
    return yield* Adopting.adopt({
      address: { host, port: MachinePod.PORT },
      pool: keys,
      adoption: { machine: pod.metadata.uid, fence: order.fence, settings: settingsOf(order) }
    })
  })

  /** `null`: the machine went away. */
  const ready = Effect.fnUntraced(function*(holder: Holders.Holder, order: Order): Effect.fn.Return<Address | null, HostError> {
    const { held: { metadata: { name, uid } }, kind } = holder
    const deadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(times.start)
    const fail = (detail: string, retryable: boolean, ofSandbox = false) =>
      Effect.fail(new HostError({ operation: "provision", detail, retryable, ...(ofSandbox ? { ofSandbox } : {}) }))
    const mostMillis = Duration.toMillis(times.look)
    let waitMillis = FIRST_LOOK_MILLIS
    for (;;) {
      const count = watch.count(name)
      const { isGone, pod, trouble: refusal } = yield* lookAt(holder)
      if (isGone) return null
      const host = pod?.status?.podIP
      const isLate = (yield* Clock.currentTimeMillis) >= deadline
      const isRunning = pod?.status?.containerStatuses?.[0]?.state?.running !== undefined
      let refused: string | undefined
      if (pod !== null && host !== undefined && (PodTrouble.isReady(pod) || isLate && isRunning)) {
        if (kind !== CLAIMS) return { host, port: MachinePod.PORT }
        const met = yield* Effect.catchTag(adopt(pod, host, order), "NotAdopted", ({ detail }) => {
          refused = detail
          return Effect.succeed("none" as const)
        })
        if (met === "adopted" || met === "ours") return { host, port: MachinePod.PORT }
        if (met === "another") {
          // Somebody else's by now, or of keys that the pool has no more.
          yield* holders.end("provision", holder)
          return null
        }
      }
      const trouble = pod === null ? null : PodTrouble.of(pod)
      if (trouble?.isFinal === true) {
        // With the settings of tomorrow it is made anew.
        yield* Effect.ignore(holders.dismiss("provision", holder))
        return yield* fail(trouble.detail, trouble.retryable, trouble.ofSandbox)
      }
      if (isLate) {
        if (refused !== undefined) return yield* fail(`The machine is there, but ${refused}.`, true)
        if (trouble !== null) return yield* fail(trouble.detail, trouble.retryable)
        const said = refusal ?? (yield* holders.warning(pod?.metadata.uid ?? uid))
        const warning = KubernetesApi.words(said)
        return yield* fail(
          `The machine did not start within ${Duration.toSeconds(times.start)} seconds.` +
            (warning === ""
              ? ` See: kubectl --namespace ${namespace} describe ${kind === CLAIMS ? "sandboxclaim" : "pod"} ${name}`
              : ` Kubernetes says: ${warning}`),
          true
        )
      }
      if (kind === CLAIMS) {
        yield* Effect.sleep(Math.min(waitMillis, mostMillis))
        waitMillis *= 1.5
      } else yield* holders.pause(name, count)
    }
  })

  const ensure = Effect.fn("Machines.ensure")(function*(order: Order) {
    const name = nameOf(order.sandboxId)
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const kind = yield* holders.kindOfNew
      const found = yield* holders.find("provision", name)
      if (found === null) {
        if (kind === CLAIMS) yield* pool.keys
        yield* create(kind, order)
        continue
      }
      if (isLeftOver(found)) {
        yield* holders.end("provision", found)
        continue
      }
      const marks = yield* check("provision", found, order.fence)
      if (!(yield* isUsable(found, order))) {
        yield* holders.end("provision", found)
        continue
      }
      if (marks.fence < order.fence) yield* mark(found, order.fence)
      if (found.kind !== CLAIMS) yield* deliver(order, found)
      const address = yield* ready(found, order)
      if (address !== null) return address
    }
    return yield* new HostError({
      operation: "provision",
      detail: `The machine ${name} goes away again and again. See: kubectl --namespace ${namespace} get events`,
      retryable: true
    })
  })

  const remove = Effect.fn("Machines.remove")(function*(sandboxId: SandboxId) {
    const found = yield* holders.find("stop", nameOf(sandboxId))
    if (found === null) return
    const marks = Labels.marksOf(found.held)
    // Another's, which has the sandbox by now, or nobody's that we know.
    if (marks?.machine !== machine || found.held.metadata.labels?.[Labels.INSTALLATION] !== installation) return
    yield* holders.end("stop", found)
  })

  const list = Effect.gen(function*() {
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

  const removeAbandoned: Machines["Service"]["removeAbandoned"] = Effect.fn("Machines.removeAbandoned")(function*(unneeded) {
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

  const told = new Set<string>()
  const losses: Machines["Service"]["losses"] = watch.changes.pipe(
    Stream.filterMap(({ isGone, pod }) => {
      const marks = Labels.marksOf(pod)
      const loss = lossOf(pod, isGone)
      const { uid } = pod.metadata
      if (marks === null || loss === null || told.has(uid) || holders.hasLeft(pod)) return Result.failVoid
      told.add(uid)
      for (const oldest of told) {
        if (told.size <= MOST_TOLD) break
        told.delete(oldest)
      }
      return Result.succeed({ sandboxId: marks.sandboxId, ...loss })
    })
  )

  // Pods that are there before the first sandbox are what it is for.
  if (warmPods > 0) {
    yield* Effect.andThen(holders.kindOfNew, pool.keys).pipe(
      Effect.catch(({ detail }) => Effect.logWarning(`no pods wait for sandboxes: ${detail}`)),
      Effect.forkScoped
    )
  } else if (mode !== "pods") yield* Effect.forkScoped(Effect.ignore(pool.retire))

  return Machines.of({ isolation: "kubernetes", programs: Effect.succeed(options.image), ensure, remove, list, losses, removeAbandoned })
})

export const layer = (options: Options): Layer.Layer<Machines> => Layer.effect(Machines, make(options))
