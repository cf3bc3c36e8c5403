/** The machine that a worker runs on, of which several parts of it must not do things at once. */
import type { SandboxId } from "@slipway/domain/SandboxId"
import { Context, type Effect } from "effect"

export class ThisMachine extends Context.Service<ThisMachine, {
  /** As leases name it. */
  readonly name: string
  /**
   * Does `job` for each of what `find` finds on this machine, unless this worker works for that sandbox or has since `find` began; a
   * session of it that begins meanwhile waits.
   */
  forUnused<E, R, E2, R2>(
    find: Effect.Effect<ReadonlyArray<SandboxId>, E, R>,
    job: (id: SandboxId) => Effect.Effect<void, E2, R2>
  ): Effect.Effect<void, E | E2, R | R2>
}>()("@slipway/worker/ThisMachine") {}
