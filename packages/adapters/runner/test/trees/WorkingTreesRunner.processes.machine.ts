import { agent, source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as RepositorySuite from "@slipway/git/testing/RepositorySuite"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as MachineTrees from "../../testing/MachineTrees.ts"

const layerOf = (options: Omit<MachineTrees.Options, "directory"> = {}) =>
  Layer.unwrap(Effect.map(temporaryFolder, (directory) => MachineTrees.layer({ directory, ...options })))

register(WorkingTreesContract.suite("git in machines", layerOf(), { agent, source, workspace: MachineTrees.workspace }))
register(RepositorySuite.suite("git in machines", layerOf, MachineTrees.workspace, { hasModules: false }))
