/** Names, labels and annotations of a machine's objects. They are as trustworthy as the accounts that may make pods in the namespace. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Schema } from "effect"
import { createHash } from "node:crypto"
import type { KubernetesObject } from "./ObjectSchemas.ts"

export const INSTALLATION = "slipway.dev/installation"
export const MACHINE = "slipway.dev/machine"
export const SANDBOX = "slipway.dev/sandbox"
/** The fence of the lease that used the machine last. */
export const FENCE = "slipway.dev/fence"
/** An annotation: of the runner's certificate, SHA-256 in hex. */
export const CERTIFICATE = "slipway.dev/certificate"

/** Network policies select pods of sandboxes by this label. */
export const COMPONENT = "app.kubernetes.io/component"
export const COMPONENT_NAME = "sandbox"

const suffixOf = (installation: string): string => createHash("sha256").update(installation).digest("hex").slice(0, 8)

/** One name for each sandbox of an installation, so that Kubernetes refuses a second machine. */
export const nameOf = (installation: string, sandboxId: SandboxId): string => `slipway-${sandboxId.slice(2)}-${suffixOf(installation)}`

export const digestOf = (certificate: string): string => createHash("sha256").update(certificate).digest("hex")

const isSandboxId = Schema.is(SandboxId)

export interface Marks {
  readonly sandboxId: SandboxId
  readonly machine: string
  readonly fence: number
}

/** `null`: it is not a machine of a sandbox. */
export const marksOf = ({ metadata: { labels = {} } }: KubernetesObject): Marks | null => {
  const { [FENCE]: fence = "", [MACHINE]: machine, [SANDBOX]: sandboxId } = labels
  return isSandboxId(sandboxId) && machine !== undefined && /^\d{1,15}$/u.test(fence)
    ? { sandboxId, machine, fence: Number(fence) }
    : null
}
