/** Sandboxes that are over, whose machine is gone with all it had: their last checkpoint is what is left to publish. */
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import type { Leased, Lease } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import { Effect, Layer } from "effect"
import * as BootBreaker from "../../src/boot/BootBreaker.ts"
import * as Checkpoint from "../../src/checkpoint/Checkpoint.ts"
import * as SandboxSession from "../../src/SandboxSession.ts"
import * as LeasedSandbox from "../../src/shared/LeasedSandbox.ts"
import { MachineLock } from "../../src/shared/MachineLock.ts"
import * as WorkerCapacity from "../../src/shared/WorkerCapacity.ts"

/** The services that a session needs beside store, trees, boxes and source host. */
const means = Layer.mergeAll(
  AgentRuntimeProfiles.layer(),
  CheckpointsPostgres.layer,
  IdsNode.layer,
  MaintenancePostgres.layer,
  SetupsPostgres.layer,
  Layer.succeed(MachineLock, { name: "machine", forUnused: () => Effect.void }),
  Layer.succeed(ModelCatalogue, { default: offlineDemo.id, models: [offlineDemo] })
)

const hold = Effect.fnUntraced(function*(lease: Lease, grantId: string, moved: Leased["moved"]) {
  const sandbox = yield* SandboxStore.use((store) => store.find({ grantId, id: lease.sandboxId }))
  return yield* LeasedSandbox.make({ lease, sandbox, agentSession: null, moved })
})

/** Takes the checkpoint that the sandbox owes, as the worker does that has it. */
export const takeCheckpoint = Effect.fnUntraced(function*(lease: Lease, grantId: string) {
  const box = yield* SandboxHost.use((host) => host.provision(lease))
  yield* Checkpoint.take(yield* hold(lease, grantId, null), box)
}, Effect.provide(means))

/** All that a session does for a sandbox that is over: it publishes, and leaves nothing on this machine. */
export const serve = Effect.fnUntraced(
  function*(lease: Lease, grantId: string, moved: Leased["moved"]) {
    const capacity = yield* WorkerCapacity.make({ slots: 0, agents: 0, boots: 0 })
    const breaker = yield* BootBreaker.make
    yield* SandboxSession.run(yield* hold(lease, grantId, moved), { capacity, breaker, reservation: null, moved })
  },
  Effect.scoped,
  Effect.provide(means)
)
