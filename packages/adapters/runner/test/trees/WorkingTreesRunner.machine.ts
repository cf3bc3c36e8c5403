/** The same trees in machines that are some: with a user, walls and folders of their own, made by the worked example. */
import { agent, source } from "@slipway/git/testing/Repositories"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import { describe } from "vitest"
import * as Machines from "../../testing/Machines.fixture.ts"
import * as RealMachines from "../../testing/RealMachines.ts"

const layer = (kind: Machines.Kind) => Layer.unwrap(Effect.map(Machine.temporaryFolder, (folder) => RealMachines.layerIn(folder, kind)))

for (const kind of ["bubblewrap", "gvisor", "docker"] as const) {
  const absent = Machines.absent(kind)
  describe.skipIf(absent !== undefined)(`machines of ${kind}${absent === undefined ? "" : ` (${absent})`}`, () => {
    register(
      WorkingTreesContract.suite(`git in machines of ${kind}`, layer(kind), {
        agent,
        source,
        workspace: (sandboxId) => Effect.orDie(Effect.scoped(Machines.fixture(kind).workspace(sandboxId)))
      })
    )
  })
}
