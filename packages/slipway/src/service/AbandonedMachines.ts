/** Ends the machines of sandboxes that are over, where the worker that made them never comes back. */
import type { MachinesKubernetes, Standing } from "@slipway/adapters/kubernetes/MachinesKubernetes"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Layer } from "effect"

/** They cost memory until then, and nobody waits for it. */
const EVERY = "5 minutes"

/** Every worker does: those of its own machine it reaps by itself. `machine`: this worker's. */
export const layer = (removeAbandoned: MachinesKubernetes["removeAbandoned"], machine: string) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const upkeep = yield* Upkeep
    const standing = (ids: ReadonlyArray<SandboxId>) =>
      Effect.map(upkeep.left(machine, ids), ({ over }) => new Map(over.map((id): [SandboxId, Standing] => [id, "over"])))
    yield* removeAbandoned(standing).pipe(
      Effect.tap((removed) => removed.length === 0 ? Effect.void : Effect.logInfo("ended machines of workers that are gone", { removed })),
      Effect.catch((error) => Effect.logWarning("machines of workers that are gone could not be looked for", error)),
      Effect.delay(EVERY),
      Effect.forever,
      Effect.forkScoped
    )
  }))
