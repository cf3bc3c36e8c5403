import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import { Effect, Layer } from "effect"
import { agent, source, temporaryFolder } from "../git/Repositories.ts"
import * as Trees from "../git/Trees.ts"
import { client, database, overTheLink, server } from "./Links.ts"

const git = Layer.unwrap(Effect.map(temporaryFolder, (directory) => Trees.layer({ directory })))
const linked = overTheLink.pipe(Layer.provide([client(), server]), Layer.provide([git, database]))

WorkingTreesContract.suite("git, read over the link", linked, { agent, source })
