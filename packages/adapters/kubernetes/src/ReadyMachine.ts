/** Waits until the pod of a machine runs and can be dialled. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Address } from "@slipway/runner/wire/RunnerSettings"
import { Clock, Duration, Effect } from "effect"
import * as KubernetesApi from "./KubernetesApi.ts"
import type { KubernetesMachines } from "./KubernetesMachines.ts"
import * as MachinePod from "./MachinePod.ts"
import type { Pod } from "./ObjectSchemas.ts"
import * as PodFailure from "./PodFailure.ts"

const fail = (detail: string, retryable: boolean, ofSandbox = false) =>
  Effect.fail(new HostError({ operation: "provision", detail, retryable, ...(ofSandbox ? { ofSandbox } : {}) }))

/** `null`: the pod went away. */
export const ready = Effect.fnUntraced(
  function*(state: KubernetesMachines, { metadata: { name, uid } }: Pod): Effect.fn.Return<Address | null, HostError> {
    const { namespace, resources, times, watch } = state
    const deadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(times.start)
    for (;;) {
      const count = watch.count(name)
      const pod = yield* resources.podOf("provision", name)
      if (pod?.metadata.uid !== uid || pod.metadata.deletionTimestamp !== undefined) return null
      const host = pod.status?.podIP
      const isLate = (yield* Clock.currentTimeMillis) >= deadline
      const isRunning = pod.status?.containerStatuses?.[0]?.state?.running !== undefined
      if (host !== undefined && (PodFailure.isReady(pod) || isLate && isRunning)) return { host, port: MachinePod.PORT }
      const failure = PodFailure.of(pod)
      if (failure?.isFinal === true) {
        // The next order makes a new pod, by the settings of that time.
        yield* Effect.ignore(resources.dismiss("provision", pod))
        return yield* fail(failure.detail, failure.retryable, failure.ofSandbox)
      }
      if (isLate) {
        if (failure !== null) return yield* fail(failure.detail, failure.retryable)
        const warning = KubernetesApi.words(yield* resources.warning(uid))
        return yield* fail(
          `The machine did not start within ${Duration.toSeconds(times.start)} seconds.` +
            (warning === "" ? ` See: kubectl --namespace ${namespace} describe pod ${name}` : ` Kubernetes says: ${warning}`),
          true
        )
      }
      yield* resources.pause(name, count)
    }
  }
)
