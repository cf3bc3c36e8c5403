import { agent, source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as MachineTrees from "../../testing/MachineTrees.ts"

const layer = Layer.unwrap(Effect.map(temporaryFolder, (directory) => MachineTrees.layer({ directory })))

register(WorkingTreesContract.suite("git in machines", layer, { agent, source, workspace: MachineTrees.workspace }))
