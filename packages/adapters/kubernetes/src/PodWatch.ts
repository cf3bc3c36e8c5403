/**
 * Follows the pods of this worker's machine: a list, then a watch from there on, for as long as the scope lasts. It reports changes early
 * and perhaps more than once; the present state of a pod needs a call.
 */
import { Deferred, Effect, Option, PubSub, Schema, Stream } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import * as ObjectList from "./ObjectList.ts"
import { listPath, Pod, PODS } from "./ObjectSchemas.ts"

const Event = Schema.Struct({ type: Schema.String, object: Schema.Unknown })
const decodeEvent = Schema.decodeUnknownOption(Event)
const decodePod = Schema.decodeUnknownOption(Pod)
const Marked = Schema.Struct({ metadata: Schema.Struct({ resourceVersion: Schema.String }) })
const decodeMarked = Schema.decodeUnknownOption(Marked)
const Failure = Schema.Struct({ code: Schema.optionalKey(Schema.Int) })
const decodeFailure = Schema.decodeUnknownOption(Failure)

/** The server ends a watch after this time, and the next one begins. */
const WATCH_SECONDS = 300

const FIRST_BACKOFF_MILLIS = 500
const MOST_BACKOFF_MILLIS = 30_000

/** Changes that are kept for a slow reader; the oldest are dropped. */
const MOST_WAITING = 1024

export interface Change {
  readonly pod: Pod
  readonly isGone: boolean
}

export interface PodWatch {
  /** The number of reported changes of the pod of that name. */
  readonly count: (name: string) => number
  /** Waits until the number of changes differs from `count`. */
  readonly changed: (name: string, count: number) => Effect.Effect<void>
  /** Changes from now on. */
  readonly changes: Stream.Stream<Change>
}

interface WatchState {
  readonly api: KubernetesApi
  readonly namespace: string
  readonly labelSelector: string
  /** By uid. */
  pods: Map<string, Pod>
  /** Changes so far, by name. */
  readonly counts: Map<string, number>
  readonly waiting: Map<string, Set<Deferred.Deferred<void>>>
  readonly hub: PubSub.PubSub<Change>
  /** Milliseconds before the next try. */
  backoff: number
}

const tell = ({ counts, hub, waiting }: WatchState, change: Change) => {
  const { name } = change.pod.metadata
  counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const one of waiting.get(name) ?? []) Deferred.doneUnsafe(one, Effect.void)
  waiting.delete(name)
  PubSub.publishUnsafe(hub, change)
  // Forget the count of a deleted pod: all that waited for it were woken above.
  if (change.isGone && counts.size > MOST_WAITING) counts.delete(name)
}

const replace = (state: WatchState, listed: ReadonlyArray<Pod>) => {
  const before = state.pods
  state.pods = new Map(listed.map((pod) => [pod.metadata.uid, pod]))
  for (const pod of before.values()) if (!state.pods.has(pod.metadata.uid)) tell(state, { pod, isGone: true })
  for (const pod of listed) {
    if (before.get(pod.metadata.uid)?.metadata.resourceVersion !== pod.metadata.resourceVersion) tell(state, { pod, isGone: false })
  }
}

/** Follows a watch until the server ends it. Answers the version from which the next one continues; `null`: it starts with a list. */
const watch = (state: WatchState, from: string) =>
  Effect.gen(function*() {
    let version: string | null = from
    let failed: KubernetesFailed | undefined
    const hear = (value: unknown) => {
      const event = decodeEvent(value)
      if (Option.isNone(event)) return
      const { object, type } = event.value
      if (type === "ERROR") {
        const { code = null } = Option.getOrElse(decodeFailure(object), (): typeof Failure.Type => ({}))
        if (code === 410) version = null
        else failed = new KubernetesFailed({ status: code, reason: "", detail: "The watch failed.", retryable: true })
        return
      }
      const marked = decodeMarked(object)
      if (Option.isSome(marked) && version !== null) version = marked.value.metadata.resourceVersion
      if (type === "BOOKMARK") return
      const decoded = decodePod(object)
      if (Option.isNone(decoded)) return
      const pod = decoded.value
      const isGone = type === "DELETED"
      if (isGone) state.pods.delete(pod.metadata.uid)
      else state.pods.set(pod.metadata.uid, pod)
      tell(state, { pod, isGone })
    }
    yield* state.api.watch(listPath(PODS, state.namespace), {
      labelSelector: state.labelSelector,
      resourceVersion: from,
      allowWatchBookmarks: "true",
      timeoutSeconds: WATCH_SECONDS
    }, hear)
    if (failed !== undefined) return yield* failed
    return version
  })

const round = (state: WatchState) =>
  Effect.gen(function*() {
    const { api, labelSelector, namespace } = state
    const { items, resourceVersion } = yield* ObjectList.all(api, PODS, namespace, labelSelector, Pod)
    replace(state, items)
    let version: string | null = resourceVersion
    while (version !== null) {
      const from: string = version
      version = yield* Effect.catchIf(watch(state, from), ObjectList.isExpired, () => Effect.succeed(null))
      state.backoff = FIRST_BACKOFF_MILLIS
      // Do not loop if the server ends watches at once.
      if (version === from) yield* Effect.sleep(FIRST_BACKOFF_MILLIS)
    }
  })

const changed = (state: WatchState, name: string, count: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    if ((state.counts.get(name) ?? 0) !== count) return Effect.void
    const one = Deferred.makeUnsafe<void>()
    const those = state.waiting.get(name) ?? new Set()
    state.waiting.set(name, those.add(one))
    return Effect.ensuring(
      Deferred.await(one),
      Effect.sync(() => {
        those.delete(one)
        if (those.size === 0 && state.waiting.get(name) === those) state.waiting.delete(name)
      })
    )
  })

export const make = Effect.fnUntraced(function*(api: KubernetesApi, namespace: string, labelSelector: string) {
  const state: WatchState = {
    api,
    namespace,
    labelSelector,
    pods: new Map(),
    counts: new Map(),
    waiting: new Map(),
    hub: yield* PubSub.sliding<Change>(MOST_WAITING),
    backoff: FIRST_BACKOFF_MILLIS
  }
  yield* round(state).pipe(
    Effect.catch((failed) =>
      Effect.gen(function*() {
        yield* Effect.logWarning(`the machines of Kubernetes are not watched at the moment: ${failed.detail}`)
        yield* Effect.sleep(state.backoff)
        state.backoff = Math.min(2 * state.backoff, MOST_BACKOFF_MILLIS)
      })
    ),
    Effect.forever,
    Effect.forkScoped
  )

  const made: PodWatch = {
    count: (name) => state.counts.get(name) ?? 0,
    changed: (name, count) => changed(state, name, count),
    changes: Stream.fromPubSub(state.hub)
  }
  return made
})
