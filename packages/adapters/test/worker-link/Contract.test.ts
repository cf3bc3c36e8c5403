import { Effect, Layer } from "effect"
import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import * as WorkingTreesGit from "@slipway/adapters/git/WorkingTreesGit"
import { agent, source, temporaryFolder } from "../git/Repositories.ts"
import { client, database, overTheLink, server } from "./Links.ts"

const git = Layer.unwrap(Effect.map(temporaryFolder, (directory) => WorkingTreesGit.layer({ directory })))
const linked = overTheLink.pipe(Layer.provide([client(), server]), Layer.provide([git, database]))

WorkingTreesContract.suite("git, read over the link", linked, { agent, source })
