import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Clock, Effect, Layer } from "effect"
import { statSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { agent, gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const layer = Layer.unwrap(Effect.map(temporaryFolder, (directory) => Trees.layer({ directory })))
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }

register(WorkingTreesContract.suite("git", layer, { agent, source, workspace: Trees.workspace }))

const secondOf = (time: number) => Math.floor(time / 1_000)

/** A second after now: what git says of a tree is compared with this clock. */
const nextSecond = Effect.map(Clock.Clock, (clock): Clock.Clock =>
  Object.assign(Object.create(clock), {
    currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + 1_000,
    currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + 1_000)
  }))

// Most builds of git compare times by the second. The rule is about a change in the second of the checkout.
it.live("notices in a later second what was changed, with its size kept, in the second of the checkout", () =>
  Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const workspace = yield* Trees.workspace(key.sandboxId)
    const { remote } = yield* source({ v: "0\n" })
    const tree = join(workspace, "app")
    const changeAtOnce = Effect.gen(function*() {
      yield* trees.remove(key.sandboxId)
      yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      const checkedOut = statSync(join(tree, "v")).ctimeMs
      yield* agent.write(join(tree, "v"), "1\n")
      yield* agent.write(join(tree, "new"), "1\n")
      return secondOf(statSync(join(tree, "new")).ctimeMs) === secondOf(checkedOut)
    })
    yield* Effect.repeat(changeAtOnce, { until: (isSameSecond) => isSameSecond, times: 20 })
    const { entries } = yield* Effect.provideService(trees.list(key, ""), Clock.Clock, yield* nextSecond)
    assert.deepStrictEqual(entries.map(({ name, status }) => [name, status]), [["new", "untracked"], ["v", "modified"]])
    assert.deepInclude(entries[1], { additions: 1, deletions: 1 })
  }).pipe(Effect.provide(layer)))

it.live("asks git once for the same files of the same commit, and again for those of another", () =>
  Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const workspace = yield* Trees.workspace(key.sandboxId)
    const origin = yield* source({ v: "0\n" })
    yield* origin.commit("feature/x", { v: "1\n" })
    const other = { ...key, sandboxId: SandboxId.make("c_bbbbbbbbbbbb") }
    yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    yield* trees.prepare(other, { remote: origin.remote, ref: "feature/x", defaultBranch: "main", repos: [key.repo] })
    const contentFor = (of: typeof key, path: string) =>
      Effect.map(trees.readBase(of, [path], { maximumBytes: 100 }), (files) => Buffer.from(files.get(path)?.content ?? []).toString())
    assert.strictEqual(yield* contentFor(key, "v"), "0\n")
    assert.strictEqual(yield* contentFor(other, "v"), "1\n")
    // Git finds no commit any more.
    yield* Effect.promise(() => rm(join(workspace, "../git/acme+app/objects/info/alternates")))
    assert.strictEqual(yield* contentFor(key, "v"), "0\n")
    assert.strictEqual((yield* Effect.exit(contentFor(key, "w")))._tag, "Failure")
  }).pipe(Effect.provide(layer)))

it.live("git works in the tree: it is clean, on its branch, with its history", () =>
  Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const workspace = yield* Trees.workspace(key.sandboxId)
    const origin = yield* source({ v: "0\n" })
    yield* origin.commit("feature/x", { v: "1\n" })
    yield* trees.prepare(key, { remote: origin.remote, ref: "feature/x", defaultBranch: "main", repos: [key.repo] })
    const tree = join(workspace, "app")
    assert.strictEqual(gitIn(tree, "status", "--porcelain", "--branch"), "## feature/x")
    assert.strictEqual(gitIn(tree, "rev-list", "--count", "HEAD"), "2")
    yield* agent.write(join(tree, "v"), "2\n")
    gitIn(tree, "commit", "--quiet", "--all", "--message", "mine")
    assert.strictEqual(gitIn(tree, "rev-list", "--count", "origin/feature/x..HEAD"), "1")
    const { entries } = yield* trees.list(key, "")
    assert.deepStrictEqual(entries.map(({ status }) => status), ["modified"])
  }).pipe(Effect.provide(layer)))
