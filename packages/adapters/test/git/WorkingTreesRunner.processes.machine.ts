import { register } from "@slipway/domain/testing/runners/Vitest"
import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import { Effect, Layer } from "effect"
import * as MachineTrees from "./MachineTrees.ts"
import { agent, source, temporaryFolder } from "./Repositories.ts"

const layer = Layer.unwrap(Effect.map(temporaryFolder, (directory) => MachineTrees.layer({ directory })))

register(WorkingTreesContract.suite("git in machines", layer, { agent, source, workspace: MachineTrees.workspace }))
