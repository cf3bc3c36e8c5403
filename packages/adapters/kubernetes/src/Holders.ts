/**
 * What holds a machine in Kubernetes: its pod; or where kubernetes-sigs/agent-sandbox is used a `Sandbox`, whose controller makes a pod
 * of the same name; or with a pool a `SandboxClaim`, whose controller gives it a `Sandbox` of some name. Machines are found by the names
 * of their holders, made and ended by them.
 */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Duration, Effect, Option, Schema } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import { GRACE_SECONDS } from "./MachinePod.ts"
import { Claim, CLAIMS, EVENTS, Held, type Kind, listPath, Page, pathOf, Pod, PODS, SANDBOXES, SECRETS, versionPath } from "./Objects.ts"
import type { PodWatch } from "./PodWatch.ts"
import * as Refusal from "./Refusal.ts"

export interface Holder {
  readonly kind: Kind
  readonly held: Held | Claim
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

const groupOf = (apiVersion: string): string => apiVersion.slice(0, apiVersion.indexOf("/"))

const isMadeBy = (kind: Kind) => ({ metadata: { ownerReferences = [] } }: Held): boolean =>
  ownerReferences.some((owner) =>
    owner.controller === true && owner.kind === kind.kind && groupOf(owner.apiVersion) === groupOf(kind.apiVersion)
  )

/** Of a pod that a `Sandbox` made. */
export const isControlled = isMadeBy(SANDBOXES)

/** Of a `Sandbox` that a claim has. */
export const isClaimed = isMadeBy(CLAIMS)

export const isOwnedBy = ({ metadata: { ownerReferences = [] } }: Held, uid: string): boolean =>
  ownerReferences.some((owner) => owner.uid === uid)

/** Of the machine's pod; `null`: the claim has none yet. */
const podNameOf = (kind: Kind, held: Held | Claim): string | null =>
  kind === CLAIMS ? ("status" in held ? held.status?.sandbox?.name : undefined) ?? null : held.metadata.name

const WarningEvent = Schema.Struct({
  type: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

export interface Options {
  readonly namespace: string
  readonly mode: Mode
  readonly times: Times
  /** Whether new machines are claims to those of a pool. */
  readonly isPooled: boolean
}

interface HolderState extends Options {
  readonly api: KubernetesApi
  readonly watch: PodWatch
  /** Pods that we ended, by uid: their loss is not reported. */
  readonly leaving: LruCache<string, true>
  known: { readonly sandboxes: boolean; readonly claims: boolean; readonly at: number } | undefined
}

const MOST_LEAVING = 4096

/** `null`: it is not there. */
const get = <A>(state: HolderState, operation: HostError["operation"], kind: Kind, name: string, schema: Schema.Codec<A, unknown>) =>
  state.api.call({ method: "GET", path: pathOf(kind, state.namespace, name) }).pipe(
    Effect.flatMap((answer) =>
      Effect.mapError(
        Schema.decodeUnknownEffect(schema)(answer),
        () => new KubernetesFailed({ status: null, reason: "", detail: `What ${state.api.host} answers cannot be read.`, retryable: true })
      )
    ),
    Effect.catchIf(isStatus(404), () => Effect.succeed(null)),
    Effect.mapError(Refusal.hostError(operation))
  )

const podOf = (state: HolderState, operation: HostError["operation"], name: string) => get(state, operation, PODS, name, Pod)

const absent = isStatus(404)

const answers = ({ api }: HolderState, path: string, isNot: (failed: KubernetesFailed) => boolean) =>
  api.call({ method: "GET", path }).pipe(Effect.as(true), Effect.catchIf(isNot, () => Effect.succeed(false)))

const look = (state: HolderState) =>
  Effect.gen(function*() {
    const { isPooled, mode, namespace } = state
    if (mode === "pods") return { sandboxes: false, claims: false }
    const now = yield* Clock.currentTimeMillis
    if (state.known !== undefined && now - state.known.at < KNOWN_MILLIS) return state.known
    const sandboxes = yield* answers(state, versionPath(SANDBOXES), absent)
    // Without a pool there are none but those of an earlier one: who may not see them has none.
    const claims = sandboxes && (yield* isPooled
      ? answers(state, versionPath(CLAIMS), absent)
      : answers(state, listPath(CLAIMS, namespace), (failed) => absent(failed) || failed.status === 403))
    state.known = { sandboxes, claims, at: now }
    return state.known
  })

const refuse = (operation: HostError["operation"], detail: string) => new HostError({ operation, detail, retryable: false })

/** Kinds that machines of this installation may be held by, each before those that it makes. */
const kinds = (state: HolderState, operation: HostError["operation"]): Effect.Effect<ReadonlyArray<Kind>, HostError> =>
  Effect.gen(function*() {
    const { claims, sandboxes } = yield* Effect.mapError(look(state), Refusal.hostError(operation))
    if (state.mode === "agent-sandbox" && !sandboxes) {
      return yield* refuse(
        operation,
        "The cluster does not have agent-sandbox (agents.x-k8s.io/v1beta1). Install it, or let machines be pods."
      )
    }
    return [...(claims ? [CLAIMS] : []), ...(sandboxes ? [SANDBOXES] : []), PODS]
  })

/** What new machines are. */
const kindOfNew = (state: HolderState) =>
  Effect.gen(function*() {
    const { isPooled, mode } = state
    const found = yield* kinds(state, "provision")
    if (!isPooled) return found.includes(SANDBOXES) ? SANDBOXES : PODS
    if (found.includes(CLAIMS)) return CLAIMS
    return yield* refuse(
      "provision",
      mode === "pods"
        ? "A pool of warm pods is agent-sandbox's: have none, or do not say that machines are pods."
        : `The cluster does not have the pools of agent-sandbox (${CLAIMS.apiVersion}). Install its extensions, or have no warm pods.`
    )
  })

const claimOf = (state: HolderState, operation: HostError["operation"], name: string) => get(state, operation, CLAIMS, name, Claim)

const find = Effect.fnUntraced(function*(state: HolderState, operation: HostError["operation"], name: string) {
  for (const kind of yield* kinds(state, operation)) {
    const held = kind === CLAIMS ? yield* claimOf(state, operation, name) : yield* get(state, operation, kind, name, Held)
    if (held !== null) return { kind, held } satisfies Holder
  }
  return null
})

/** Asks for its end. What is there under the name by now and is another stays. */
const ask = (state: HolderState, operation: HostError["operation"], kind: Kind, { metadata: { name, uid } }: Held, graceSeconds?: number) =>
  Effect.suspend(() => {
    if (kind === PODS) state.leaving.set(uid, true)
    return state.api.call({
      method: "DELETE",
      path: pathOf(kind, state.namespace, name),
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
const pause = ({ times, watch }: HolderState, name: string, count: number) => Effect.timeoutOption(watch.changed(name, count), times.look)

/** Its pod, as it is now. */
const podOfHolder = Effect.fnUntraced(function*(state: HolderState, operation: HostError["operation"], { held, kind }: Holder) {
  const name = podNameOf(kind, held)
  return name === null ? null : yield* podOf(state, operation, name)
})

/** Asks for its end, without waiting for it. */
const dismiss = Effect.fnUntraced(function*(state: HolderState, operation: HostError["operation"], holder: Holder) {
  const pod = holder.kind === PODS ? null : yield* podOfHolder(state, operation, holder)
  if (pod !== null && isControlled(pod)) state.leaving.set(pod.metadata.uid, true)
  yield* ask(state, operation, holder.kind, holder.held)
})

/** Ends it with all that is in it; returns once it is gone. */
const end = Effect.fnUntraced(function*(state: HolderState, operation: HostError["operation"], holder: Holder) {
  const { mode, namespace, times, watch } = state
  const { held: { metadata: { name, uid } }, kind } = holder
  if (mode === "pods" && isControlled(holder.held)) {
    return yield* refuse(
      operation,
      `The pod ${name} is of agent-sandbox, which would make it again: do not say that machines are pods while it is there.`
    )
  }
  /** As it is now; a claim may have been given its pod since it was found. */
  const again = kind === PODS
    ? Effect.succeed(null)
    : kind === CLAIMS
    ? claimOf(state, operation, name)
    : get(state, operation, kind, name, Held)
  const now = yield* again
  let podName = podNameOf(kind, now ?? holder.held)
  /** The `Sandbox` that a claim has. */
  const boxOf = Effect.suspend(() =>
    kind === CLAIMS && podName !== null ? get(state, operation, SANDBOXES, podName, Held) : Effect.succeed(null)
  )
  let box: string | undefined
  // Who knows it beforehand knows its pod when nothing but that is left.
  const before = yield* boxOf
  if (before !== null && isOwnedBy(before, uid)) box = before.metadata.uid
  yield* dismiss(state, operation, now === null || now.metadata.uid !== uid ? holder : { kind, held: now })
  const started = yield* Clock.currentTimeMillis
  const patience = Duration.toMillis(times.leave)
  let isForced = false
  for (;;) {
    const count = watch.count(podName ?? name)
    const held = yield* again
    const isHeld = held !== null && held.metadata.uid === uid
    if (isHeld) podName = podNameOf(kind, held) ?? podName
    const sandbox = yield* boxOf
    const isBox = sandbox !== null && isOwnedBy(sandbox, uid)
    if (isBox) box = sandbox.metadata.uid
    const pod = podName === null ? null : yield* podOf(state, operation, podName)
    const isOfIt = (one: Held) =>
      kind === PODS
        ? one.metadata.uid === uid
        : kind === CLAIMS
        ? box !== undefined && isOwnedBy(one, box)
        : isHeld || isControlled(one)
    const isThere = pod !== null && isOfIt(pod)
    if (!isHeld && !isBox && !isThere) return
    const waited = (yield* Clock.currentTimeMillis) - started
    if (waited > patience && isThere && !isForced) {
      // What it was for is made anew with other keys, and shares nothing with it: it may go on where nobody sees it.
      isForced = true
      yield* ask(state, operation, PODS, pod, 0)
      continue
    }
    if (waited > 2 * patience) {
      const finalizers = [...held?.metadata.finalizers ?? [], ...pod?.metadata.finalizers ?? []].join(", ").slice(0, 200)
      const why = finalizers === "" ? "" : `: its finalizers are ${finalizers}`
      return yield* new HostError({
        operation,
        detail: `Kubernetes keeps the machine ${name}, which was to end${why}. See: kubectl --namespace ${namespace} describe pod ${name}`,
        retryable: true
      })
    }
    yield* pause(state, podName ?? name, count)
  }
})

const removeSecret = (state: HolderState, secret: Held) => ask(state, "provision", SECRETS, secret)

/** What Kubernetes warns of last, of an object by its uid; empty: nothing, or we may not read it. */
const warning = ({ api, namespace }: HolderState, uid: string): Effect.Effect<string> =>
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

export type Holders = ReturnType<typeof make>

export const make = (api: KubernetesApi, options: Options, watch: PodWatch) => {
  const state: HolderState = { ...options, api, watch, leaving: new LruCache(MOST_LEAVING), known: undefined }
  type Operation = HostError["operation"]
  return {
    get: <A>(operation: Operation, kind: Kind, name: string, schema: Schema.Codec<A, unknown>) => get(state, operation, kind, name, schema),
    kinds: (operation: Operation) => kinds(state, operation),
    kindOfNew: kindOfNew(state),
    find: (operation: Operation, name: string) => find(state, operation, name),
    claimOf: (operation: Operation, name: string) => claimOf(state, operation, name),
    podOf: (operation: Operation, name: string) => podOf(state, operation, name),
    podOfHolder: (operation: Operation, holder: Holder) => podOfHolder(state, operation, holder),
    dismiss: (operation: Operation, holder: Holder) => dismiss(state, operation, holder),
    end: (operation: Operation, holder: Holder) => end(state, operation, holder),
    pause: (name: string, count: number) => pause(state, name, count),
    removeSecret: (secret: Held) => removeSecret(state, secret),
    warning: (uid: string) => warning(state, uid),
    hasLeft: (pod: Pod) => state.leaving.has(pod.metadata.uid)
  }
}
