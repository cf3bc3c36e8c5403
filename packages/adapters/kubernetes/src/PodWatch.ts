/**
 * The pods of this worker's machine as they change: a list, then a watch from there on, for as long as the scope lasts. It tells that
 * something happened to a pod, early and perhaps more than once; what a pod is now, a call says.
 */
import { Deferred, Effect, Option, PubSub, Schema, Stream } from "effect"
import { type KubernetesApi, KubernetesFailed } from "./KubernetesApi.ts"
import * as Lists from "./Lists.ts"
import { listPath, Pod, PODS } from "./Objects.ts"

const Event = Schema.Struct({ type: Schema.String, object: Schema.Unknown })
const decodeEvent = Schema.decodeUnknownOption(Event)
const decodePod = Schema.decodeUnknownOption(Pod)
const Marked = Schema.Struct({ metadata: Schema.Struct({ resourceVersion: Schema.String }) })
const decodeMarked = Schema.decodeUnknownOption(Marked)
const Failure = Schema.Struct({ code: Schema.optionalKey(Schema.Int) })
const decodeFailure = Schema.decodeUnknownOption(Failure)

/** A server ends a watch after so long, and is asked for the next. */
const WATCH_SECONDS = 300

const FIRST_BACKOFF_MILLIS = 500
const MOST_BACKOFF_MILLIS = 30_000

/** How many changes may wait for somebody who reads them slowly: the oldest are dropped. */
const MOST_WAITING = 1024

export interface Change {
  readonly pod: Pod
  readonly isGone: boolean
}

export interface PodWatch {
  /** How often something was told of the pod of that name. */
  readonly count: (name: string) => number
  /** Waits until something was told of it after `count` was that. */
  readonly changed: (name: string, count: number) => Effect.Effect<void>
  /** From now on. */
  readonly changes: Stream.Stream<Change>
}

export const make = Effect.fnUntraced(function*(api: KubernetesApi, namespace: string, labelSelector: string) {
  let pods = new Map<string, Pod>()
  const counts = new Map<string, number>()
  const waiting = new Map<string, Set<Deferred.Deferred<void>>>()
  const hub = yield* PubSub.sliding<Change>(MOST_WAITING)

  const tell = (change: Change) => {
    const { name } = change.pod.metadata
    counts.set(name, (counts.get(name) ?? 0) + 1)
    for (const one of waiting.get(name) ?? []) Deferred.doneUnsafe(one, Effect.void)
    waiting.delete(name)
    PubSub.publishUnsafe(hub, change)
    // Those of a pod that is gone are asked for by nobody who does not wait already.
    if (change.isGone && counts.size > MOST_WAITING) counts.delete(name)
  }

  const replace = (listed: ReadonlyArray<Pod>) => {
    const before = pods
    pods = new Map(listed.map((pod) => [pod.metadata.uid, pod]))
    for (const pod of before.values()) if (!pods.has(pod.metadata.uid)) tell({ pod, isGone: true })
    for (const pod of listed) {
      if (before.get(pod.metadata.uid)?.metadata.resourceVersion !== pod.metadata.resourceVersion) tell({ pod, isGone: false })
    }
  }

  /** Until the server ends it. Answers where the next goes on; `null`: it begins with a list. */
  const watch = (from: string) =>
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
        if (isGone) pods.delete(pod.metadata.uid)
        else pods.set(pod.metadata.uid, pod)
        tell({ pod, isGone })
      }
      yield* api.watch(listPath(PODS, namespace), {
        labelSelector,
        resourceVersion: from,
        allowWatchBookmarks: "true",
        timeoutSeconds: WATCH_SECONDS
      }, hear)
      if (failed !== undefined) return yield* failed
      return version
    })

  let backoff = FIRST_BACKOFF_MILLIS
  const round = Effect.gen(function*() {
    const { items, resourceVersion } = yield* Lists.all(api, PODS, namespace, labelSelector, Pod)
    replace(items)
    let version: string | null = resourceVersion
    while (version !== null) {
      const from: string = version
      version = yield* Effect.catchIf(watch(from), Lists.isExpired, () => Effect.succeed(null))
      backoff = FIRST_BACKOFF_MILLIS
      // A server that ends watches at once is not asked again and again.
      if (version === from) yield* Effect.sleep(FIRST_BACKOFF_MILLIS)
    }
  })
  yield* round.pipe(
    Effect.catch((failed) =>
      Effect.gen(function*() {
        yield* Effect.logWarning(`the machines of Kubernetes are not watched at the moment: ${failed.detail}`)
        yield* Effect.sleep(backoff)
        backoff = Math.min(2 * backoff, MOST_BACKOFF_MILLIS)
      })
    ),
    Effect.forever,
    Effect.forkScoped
  )

  const made: PodWatch = {
    count: (name) => counts.get(name) ?? 0,
    changed: (name, count) =>
      Effect.suspend(() => {
        if ((counts.get(name) ?? 0) !== count) return Effect.void
        const one = Deferred.makeUnsafe<void>()
        const those = waiting.get(name) ?? new Set()
        waiting.set(name, those.add(one))
        return Effect.ensuring(
          Deferred.await(one),
          Effect.sync(() => {
            those.delete(one)
            if (those.size === 0 && waiting.get(name) === those) waiting.delete(name)
          })
        )
      }),
    changes: Stream.fromPubSub(hub)
  }
  return made
})
