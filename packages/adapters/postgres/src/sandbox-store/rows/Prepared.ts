import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"

/** A request for a sandbox as `insertSandboxes` takes it. Encoded before it joins a batch. */
export interface Prepared {
  readonly id: SandboxId
  readonly grantId: string
  readonly route: string
  readonly key: string | null
  /** JSON. */
  readonly row: string
  readonly sandbox: Sandbox
  readonly topics: ReadonlyArray<string>
}
