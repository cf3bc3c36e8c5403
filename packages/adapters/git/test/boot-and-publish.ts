/** A worker that boots a tree, changes it and publishes, to be killed on the way. Arguments: directory, origin, sandbox. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Trees from "../testing/Trees.ts"

const [directory = "", url = "", sandbox = ""] = process.argv.slice(2)
const key = { sandboxId: SandboxId.make(sandbox), repo: RepoName.make("acme/app") }
const remote = { url, authorization: null }

await Effect.gen(function*() {
  const trees = yield* WorkingTrees
  yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  writeFileSync(join(workspacesIn(directory)(key.sandboxId), "app", "new"), "new\n")
  const { sha } = yield* trees.snapshot(key, { message: "x", author: { name: "Slipway", email: "slipway@example.com" } })
  yield* trees.push(key, { sha, headRef: "slipway/x", remote })
}).pipe(Effect.provide(Trees.layer({ directory })), Effect.runPromise)
