/** Trees of a sandbox that is at rest: readers see of them what they saw before. */
import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Context, Effect, Layer, Option } from "effect"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }

it.live("are listed with the same statuses as before, and get no box by that", () =>
  Effect.gen(function*() {
    const origin = yield* source({ changed: "1\n", deleted: "1\n", same: "1\n" })
    const directory = yield* temporaryFolder
    const services = yield* Layer.build(Trees.layer({ directory }))
    const [trees, host] = [Context.get(services, WorkingTrees), Context.get(services, SandboxHost)]
    const remote = { url: origin.path, authorization: null }
    yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [app] })
    const tree = join(workspacesIn(directory)(key.sandboxId), trees.folder(app, [app]))
    writeFileSync(join(tree, "changed"), "22\n")
    writeFileSync(join(tree, "added"), "1\n")
    rmSync(join(tree, "deleted"))
    const listed = Effect.map(trees.list(key, ""), ({ entries }) => entries.map(({ name, status }) => [name, status]))
    const before = yield* listed
    assert.deepStrictEqual(before.map(([name]) => name), ["added", "changed", "same"])
    assert.isTrue(before.some(([, status]) => status !== before[2]?.[1]))
    yield* host.rest(key.sandboxId)
    writeFileSync(join(tree, "same"), "22\n")
    const after = yield* listed
    assert.deepStrictEqual(after.slice(0, 2), before.slice(0, 2))
    assert.strictEqual(after[2]?.[1], before[1]?.[1])
    assert.isTrue(Option.isNone(yield* host.find(key.sandboxId)))
  }))
