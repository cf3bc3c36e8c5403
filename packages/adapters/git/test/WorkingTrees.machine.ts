/** The same trees, with git in boxes that keep something in. */
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as Bubblewrap from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Gvisor from "@slipway/machine/testing/hosts/gvisor.fixture"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { describe } from "vitest"
import * as LfsSuite from "../testing/LfsSuite.ts"
import { agent, source } from "../testing/Repositories.ts"
import * as RepositorySuite from "../testing/RepositorySuite.ts"
import * as Trees from "../testing/Trees.ts"

const layerOf = <E>(
  hostIn: (folder: string, options: Pick<Bubblewrap.Options, "workspaceOf">) => Layer.Layer<SandboxHost, E, Egress.Egress>
) =>
(options: Omit<Trees.Options, "directory"> = {}) =>
  Layer.unwrap(
    Effect.map(
      Bubblewrap.openFolder,
      (folder) => {
        const directory = join(folder, "trees")
        const host = hostIn(folder, { workspaceOf: workspacesIn(directory) })
        return Trees.layerOn(Layer.provide(host, Egress.layer({ allow: new Set() })), { directory, ...options })
      }
    )
  )

const kinds = [
  ["bubblewrap", Bubblewrap.absent, layerOf(Bubblewrap.hostIn)],
  ["gVisor", Gvisor.absent, layerOf(Gvisor.hostIn)]
] as const

for (const [kind, absent, layer] of kinds) {
  describe.skipIf(absent !== undefined)(`boxes of ${kind}${absent === undefined ? "" : ` (${absent})`}`, () => {
    register(WorkingTreesContract.suite(`git in ${kind}`, layer(), { agent, source, workspace: Trees.workspace }))
    register(RepositorySuite.suite(`git in ${kind}`, layer, Trees.workspace))
    register(LfsSuite.suite(`git in ${kind}`, layer, Trees.workspace))
  })
}
