/** The fate of trees where the system refuses to read: an existing file is never taken for absent. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Push from "@slipway/git/publish/Push"
import { source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import type { HostRepository } from "@slipway/git/tree/HostRepository"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as RefusedReads from "@slipway/machine/testing/RefusedReads"
import { Context, Effect, Layer } from "effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as MachineTrees from "../../testing/MachineTrees.ts"

const app = RepoName.make("acme/app")
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const author = { name: "Slipway", email: "slipway@example.com" }

const world = Effect.gen(function*() {
  const directory = yield* temporaryFolder
  const origin = yield* source({ "README.md": "# app\n" })
  const services = yield* Layer.build(Trees.layer({ directory }))
  const trees = Context.get(services, WorkingTrees)
  const prepare = trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] })
  const { baseSha } = yield* prepare
  const tree = join(workspacesIn(directory)(key.sandboxId), "app")
  writeFileSync(join(tree, "mine"), "of the agent\n")
  const kept = join(directory, "sandboxes", key.sandboxId, "git", "acme+app")
  return { directory, origin, trees, host: Context.get(services, SandboxHost), prepare, baseSha, tree, kept }
})

const mine = (tree: string) => existsSync(join(tree, "mine")) ? readFileSync(join(tree, "mine"), "utf8") : "gone"

describe("trees that cannot be read for a moment", () => {
  it.live("are there, and nothing of them is made anew by a boot", () =>
    Effect.gen(function*() {
      const { directory, prepare, tree, trees } = yield* world
      const reads = yield* RefusedReads.refusals((path) => path.startsWith(directory))
      let had: Array<boolean> = []
      const act = Effect.gen(function*() {
        had.push(yield* trees.has(key.sandboxId), yield* trees.isWhole(key.sandboxId))
        yield* prepare
      })
      const count = yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.gen(function*() {
          assert.notInclude(had, false, which)
          had = []
          assert.strictEqual(mine(tree), "of the agent\n", which)
          assert.isTrue(yield* trees.has(key.sandboxId), which)
        }))
      assert.isAtLeast(count, 3)
    }))

  it.live("are kept by the next process, whether it starts or not", () =>
    Effect.gen(function*() {
      const { directory, host, origin, tree } = yield* world
      const reads = yield* RefusedReads.refusals((path) => path.startsWith(directory))
      const start = Effect.scoped(Effect.gen(function*() {
        // A loss of power before this start.
        writeFileSync(join(directory, "machine"), JSON.stringify({ bootId: "before", torn: [] }))
        const options = { directory, keepUnused: "1 millis" } as const
        const services = yield* Layer.build(Layer.provide(WorkingTreesGit.layer(options), Layer.succeed(SandboxHost, host)))
        const trees = Context.get(services, WorkingTrees)
        yield* Effect.exit(trees.makeRoom)
        return trees
      }))
      const count = yield* RefusedReads.oneByOne(reads, start, (which) =>
        Effect.gen(function*() {
          assert.strictEqual(mine(tree), "of the agent\n", which)
          // Its objects are those of the mirror.
          const services = yield* Layer.build(Trees.layer({ directory }))
          const trees = Context.get(services, WorkingTrees)
          assert.isTrue(yield* trees.has(key.sandboxId), which)
          assert.isFalse(yield* trees.isWhole(key.sandboxId), which)
          assert.strictEqual((yield* trees.compare(key, "README.md", 100)).base?.content, "# app\n", which)
        }).pipe(Effect.scoped))
      assert.isAtLeast(count, 8)
      assert.isTrue(existsSync(origin.path))
    }))

  it.live("remember what was pushed: a checkpoint that is taken meanwhile has all of it", () =>
    Effect.gen(function*() {
      const { kept, origin, tree, trees } = yield* world
      const { remote } = origin
      let expected: string | null = null
      for (const content of ["1\n", "2\n"]) {
        writeFileSync(join(tree, "mine"), content)
        const { sha }: { readonly sha: string } = yield* trees.snapshot(key, {
          message: content,
          author,
          since: { head: expected, merges: [], remote }
        })
        yield* trees.push(key, { sha, headRef: "slipway/x", remote, expected })
        expected = sha
      }
      const reads = yield* RefusedReads.refusals((path) => path.startsWith(kept))
      const repository = { gitDir: kept } as HostRepository
      const known = Effect.all([Push.remembered(repository), Push.published(repository)])
      const before = yield* known
      assert.deepStrictEqual([before[0].published, before[0].pushed[0]?.commits.length], [before[1] ?? "", 2])
      const told: Array<typeof before> = []
      const act = Effect.map(known, (now) => void told.push(now))
      const count = yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.sync(() => {
          for (const now of told.splice(0)) assert.deepStrictEqual(now, before, which)
        }))
      assert.isAtLeast(count, 3)
    }))
})

describe("trees in a machine, where what the worker has of them cannot be read for a moment", () => {
  it.live("are there", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const origin = yield* source({ "README.md": "# app\n" })
      const services = yield* Layer.build(MachineTrees.layer({ directory }))
      const trees = Context.get(services, WorkingTrees)
      const machines = Context.get(services, MachineTrees.Machines)
      const prepare = trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] })
      yield* prepare
      const tree = join(machines.workspace(key.sandboxId), "app")
      writeFileSync(join(tree, "mine"), "of the agent\n")
      const reads = yield* RefusedReads.refusals((path) => path.startsWith(join(directory, "sandboxes")))
      let told: Array<boolean> = []
      const act = Effect.gen(function*() {
        told.push(yield* trees.has(key.sandboxId))
        told.push(yield* trees.isWhole(key.sandboxId))
        yield* prepare
      })
      const count = yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.gen(function*() {
          assert.notInclude(told, false, which)
          told = []
          assert.strictEqual(mine(tree), "of the agent\n", which)
          assert.isTrue(yield* trees.has(key.sandboxId), which)
        }))
      assert.isAtLeast(count, 5)
    }))

  it.live("stay torn: a moment in which that is unknown is not noted as the opposite", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const origin = yield* source({ "README.md": "# app\n" })
      const services = yield* Layer.build(MachineTrees.layer({ directory }))
      const trees = Context.get(services, WorkingTrees)
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] })
      const record = join(directory, "sandboxes", key.sandboxId, "git", "acme+app", "machine")
      writeFileSync(record, JSON.stringify({ ...JSON.parse(readFileSync(record, "utf8")), kernel: "another" }))
      const reads = yield* RefusedReads.refusals((path) => path.startsWith(join(directory, "sandboxes")))
      yield* RefusedReads.oneByOne(reads, trees.isWhole(key.sandboxId), (which) =>
        Effect.gen(function*() {
          assert.isFalse(yield* trees.isWhole(key.sandboxId), which)
        }))
    }))
})
