/** The runners of this worker's sandboxes: what is done in a machine goes through one connection that all share who need it. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, type Effect, type Scope } from "effect"
import type { RunnerConnection } from "./RunnerClient.ts"

export class Runners extends Context.Service<Runners, {
  /**
   * The connection to the sandbox's runner, opened when nobody has one: under the newest fence that this worker knows. It stays for as
   * long as somebody needs it. Fails where the sandbox has no machine (`retryable: false`), or it cannot be reached.
   */
  connection(sandboxId: SandboxId): Effect.Effect<RunnerConnection, HostError, Scope.Scope>
  /**
   * The same for who makes trees there, before the sandbox has a box or beside that: the machine is made when there is none, and whoever
   * provisions the sandbox, which ends a connection, waits until the scope is closed.
   */
  making(sandboxId: SandboxId): Effect.Effect<RunnerConnection, HostError, Scope.Scope>
  /** Whether this worker knows a machine of the sandbox. It may be gone. */
  has(sandboxId: SandboxId): Effect.Effect<boolean>
}>()("@slipway/runner/Runners") {}
