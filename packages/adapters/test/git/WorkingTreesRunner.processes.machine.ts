import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as MachineTrees from "./MachineTrees.ts"
import { agent, source, temporaryFolder } from "./Repositories.ts"

const layer = Layer.unwrap(Effect.map(temporaryFolder, (directory) => MachineTrees.layer({ directory })))

register(WorkingTreesContract.suite("git in machines", layer, { agent, source, workspace: MachineTrees.workspace }))
