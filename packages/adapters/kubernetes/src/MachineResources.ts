/** Reads and ends the pods and the Secrets of machines. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Duration, Effect, Option, Schema } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import * as KubernetesErrorMapping from "./KubernetesErrorMapping.ts"
import { GRACE_SECONDS } from "./MachinePod.ts"
import { EVENTS, type Kind, type KubernetesObject, listPath, Page, pathOf, Pod, PODS, SECRETS, WarningEvent } from "./ObjectSchemas.ts"
import type { PodWatch } from "./PodWatch.ts"

export interface Times {
  /** How long a machine may take to start before its order fails. A node that has to be added takes minutes. */
  readonly start: Duration.Duration
  /** How long a pod may take to end before it is deleted without a grace period: its node may be gone. */
  readonly leave: Duration.Duration
  /** The polling interval while the watch reports nothing. */
  readonly look: Duration.Duration
}

export const TIMES: Times = {
  start: Duration.minutes(3),
  leave: Duration.seconds(GRACE_SECONDS + 20),
  look: Duration.seconds(3)
}

type Operation = HostError["operation"]

export interface Options {
  readonly namespace: string
  readonly times: Times
}

interface State extends Options {
  readonly api: KubernetesApi
  readonly watch: PodWatch
  /** Pods that this worker ended, by uid: their loss is not reported. */
  readonly leaving: LruCache<string, true>
}

const MOST_LEAVING = 4096

/** `null`: the object does not exist. */
const get = <A>(state: State, operation: Operation, kind: Kind, name: string, schema: Schema.Codec<A, unknown>) =>
  state.api.call({ method: "GET", path: pathOf(kind, state.namespace, name) }).pipe(
    Effect.flatMap((answer) =>
      Effect.mapError(
        Schema.decodeUnknownEffect(schema)(answer),
        () => new KubernetesFailed({ status: null, reason: "", detail: `What ${state.api.host} answers cannot be read.`, retryable: true })
      )
    ),
    Effect.catchIf(({ status }) => status === 404, () => Effect.succeed(null)),
    Effect.mapError(KubernetesErrorMapping.hostError(operation))
  )

const podOf = (state: State, operation: Operation, name: string) => get(state, operation, PODS, name, Pod)

/** Asks Kubernetes to delete the object. A newer object of the same name stays. */
const remove = (state: State, operation: Operation, kind: Kind, { metadata: { name, uid } }: KubernetesObject, graceSeconds?: number) =>
  state.api.call({
    method: "DELETE",
    path: pathOf(kind, state.namespace, name),
    body: {
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions: { uid },
      propagationPolicy: "Background",
      ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds })
    }
  }).pipe(
    Effect.asVoid,
    Effect.catchIf(({ status }) => status === 404 || status === 409, () => Effect.void),
    Effect.mapError(KubernetesErrorMapping.hostError(operation))
  )

/** Waits for news of the pod, at most `times.look`. `count`: the watch's count before the pod was read. */
const pause = ({ times, watch }: State, name: string, count: number) => Effect.timeoutOption(watch.changed(name, count), times.look)

/** Asks Kubernetes to end the pod, without waiting for it. */
const dismiss = (state: State, operation: Operation, pod: KubernetesObject) =>
  Effect.suspend(() => {
    state.leaving.set(pod.metadata.uid, true)
    return remove(state, operation, PODS, pod)
  })

/** Ends the pod with everything in it; returns once it is gone. */
const end = Effect.fnUntraced(function*(state: State, operation: Operation, pod: Pod) {
  const { namespace, times, watch } = state
  const { name, uid } = pod.metadata
  yield* dismiss(state, operation, pod)
  const started = yield* Clock.currentTimeMillis
  const patience = Duration.toMillis(times.leave)
  let isForced = false
  for (;;) {
    const count = watch.count(name)
    const found = yield* podOf(state, operation, name)
    if (found?.metadata.uid !== uid) return
    const waited = (yield* Clock.currentTimeMillis) - started
    if (waited > patience && !isForced) {
      // The next pod has other keys and shares nothing with this one, so this one may go on unseen on a lost node.
      isForced = true
      yield* remove(state, operation, PODS, pod, 0)
      continue
    }
    if (waited > 2 * patience) {
      const finalizers = (found.metadata.finalizers ?? []).join(", ").slice(0, 200)
      const why = finalizers === "" ? "" : `: its finalizers are ${finalizers}`
      return yield* new HostError({
        operation,
        detail: `Kubernetes keeps the machine ${name}, which was to end${why}. See: kubectl --namespace ${namespace} describe pod ${name}`,
        retryable: true
      })
    }
    yield* pause(state, name, count)
  }
})

/** The last warning of Kubernetes about the object with this uid; empty if there is none, or if we may not read events. */
const warning = ({ api, namespace }: State, uid: string): Effect.Effect<string> =>
  api.call({ method: "GET", path: listPath(EVENTS, namespace), query: { fieldSelector: `involvedObject.uid=${uid}`, limit: 100 } }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Page)),
    Effect.map(({ items }) =>
      items.flatMap((item) => {
        const decoded = Schema.decodeUnknownOption(WarningEvent)(item)
        return Option.isSome(decoded) && decoded.value.type === "Warning" ? [decoded.value] : []
      }).at(-1)
    ),
    Effect.map((event) => event === undefined ? "" : `${event.reason ?? ""}: ${event.message ?? ""}`),
    Effect.orElseSucceed(() => "")
  )

export type MachineResources = ReturnType<typeof make>

export const make = (api: KubernetesApi, options: Options, watch: PodWatch) => {
  const state: State = { ...options, api, watch, leaving: new LruCache(MOST_LEAVING) }
  return {
    get: <A>(operation: Operation, kind: Kind, name: string, schema: Schema.Codec<A, unknown>) => get(state, operation, kind, name, schema),
    podOf: (operation: Operation, name: string) => podOf(state, operation, name),
    dismiss: (operation: Operation, pod: KubernetesObject) => dismiss(state, operation, pod),
    end: (operation: Operation, pod: Pod) => end(state, operation, pod),
    pause: (name: string, count: number) => pause(state, name, count),
    removeSecret: (secret: KubernetesObject) => remove(state, "provision", SECRETS, secret),
    warning: (uid: string) => warning(state, uid),
    hasLeft: (pod: KubernetesObject) => state.leaving.has(pod.metadata.uid)
  }
}
