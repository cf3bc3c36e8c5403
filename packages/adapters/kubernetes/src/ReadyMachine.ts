/** Waits until the machine of a sandbox is ready: its pod runs, and where it waited in a pool, has been adopted. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Adopting from "@slipway/runner/client/Adopting"
import { type Order, settingsOf } from "@slipway/runner/machines/Machines"
import type { Address } from "@slipway/runner/wire/RunnerSettings"
import { Clock, Duration, Effect } from "effect"
import * as Holders from "./Holders.ts"
import * as KubernetesApi from "./KubernetesApi.ts"
import { type KubernetesMachines, provision } from "./KubernetesMachines.ts"
import * as MachinePod from "./MachinePod.ts"
import { CLAIMS, Held, pathOf, type Pod, PODS, SANDBOXES } from "./Objects.ts"
import * as PodTrouble from "./PodTrouble.ts"

/** Of what is not watched: how soon it is looked at again first. Each time it takes half as long again. */
const FIRST_LOOK_MILLIS = 50

interface Look {
  readonly isGone: boolean
  /** `null`: there is none yet. */
  readonly pod: Pod | null
  /** What is in the way of a claim, as its controller says it. */
  readonly trouble?: string | undefined
}

const lookAtClaim = Effect.fnUntraced(
  function*({ holders, pool }: KubernetesMachines, { name, uid }: Held["metadata"]): Effect.fn.Return<Look, HostError> {
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
  }
)

const lookAt = Effect.fnUntraced(function*(state: KubernetesMachines, { held, kind }: Holders.Holder): Effect.fn.Return<Look, HostError> {
  const { holders } = state
  if (kind === CLAIMS) return yield* lookAtClaim(state, held.metadata)
  const { name, uid } = held.metadata
  const found = yield* holders.podOf("provision", name)
  if (kind === PODS && found?.metadata.uid !== uid) return { isGone: true, pod: null }
  // What a controller has not replaced yet is an earlier one's.
  const pod = found !== null && (kind === PODS || Holders.isOwnedBy(found, uid)) ? found : null
  return { isGone: pod?.metadata.deletionTimestamp !== undefined, pod }
})

/** Tells a pod whose it is, that waited for it in a pool. One that was told is found to be. */
const adopt = Effect.fnUntraced(function*({ api, namespace, options, pool }: KubernetesMachines, pod: Pod, host: string, order: Order) {
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
export const ready = Effect.fnUntraced(
  function*(state: KubernetesMachines, holder: Holders.Holder, order: Order): Effect.fn.Return<Address | null, HostError> {
    const { holders, namespace, times, watch } = state
    const { held: { metadata: { name, uid } }, kind } = holder
    const deadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(times.start)
    const fail = (detail: string, retryable: boolean, ofSandbox = false) =>
      Effect.fail(new HostError({ operation: "provision", detail, retryable, ...(ofSandbox ? { ofSandbox } : {}) }))
    const mostMillis = Duration.toMillis(times.look)
    let waitMillis = FIRST_LOOK_MILLIS
    for (;;) {
      const count = watch.count(name)
      const { isGone, pod, trouble: refusal } = yield* lookAt(state, holder)
      if (isGone) return null
      const host = pod?.status?.podIP
      const isLate = (yield* Clock.currentTimeMillis) >= deadline
      const isRunning = pod?.status?.containerStatuses?.[0]?.state?.running !== undefined
      let refused: string | undefined
      if (pod !== null && host !== undefined && (PodTrouble.isReady(pod) || isLate && isRunning)) {
        if (kind !== CLAIMS) return { host, port: MachinePod.PORT }
        const met = yield* Effect.catchTag(adopt(state, pod, host, order), "NotAdopted", ({ detail }) => {
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
  }
)
