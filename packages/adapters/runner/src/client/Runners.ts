/** The runners of this worker's sandboxes. All users of a machine share one connection. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, type Effect, type Scope } from "effect"
import type { RunnerConnection } from "./RunnerClient.ts"

export class Runners extends Context.Service<Runners, {
  /**
   * The connection to the sandbox's runner, opened for its first user under the newest fence that this worker knows, and closed after its
   * last. Fails if the sandbox has no machine (`retryable: false`), or if it cannot be reached.
   */
  connection(sandboxId: SandboxId): Effect.Effect<RunnerConnection, HostError, Scope.Scope>
  /**
   * The same for making trees, before the sandbox has a box or meanwhile: a missing machine is made, and provisioning the sandbox, which
   * ends a connection, waits until the scope is closed.
   */
  making(sandboxId: SandboxId): Effect.Effect<RunnerConnection, HostError, Scope.Scope>
  /** Whether this worker knows a machine of the sandbox. It may be gone. */
  has(sandboxId: SandboxId): Effect.Effect<boolean>
}>()("@slipway/runner/Runners") {}
