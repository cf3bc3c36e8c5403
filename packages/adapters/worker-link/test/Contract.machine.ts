import { CheckpointTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { agent, source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import { beside, client, database, overTheLink, server } from "./Links.ts"

const git = Layer.unwrap(Effect.map(temporaryFolder, (directory) => Trees.layer({ directory })))
const linked = overTheLink.pipe(
  Layer.provide([client(), server()]),
  Layer.provide([LocalTrees.layer, beside()]),
  Layer.provide([database, CheckpointTrees.layerNone]),
  Layer.provideMerge(git)
)

register(WorkingTreesContract.suite("git, read over the link", linked, { agent, source, workspace: Trees.workspace }))
