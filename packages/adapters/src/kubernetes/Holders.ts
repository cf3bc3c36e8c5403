/**
 * What holds a machine in Kubernetes: its pod, or where kubernetes-sigs/agent-sandbox is used a `Sandbox`, whose controller makes a pod
 * of the same name. Machines are found by their names, made and ended by their holders.
 */
import { HostError } from "@slipway/domain/sandbox/SandboxHost"
import { Clock, Duration, Effect, Option, Schema } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import { GRACE_SECONDS } from "./MachinePod.ts"
import { EVENTS, Held, type Kind, listPath, Page, pathOf, Pod, PODS, SANDBOXES, SECRETS, versionPath } from "./Objects.ts"
import type { PodWatch } from "./PodWatch.ts"
import * as Refusal from "./Refusal.ts"

export interface Holder {
  readonly kind: Kind
  readonly held: Held
}

/** `auto`: by agent-sandbox where the cluster has it. */
export type Mode = "auto" | "pods" | "agent-sandbox"

export interface Times {
  /** How long a machine may take to start before its order fails. A node that has to be added takes minutes. */
  readonly start: Duration.Duration
  /** How long a pod is asked to end before it is taken out of Kubernetes regardless: its node may be gone. */
  readonly leave: Duration.Duration
  /** How often is looked, whatever the watch tells. */
  readonly look: Duration.Duration
}

export const TIMES: Times = {
  start: Duration.minutes(3),
  leave: Duration.seconds(GRACE_SECONDS + 20),
  look: Duration.seconds(3)
}

/** Whether the cluster has agent-sandbox is asked again after so long. */
const KNOWN_MILLIS = 300_000

const isStatus = (status: number) => (failed: KubernetesFailed) => failed.status === status

/** Of a pod that a `Sandbox` made. */
export const isControlled = ({ metadata: { ownerReferences = [] } }: Held): boolean =>
  ownerReferences.some(({ apiVersion, controller, kind }) =>
    controller === true && kind === SANDBOXES.kind && apiVersion.startsWith("agents.x-k8s.io/")
  )

