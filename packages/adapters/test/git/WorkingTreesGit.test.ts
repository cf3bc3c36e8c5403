import { Effect, Layer } from "effect"
import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import * as WorkingTreesGit from "@slipway/adapters/git/WorkingTreesGit"
import { agent, source, temporaryFolder } from "./Repositories.ts"

WorkingTreesContract.suite(
  "git",
  Layer.unwrap(Effect.map(temporaryFolder, (directory) => WorkingTreesGit.layer({ directory }))),
  { agent, source }
)
