/** Explains to the operator why a pod does not run. */
import { words } from "./KubernetesApi.ts"
import type { Pod } from "./ObjectSchemas.ts"

export interface PodFailure {
  /** Sentences: the message of Kubernetes, and advice. */
  readonly detail: string
  /** Whether a later try may succeed without a change. */
  readonly retryable: boolean
  /** Waiting does not help. */
  readonly isFinal: boolean
  /** The sandbox caused it. */
  readonly ofSandbox?: boolean
}

const quoted = (text: string | undefined): string => text === undefined || text === "" ? "" : ` Kubernetes says: ${words(text)}`

/** Messages of a registry that a later try does not change. */
const NOT_TO_BE_HAD = /not found|manifest unknown|denied|unauthorized|authorization failed|forbidden|invalid reference/iu

const ofImage = (reason: string, message: string | undefined): PodFailure => ({
  detail: `The image of sandboxes cannot be pulled (${reason}). Is its name right, and may the namespace pull it?${quoted(message)}`,
  retryable: !NOT_TO_BE_HAD.test(message ?? ""),
  isFinal: reason === "ImagePullBackOff"
})

const ofContainer = (pod: Pod): PodFailure | null => {
  const [status] = pod.status?.containerStatuses ?? []
  const waiting = status?.state?.waiting
  switch (waiting?.reason) {
    case "ErrImagePull":
    case "ImagePullBackOff":
      return ofImage(waiting.reason, waiting.message)
    case "InvalidImageName":
    case "ErrImageNeverPull":
      return {
        detail: `The image of sandboxes cannot be used (${waiting.reason}): correct its name, or put it on the nodes.` +
          quoted(waiting.message),
        retryable: false,
        isFinal: true
      }
    case "CrashLoopBackOff": {
      const ended = status?.lastState?.terminated
      const isOutOfMemory = ended?.reason === "OOMKilled"
      return {
        detail: `The runner ends whenever it is started (${ended?.reason ?? "unknown"}, exit code ${ended?.exitCode ?? "unknown"}). ` +
          `Is the image that of this version of the service?${quoted(ended?.message ?? waiting.message)}`,
        retryable: isOutOfMemory,
        isFinal: true,
        ...(isOutOfMemory ? { ofSandbox: true } : {})
      }
    }
    case "CreateContainerError":
    case "CreateContainerConfigError":
    case "RunContainerError":
      return { detail: `The container cannot be started (${waiting.reason}).${quoted(waiting.message)}`, retryable: true, isFinal: false }
    default:
      return null
  }
}

/** The failure of a pod that has ended for good: everything in it is gone. */
export const endOf = ({ status }: Pod): PodFailure | null => {
  if (status?.phase !== "Failed" && status?.phase !== "Succeeded") return null
  const { message, reason } = status
  // The kubelet evicts a pod that takes more disk than it may.
  const isDisk = reason === "Evicted" && /ephemeral|emptydir/iu.test(message ?? "")
  return {
    detail: isDisk
      ? `Kubernetes evicted the machine because the sandbox took more disk than it may.${quoted(message)}`
      : reason === "Evicted"
      ? `Kubernetes evicted the machine: its node ran out of something.${quoted(message)}`
      : `The machine has ended (${reason ?? status.phase}).${quoted(message)}`,
    retryable: true,
    isFinal: true,
    ...(isDisk ? { ofSandbox: true } : {})
  }
}

/** `null`: no known failure. */
export const of = (pod: Pod): PodFailure | null => {
  const ended = endOf(pod)
  if (ended !== null) return ended
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled")
  if (scheduled?.status === "False") {
    return {
      detail: `No node has room for the machine (${scheduled.reason ?? "not scheduled"}): add nodes, or lower what sandboxes ask for.` +
        quoted(scheduled.message),
      retryable: true,
      isFinal: false
    }
  }
  return ofContainer(pod)
}

/** Whether its runner can be dialled. */
export const isReady = ({ status }: Pod): boolean =>
  status?.podIP !== undefined && status.phase === "Running" && status.containerStatuses?.[0]?.ready === true