const WarningEvent = Schema.Struct({
  type: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

export const make = (api: KubernetesApi, namespace: string, mode: Mode, times: Times, watch: PodWatch) => {
  /** Pods that we ended: nobody is told of their loss. The oldest are forgotten. */
  const leaving = new Set<string>()
  const MOST_LEAVING = 4096

  /** `null`: it is not there. */
  const get = <A>(operation: HostError["operation"], kind: Kind, name: string, schema: Schema.Codec<A, unknown>) =>
    api.call({ method: "GET", path: pathOf(kind, namespace, name) }).pipe(
      Effect.flatMap((answer) =>
        Effect.mapError(
          Schema.decodeUnknownEffect(schema)(answer),
          () => new KubernetesFailed({ status: null, reason: "", detail: `What ${api.host} answers cannot be read.`, retryable: true })
        )
      ),
      Effect.catchIf(isStatus(404), () => Effect.succeed(null)),
      Effect.mapError(Refusal.hostError(operation))
    )

  const podOf = (operation: HostError["operation"], name: string) => get(operation, PODS, name, Pod)

  let known: { readonly has: boolean; readonly at: number } | undefined
  const hasSandboxes = Effect.gen(function*() {
    if (mode === "pods") return false
    const now = yield* Clock.currentTimeMillis
    if (known !== undefined && now - known.at < KNOWN_MILLIS) return known.has
    const has = yield* api.call({ method: "GET", path: versionPath(SANDBOXES) }).pipe(
      Effect.as(true),
      Effect.catchIf(isStatus(404), () => Effect.succeed(false))
    )
    known = { has, at: now }
    return has
  })

  /** Kinds that machines of this installation may be held by; the first is what new ones are. */
  const kinds = (operation: HostError["operation"]): Effect.Effect<readonly [Kind, ...ReadonlyArray<Kind>], HostError> =>
    Effect.gen(function*() {
      const has = yield* Effect.mapError(hasSandboxes, Refusal.hostError(operation))
      if (has) return [SANDBOXES, PODS] as const
      if (mode === "pods" || mode === "auto") return [PODS] as const
      return yield* new HostError({
        operation,
        detail: "The cluster does not have agent-sandbox (agents.x-k8s.io/v1beta1). Install it, or let machines be pods.",
        retryable: false
      })
    })

  const find = Effect.fnUntraced(function*(operation: HostError["operation"], name: string) {
    for (const kind of yield* kinds(operation)) {
      const held = yield* get(operation, kind, name, Held)
      if (held !== null) return { kind, held } satisfies Holder
    }
    return null
  })

  const forget = (uid: string) => {
    leaving.add(uid)
    for (const oldest of leaving) {
      if (leaving.size <= MOST_LEAVING) break
      leaving.delete(oldest)
    }
  }

  /** Asks for its end. What is there under the name by now and is another stays. */
  const ask = (operation: HostError["operation"], kind: Kind, { metadata: { name, uid } }: Held, graceSeconds?: number) =>
    Effect.suspend(() => {
      if (kind === PODS) forget(uid)
      return api.call({
        method: "DELETE",
        path: pathOf(kind, namespace, name),
        body: {
          apiVersion: "v1",
          kind: "DeleteOptions",
          preconditions: { uid },
          propagationPolicy: "Background",
          ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds })
        }
      })
    }).pipe(
      Effect.asVoid,
      Effect.catchIf(({ status }) => status === 404 || status === 409, () => Effect.void),
      Effect.mapError(Refusal.hostError(operation))
    )

  /** Until something is told of the pod, or for as long as one looks. `count`: as it was before the last look. */
  const pause = (name: string, count: number) => Effect.timeoutOption(watch.changed(name, count), times.look)

  /** Asks for its end, without waiting for it. */
  const dismiss = Effect.fnUntraced(function*(operation: HostError["operation"], { held, kind }: Holder) {
    const { name } = held.metadata
    const pod = kind === PODS ? null : yield* podOf(operation, name)
    if (pod !== null && isControlled(pod)) forget(pod.metadata.uid)
    yield* ask(operation, kind, held)
  })

  /** Ends it with all that is in it; returns once it is gone. */
  const end = Effect.fnUntraced(function*(operation: HostError["operation"], holder: Holder) {
    const { name, uid } = holder.held.metadata
    if (mode === "pods" && isControlled(holder.held)) {
      return yield* new HostError({
        operation,
        detail: `The pod ${name} is of agent-sandbox, which would make it again: do not say that machines are pods while it is there.`,
        retryable: false
      })
    }
    yield* dismiss(operation, holder)
    const started = yield* Clock.currentTimeMillis
    const patience = Duration.toMillis(times.leave)
    let isForced = false
    for (;;) {
      const count = watch.count(name)
      const held = holder.kind === PODS ? null : yield* get(operation, holder.kind, name, Held)
      const isHeld = held !== null && held.metadata.uid === uid
      const pod = yield* podOf(operation, name)
      const isThere = pod !== null && (holder.kind === PODS ? pod.metadata.uid === uid : isHeld || isControlled(pod))
      if (!isHeld && !isThere) return
      const waited = (yield* Clock.currentTimeMillis) - started
      if (waited > patience && isThere && !isForced) {
        // What it was for is made anew with other keys, and shares nothing with it: it may go on where nobody sees it.
        isForced = true
        yield* ask(operation, PODS, pod, 0)
        continue
      }
      if (waited > 2 * patience) {
        const finalizers = [...held?.metadata.finalizers ?? [], ...pod?.metadata.finalizers ?? []].join(", ").slice(0, 200)
        const why = finalizers === "" ? "" : `: its finalizers are ${finalizers}`
        return yield* new HostError({
          operation,
          detail:
            `Kubernetes keeps the machine ${name}, which was to end${why}. See: kubectl --namespace ${namespace} describe pod ${name}`,
          retryable: true
        })
      }
      yield* pause(name, count)
    }
  })

  const removeSecret = (secret: Held) => ask("provision", SECRETS, secret)

  /** What Kubernetes warns of last, of an object by its uid; empty: nothing, or we may not read it. */
  const warning = (uid: string): Effect.Effect<string> =>
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

  return {
    get,
    kinds,
    find,
    podOf,
    dismiss,
    end,
    pause,
    removeSecret,
    warning,
    hasLeft: (pod: Pod) => leaving.has(pod.metadata.uid)
  }
}

export type Holders = ReturnType<typeof make>
