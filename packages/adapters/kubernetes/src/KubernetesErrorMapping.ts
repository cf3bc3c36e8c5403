/** Explains refusals of the API server to the operator. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { KubernetesFailed } from "./KubernetesApi.ts"

interface Advice {
  readonly what: string
  readonly help: string
  readonly retryable: boolean
}

const adviceFor = ({ detail, reason, retryable, status }: KubernetesFailed): Advice | null => {
  if (status === 401) {
    return { what: "Kubernetes does not know this service.", help: "Is its service account or its token still there?", retryable: true }
  }
  if (status === 403) {
    if (/exceeded quota|must specify/iu.test(detail)) {
      return {
        what: "The namespace of sandboxes has no quota left.",
        help: "It goes on when other sandboxes end, or raise its ResourceQuota.",
        retryable: /exceeded quota/iu.test(detail)
      }
    }
    if (/violates PodSecurity/iu.test(detail)) {
      return {
        what: "The namespace of sandboxes refuses their pods.",
        help: "They need the level baseline: label the namespace pod-security.kubernetes.io/enforce=baseline.",
        retryable: false
      }
    }
    if (/being terminated/iu.test(detail)) {
      return { what: "The namespace of sandboxes is being deleted.", help: "Make it again, or name another one.", retryable: false }
    }
    if (/RuntimeClass/iu.test(detail)) {
      return { what: "The cluster does not have the runtime class.", help: "Name one of: kubectl get runtimeclasses", retryable: false }
    }
    return {
      what: "Kubernetes does not allow it.",
      help: "Give the service account the Role of the chart in the namespace of sandboxes.",
      retryable: false
    }
  }
  if (status === 404) {
    return { what: "The cluster does not have it.", help: "Is the namespace of sandboxes there?", retryable: false }
  }
  if (status === 400 || status === 422) {
    return { what: "Kubernetes does not take what it was asked for.", help: "Is the cluster of a version that has it?", retryable: false }
  }
  if (status === 429) return { what: "The API server has too much to do.", help: "", retryable: true }
  return reason === "" ? null : { what: "The API server refuses.", help: "", retryable }
}

export const hostError = (operation: HostError["operation"]) => (failed: KubernetesFailed): HostError => {
  const advice = adviceFor(failed)
  return advice === null
    ? new HostError({ operation, detail: failed.detail, retryable: failed.retryable })
    : new HostError({
      operation,
      detail: [advice.what, advice.help, `It says: ${failed.detail}`].filter((sentence) => sentence !== "").join(" "),
      retryable: advice.retryable
    })
}
