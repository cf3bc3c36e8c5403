/** Repositories whose objects the box, which is another user, could not read: an earlier version, or a narrow umask, made them so. */
import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Context, Effect, Exit, Layer, Scope, Stream } from "effect"
import { chmodSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }

const below = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).map((entry) => join(entry.parentPath, entry.name))

/** Those that another user cannot read, or get through. */
const closed = (objects: string) =>
  [objects, ...below(objects)].filter((path) => {
    const stats = statSync(path)
    const rights = stats.isDirectory() ? 0o055 : 0o444
    return (stats.mode & rights) !== rights
  })

const world = Effect.gen(function*() {
  const directory = yield* temporaryFolder
  const origin = yield* source({ "README.md": "# app\n" })
  const first = yield* Scope.make()
  const trees = Context.get(yield* Scope.provide(Layer.build(Trees.layer({ directory })), first), WorkingTrees)
  yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] })
  const tree = join(workspacesIn(directory)(key.sandboxId), "app")
  writeFileSync(join(tree, "mine"), "of the agent\n")
  const objects = join(directory, "sandboxes", key.sandboxId, "git", "acme+app", "objects")
  return { directory, origin, first, trees, objects }
})

it.live("are readable after the next start", () =>
  Effect.gen(function*() {
    const { directory, first, objects, trees } = yield* world
    yield* trees.snapshot(key, { message: "mine", author: { name: "Slipway", email: "slipway@example.com" } })
    yield* Scope.close(first, Exit.void)
    const packs = below(join(objects, "pack")).filter((name) => /\.(?:pack|idx)$/u.test(name))
    assert.isNotEmpty(packs)
    // As the version before left them.
    for (const pack of packs) chmodSync(pack, 0o600)
    chmodSync(join(objects, "pack"), 0o700)
    const after = Context.get(yield* Layer.build(Trees.layer({ directory })), WorkingTrees)
    assert.deepStrictEqual(closed(objects), [])
    assert.isTrue(yield* after.has(key.sandboxId))
  }))

it.live("are readable where the service has a narrow umask: after a boot, a publication and a restoration", () =>
  Effect.gen(function*() {
    const narrow = Effect.sync(() => process.umask(0o077))
    yield* Effect.acquireRelease(narrow, (before) => Effect.sync(() => process.umask(before)))
    const { objects, origin, trees } = yield* world
    assert.deepStrictEqual(closed(objects), [], "after a boot")
    const { sha } = yield* trees.snapshot(key, { message: "mine", author: { name: "Slipway", email: "slipway@example.com" } })
    yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
    assert.deepStrictEqual(closed(objects), [], "after a publication")
    const content = yield* Effect.scoped(Effect.gen(function*() {
      const saved = yield* trees.save(key.sandboxId, [{ repo: app }])
      return Buffer.concat(yield* Stream.runCollect(saved.content))
    }))
    assert.deepStrictEqual(closed(objects), [], "after a checkpoint")
    yield* trees.restore(key.sandboxId, Stream.make(content), [{ repo: app, remote: origin.remote }])
    assert.deepStrictEqual(closed(objects), [], "after a restoration")
  }))
