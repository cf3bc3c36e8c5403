/** A worker that restores a tree, to be killed on the way. Arguments: directory, origin, sandbox, file of the archive. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Stream } from "effect"
import { readFileSync } from "node:fs"
import * as Trees from "../testing/Trees.ts"

const [directory = "", url = "", sandbox = "", archive = ""] = process.argv.slice(2)

await Effect.gen(function*() {
  const trees = yield* WorkingTrees
  yield* trees.restore(SandboxId.make(sandbox), Stream.make(readFileSync(archive)), [{
    repo: RepoName.make("acme/app"),
    remote: { url, authorization: null }
  }])
}).pipe(Effect.provide(Trees.layer({ directory })), Effect.runPromise)
