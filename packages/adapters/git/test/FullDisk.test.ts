/** The disk of the trees is full, read-only or out of inodes: the caller is told so, and work goes on when the disk is mended. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Effect, Exit, Stream } from "effect"
import { randomBytes } from "node:crypto"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { agent, source } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const here = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const next = { sandboxId: SandboxId.make("c_bbbbbbbbbbbb"), repo: app }
const author = { name: "Slipway", email: "slipway@example.com" }

const WORDS = {
  "full": /There is no space left on the machine's disk/u,
  "read-only": /The machine's disk is read-only/u,
  "out of inodes": /There is no space left on the machine's disk/u
}

const setUp = Effect.fnUntraced(function*() {
  const disk = yield* SmallDisk.make(24)
  const origin = yield* source({ "a.txt": "one\n" })
  const directory = join(disk.path, "trees")
  const trees = yield* Trees.make({ directory })
  const options = { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] }
  return { disk, origin, directory, trees, options }
})

describe.skipIf(!SmallDisk.isPossible)("a disk (needs root, to mount)", () => {
  for (const trouble of SmallDisk.TROUBLES) {
    it.live(`that is ${trouble}: a tree is refused in words, and made when the disk is mended`, () =>
      Effect.gen(function*() {
        const { disk, options, origin, trees } = yield* setUp()
        yield* trees.prepare(here, options)
        yield* origin.commit("main", { "b.txt": "two\n" })
        disk.spoil(trouble)
        const refused = yield* Effect.flip(trees.prepare(next, options))
        assert.strictEqual(refused._tag, "TreesUnavailable")
        assert.match(refused.message, WORDS[trouble])
        assert.notInclude(refused.message, disk.path)
        disk.mend()
        yield* trees.prepare(next, options)
      }).pipe(Effect.scoped))

    it.live(`that is ${trouble}: nothing is half restored, and what was there stays`, () =>
      Effect.gen(function*() {
        const { directory, disk, options, origin, trees } = yield* setUp()
        yield* trees.prepare(here, options)
        const file = join(workspacesIn(directory)(here.sandboxId), "app", "a.txt")
        yield* agent.write(file, randomBytes(1_000_000).toString("hex"))
        const bytes = yield* Effect.scoped(
          Effect.flatMap(trees.save(here.sandboxId, [{ repo: app }]), ({ content }) => Stream.runCollect(content))
        )
        yield* agent.write(file, "later\n")
        const restore = (sandboxId: SandboxId) =>
          trees.restore(sandboxId, Stream.fromIterable(bytes), [{ repo: app, remote: origin.remote }])
        disk.spoil(trouble)
        for (const sandboxId of [here.sandboxId, next.sandboxId]) {
          const refused = yield* Effect.flip(restore(sandboxId))
          assert.strictEqual(refused._tag, "TreesUnavailable")
          assert.match(refused.message, WORDS[trouble])
        }
        assert.deepStrictEqual(yield* trees.sandboxes, [here.sandboxId])
        assert.isFalse(yield* trees.has(next.sandboxId))
        assert.isTrue(yield* trees.has(here.sandboxId))
        disk.mend()
        assert.strictEqual((yield* trees.compare(here, "a.txt", 100)).working?.content, "later\n")
        for (const { sandboxId } of [here, next]) {
          yield* restore(sandboxId)
          assert.strictEqual((yield* trees.compare({ sandboxId, repo: app }, "a.txt", 3_000_000)).working?.size, 2_000_000)
        }
      }).pipe(Effect.scoped))

    it.live(`that is ${trouble}: files are read or said to be unavailable, and nothing breaks`, () =>
      Effect.gen(function*() {
        const { directory, disk, options, trees } = yield* setUp()
        yield* trees.prepare(here, options)
        yield* agent.write(join(workspacesIn(directory)(here.sandboxId), "app", "a.txt"), "changed\n")
        disk.spoil(trouble)
        const exits: ReadonlyArray<Exit.Exit<unknown, unknown>> = [
          yield* Effect.exit(trees.list(here, "")),
          yield* Effect.exit(trees.changes(here)),
          yield* Effect.exit(Effect.scoped(Effect.flatMap(trees.open(here, "a.txt", 100), ({ bytes }) => Stream.runDrain(bytes)))),
          yield* Effect.exit(trees.compare(here, "a.txt", 100)),
          yield* Effect.exit(trees.snapshot(here, { message: "m", author })),
          yield* Effect.exit(trees.remove(next.sandboxId))
        ]
        for (const exit of exits) {
          assert.isFalse(Exit.isFailure(exit) && Exit.hasDies(exit), String(exit))
          if (Exit.isFailure(exit)) assert.match(String(exit), /TreesUnavailable|PushFailed/u)
        }
        disk.mend()
        const { entries } = yield* trees.list(here, "")
        assert.deepStrictEqual(entries.map(({ name, status }) => [name, status]), [["a.txt", "modified"]])
        yield* trees.snapshot(here, { message: "m", author })
      }).pipe(Effect.scoped))
  }

  it.live("that is read-only: what is to be removed is said to be there still", () =>
    Effect.gen(function*() {
      const { disk, options, trees } = yield* setUp()
      yield* trees.prepare(here, options)
      disk.spoil("read-only")
      const exit = yield* Effect.exit(trees.remove(here.sandboxId))
      assert.isFalse(Exit.isFailure(exit) && Exit.hasDies(exit) && !/cannot be removed|boxes/u.test(String(exit)), String(exit))
      disk.mend()
      yield* trees.remove(here.sandboxId)
      assert.isFalse(yield* trees.has(here.sandboxId))
    }).pipe(Effect.scoped))

  for (const trouble of ["full", "out of inodes"] as const) {
    it.live(
      `that is ${trouble}: unused mirrors are removed to make room, however young; a borrowed mirror stays`,
      () =>
        Effect.gen(function*() {
          const { directory, disk, options, trees } = yield* setUp()
          const other = yield* source({ "large.bin": "x".repeat(100_000) })
          yield* trees.prepare(here, options)
          yield* trees.prepare(next, { ...options, remote: other.remote })
          yield* trees.remove(next.sandboxId)
          const mirrors = () => readdirSync(join(directory, "mirrors")).filter((name) => name.endsWith(".git")).length
          assert.strictEqual(mirrors(), 2)
          disk.spoil(trouble)
          yield* trees.makeRoom
          assert.strictEqual(mirrors(), 1)
          assert.deepStrictEqual(readdirSync(join(directory, "mirrors", "removed")), [])
          assert.isTrue(existsSync(dirname(workspacesIn(directory)(here.sandboxId))))
          disk.mend()
          assert.strictEqual((yield* trees.compare(here, "a.txt", 100)).base?.content, "one\n")
        }).pipe(Effect.scoped)
    )
  }
})
