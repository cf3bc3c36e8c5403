/** Boots on real trees whose disk is full, read-only or out of inodes. Mounting one takes root. */
import { assert } from "@effect/vitest"
import { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SetupCachesFolder from "@slipway/machine/setup-caches/SetupCachesFolder"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Context, Effect, Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { create, eventsOf, pass, REPO, scenario, startWorker, until, type World } from "./Doubles.ts"

const MiB = 2 ** 20
const LARGE = "large.bin"

/** A repository whose one file takes `bytes`, which nothing makes smaller. */
const repository = (bytes: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const path = mkdtempSync(join(tmpdir(), "slipway-origin-"))
      const git = (...args: ReadonlyArray<string>) =>
        execFileSync("git", ["-C", path, "-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { stdio: "pipe" })
      git("init", "--quiet", "--initial-branch=main")
      writeFileSync(join(path, LARGE), randomBytes(bytes))
      git("add", "--all")
      git("commit", "--quiet", "--message", "all")
      return { url: path, authorization: null }
    }),
    ({ url }) => Effect.sync(() => rmSync(url, { recursive: true }))
  )

/** A worker whose trees lie on a disk of 24 MiB. */
const setUp = Effect.fnUntraced(function*(world: World, bytes: number) {
  const disk = yield* SmallDisk.make(24)
  const directory = join(disk.path, "trees")
  const remote = yield* repository(bytes)
  const host = yield* SandboxHost
  const trees = Context.get(
    yield* Layer.build(Layer.provide(WorkingTreesGit.layer({ directory }), Layer.succeed(SandboxHost, host))),
    WorkingTrees
  )
  const source = yield* SourceHost
  const caches = Context.get(
    yield* Layer.build(SetupCachesFolder.layer({ directory: join(disk.path, "caches"), maximumBytes: 20 * MiB })),
    SetupCaches
  )
  yield* startWorker(world).pipe(
    Effect.provideService(WorkingTrees, trees),
    Effect.provideService(SetupCaches, caches),
    Effect.provideService(SourceHost, { ...source, remote: () => Effect.succeed(remote) })
  )
  return { caches, directory, disk, trees }
})

const isOver = ({ status }: { readonly status: string }) => status === "failed" || status === "running"

if (SmallDisk.isPossible) {
  for (const trouble of SmallDisk.TROUBLES) {
    scenario(
      `a disk that is ${trouble} fails the sandbox as boot_failed, in words; when it is mended the next one boots`,
      (world) =>
        Effect.gen(function*() {
          const { directory, disk } = yield* setUp(world, MiB)
          disk.spoil(trouble)
          const failed = yield* until(yield* create(), isOver)
          assert.deepStrictEqual([failed.status, failed.reason], ["failed", "boot_failed"])
          assert.match(
            failed.error ?? "",
            trouble === "read-only" ? /disk is read-only\. The operator/u : /no space left on the machine's disk\. End unused sandboxes/u
          )
          assert.include((yield* eventsOf(failed.id, "sandbox.error")).at(-1)?.data, {
            code: "boot_failed",
            retryable: trouble !== "read-only"
          })
          disk.mend()
          const next = yield* until(yield* create(), isOver)
          assert.strictEqual(next.status, "running")
          assert.isTrue(existsSync(join(workspacesIn(directory)(next.id), "site", LARGE)))
        })
    )
  }

  scenario(
    "leftovers of finished sandboxes, and unused mirrors, go before a boot fails for want of space",
    (world) =>
      Effect.gen(function*() {
        // A mirror and a tree of it take twice as much: for two of them there is no room.
        const { directory, trees } = yield* setUp(world, 7 * MiB)
        const left = SandboxId.make("c_zzzzzzzzzzzz")
        const other = yield* repository(7 * MiB)
        yield* trees.prepare({ sandboxId: left, repo: REPO }, { remote: other, ref: undefined, defaultBranch: "main", repos: [REPO] })
        yield* pass("1 second")
        const { error, id, status } = yield* until(yield* create(), isOver)
        assert.deepStrictEqual([status, error], ["running", null])
        assert.isTrue(existsSync(join(workspacesIn(directory)(id), "site", LARGE)))
        assert.isFalse(yield* trees.has(left))
      })
  )

  scenario(
    "unused caches go before a boot fails for want of space",
    (world) =>
      Effect.gen(function*() {
        const { caches } = yield* setUp(world, 7 * MiB)
        const find = caches.find({ grantId: "grant", repo: REPO, key: "key" }, 0)
        const missed = yield* Effect.scoped(Effect.flatMap(find, (found) =>
          found._tag === "Hit" ? Effect.succeed(false) : Effect.as(found.fill(Stream.make(randomBytes(12 * MiB))), true)))
        assert.isTrue(missed)
        assert.strictEqual((yield* Effect.scoped(find))._tag, "Hit")
        const { error, status } = yield* until(yield* create(), isOver)
        assert.deepStrictEqual([status, error], ["running", null])
        assert.strictEqual((yield* Effect.scoped(find))._tag, "Miss")
      })
  )
}
