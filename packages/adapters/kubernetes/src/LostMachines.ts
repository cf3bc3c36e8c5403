/** Reports machines that went away without our request. */
import type { Loss } from "@slipway/runner/machines/Machines"
import { Result, Stream } from "effect"
import * as KubernetesApi from "./KubernetesApi.ts"
import type { KubernetesMachines } from "./KubernetesMachines.ts"
import * as Labels from "./Labels.ts"
import type { Pod } from "./ObjectSchemas.ts"
import * as PodFailure from "./PodFailure.ts"

const lossOf = (pod: Pod, isGone: boolean): Pick<Loss, "detail" | "ofSandbox"> | null => {
  const ended = PodFailure.endOf(pod)
  if (ended !== null) return { detail: ended.detail, ofSandbox: ended.ofSandbox === true }
  if (!isGone && pod.metadata.deletionTimestamp === undefined) return null
  const disruption = pod.status?.conditions?.find(({ status, type }) => type === "DisruptionTarget" && status === "True")
  const why = disruption === undefined ? "Somebody deleted it." : `Kubernetes says: ${disruption.reason ?? ""} ${disruption.message ?? ""}`
  return { detail: `The machine is being deleted. ${KubernetesApi.words(why)}`, ofSandbox: false }
}

export const losses = ({ resources, told, watch }: KubernetesMachines) =>
  watch.changes.pipe(
    Stream.filterMap(({ isGone, pod }) => {
      const marks = Labels.marksOf(pod)
      const loss = lossOf(pod, isGone)
      const { uid } = pod.metadata
      if (marks === null || loss === null || told.has(uid) || resources.hasLeft(pod)) return Result.failVoid
      told.set(uid, true)
      return Result.succeed({ sandboxId: marks.sandboxId, ...loss })
    })
  )
