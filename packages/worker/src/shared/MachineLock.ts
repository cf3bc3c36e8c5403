/** Keeps a worker's sessions and its reaper from working on the same sandbox of this machine at once. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Context, type Effect } from "effect"

export class MachineLock extends Context.Service<MachineLock, {
  /** The machine's name in leases. */
  readonly name: string
  /**
   * Runs `job` for each sandbox that `find` returns, except those with a session of this worker now or since `find` began. A new
   * session of that sandbox waits until `job` ends.
   */
  forUnused<E, R, E2, R2>(
    find: Effect.Effect<ReadonlyArray<SandboxId>, E, R>,
    job: (id: SandboxId) => Effect.Effect<void, E2, R2>
  ): Effect.Effect<void, E | E2, R | R2>
}>()("@slipway/worker/MachineLock") {}
