/** Trees in folders that the kernel keeps to their size. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Egress from "@slipway/machine/egress/Egress"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { defaults } from "@slipway/machine/host/Limits"
import { absent, hostIn, openFolder } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { lacking } from "@slipway/machine/testing/hosts/sized.fixture"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as WorkingTreesContract from "@slipway/testing/contracts/files/WorkingTreesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { agent, source } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const MiB = 2 ** 20
const app = RepoName.make("acme/app")
const here = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const next = { sandboxId: SandboxId.make("c_bbbbbbbbbbbb"), repo: app }
const author = { name: "Slipway", email: "slipway@example.com" }

const directoryOf = Effect.map(
  Effect.acquireRelease(openFolder, (folder) => Effect.sync(() => Mounts.unmount(folder))),
  (folder) => join(folder, "trees")
)

/** A service, as it is after its start. */
const started = Effect.fnUntraced(function*(directory: string, diskBytes = 64 * MiB) {
  const limits = { ...defaults, diskBytes }
  const folders = yield* SizedFolders.make({ directory, limits })
  const host = Layer.provide(
    hostIn(join(directory, ".."), { folders, limits, workspaceOf: workspacesIn(directory) }),
    Egress.layer({ allow: new Set() })
  )
  return { folders, layer: Trees.layerOn(host, { directory, folders, keepUnused: null }) }
})

const trees = (directory: string, diskBytes?: number) =>
  Effect.gen(function*() {
    const { folders, layer } = yield* started(directory, diskBytes)
    return { folders, trees: Context.get(yield* Layer.build(layer), WorkingTrees) }
  })

const unable = lacking ?? absent

describe.skipIf(unable !== undefined)(`sized folders${unable === undefined ? "" : ` (${unable})`}`, () => {
  register(WorkingTreesContract.suite(
    "git in bubblewrap, in sized folders",
    Layer.unwrap(Effect.flatMap(directoryOf, (directory) => Effect.map(started(directory), ({ layer }) => layer))),
    { agent, source, workspace: Trees.workspace }
  ))

  it.live("hold all of a sandbox, and are gone with it", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { folders, trees: { prepare, remove, sandboxes } } = yield* trees(directory)
      const { remote } = yield* source({ "a.txt": "one\n" })
      yield* prepare(here, { remote, ref: undefined, defaultBranch: "main", repos: [app] })
      assert.deepStrictEqual(
        readdirSync(join(folders.directory, here.sandboxId)).toSorted(),
        ["box", "git", "lost+found", "making", "workspace"]
      )
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 1), [join(directory, "disks", here.sandboxId)])
      assert.deepStrictEqual(yield* sandboxes, [here.sandboxId])
      yield* remove(here.sandboxId)
      assert.deepStrictEqual(yield* sandboxes, [])
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
    }).pipe(Effect.scoped))

  it.live("are the trees that they were after a restart and a reboot; what they borrow is kept meanwhile", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { remote } = yield* source({ "a.txt": "one\n" })
      const options = { remote, ref: undefined, defaultBranch: "main", repos: [app] }
      const mirrors = () => readdirSync(join(directory, "mirrors")).filter((name) => name.endsWith(".git")).length
      yield* Effect.scoped(Effect.gen(function*() {
        const { trees: { prepare } } = yield* trees(directory)
        yield* prepare(here, options)
        yield* agent.write(join(workspacesIn(directory)(here.sandboxId), "app", "a.txt"), "changed\n")
      }))
      for (const reboot of [false, true]) {
        if (reboot) Mounts.unmount(directory)
        const left = join(directory, "disks", "making", "left")
        writeFileSync(left, "")
        utimesSync(left, 0, 0)
        yield* Effect.scoped(Effect.gen(function*() {
          const { trees: { changes, has, makeRoom, prepare } } = yield* trees(directory)
          assert.isFalse(existsSync(left))
          yield* makeRoom
          assert.strictEqual(mirrors(), 1)
          assert.isTrue(yield* has(here.sandboxId))
          // As a boot that begins again.
          yield* prepare(here, options)
          assert.deepStrictEqual((yield* changes(here)).files.map(({ path }) => path), ["a.txt"])
        }))
      }
    }).pipe(Effect.scoped))

  it.live("borrow what they borrow even when they could not be mounted at the start", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { remote } = yield* source({ "a.txt": "one\n" })
      const { folders, trees: { compare, makeRoom, prepare } } = yield* trees(directory)
      yield* prepare(here, { remote, ref: undefined, defaultBranch: "main", repos: [app] })
      execFileSync("umount", ["--lazy", join(folders.directory, here.sandboxId)])
      yield* makeRoom
      assert.strictEqual((yield* compare(here, "a.txt", 100)).base?.content, "one\n")
    }).pipe(Effect.scoped))

  it.live("refuse a repository that does not fit, in words, and make no room for it elsewhere", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { folders, trees: { prepare } } = yield* trees(directory, 4 * MiB)
      const large = yield* source({ "large.bin": "x".repeat(8 * MiB) })
      const refused = yield* Effect.flip(prepare(here, { remote: large.remote, ref: undefined, defaultBranch: "main", repos: [app] }))
      assert.strictEqual(refused._tag, "CloneFailed")
      assert.match(refused.message, /do not fit on the disk of a sandbox\. This limit is raised with the option diskBytes\./u)
      assert.deepInclude(refused, { retryable: false })
      assert.isTrue(yield* folders.isSized(here.sandboxId))
    }).pipe(Effect.scoped))

  it.live("that an agent filled can still be looked at; that nothing can be published is said in words; others are as they were", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { trees: { changes, compare, prepare, snapshot } } = yield* trees(directory, 12 * MiB)
      const { remote } = yield* source({ "a.txt": "one\n", ".gitignore": "junk\n" })
      const options = { remote, ref: undefined, defaultBranch: "main", repos: [app] }
      yield* prepare(here, options)
      const tree = join(workspacesIn(directory)(here.sandboxId), "app")
      yield* agent.write(join(tree, "a.txt"), "two\n")
      execFileSync("sh", ["-c", "chown 65534 . && setpriv --reuid=65534 --clear-groups dd if=/dev/zero of=junk bs=4096 2>/dev/null || :"], {
        cwd: tree
      })
      assert.isAbove(Number(execFileSync("du", ["-sm", tree], { encoding: "utf8" }).split("\t")[0]), 9)
      assert.deepStrictEqual((yield* changes(here)).files.map(({ path }) => path), ["a.txt"])
      const refused = yield* Effect.flip(snapshot(here, { message: "m", author }))
      assert.deepInclude(refused, {
        _tag: "PushFailed",
        detail: "The disk of the sandbox is full. Something in it has to be deleted first.",
        retryable: false
      })
      assert.strictEqual((yield* compare(here, "a.txt", 100)).working?.content, "two\n")
      yield* prepare(next, options)
      yield* agent.remove(join(tree, "junk"))
      yield* snapshot(here, { message: "m", author })
    }).pipe(Effect.scoped))

  it.live("leave plain folders of an earlier version as they are", () =>
    Effect.gen(function*() {
      const directory = yield* directoryOf
      const { remote } = yield* source({ "a.txt": "one\n" })
      const options = { remote, ref: undefined, defaultBranch: "main", repos: [app] }
      yield* Effect.scoped(Effect.gen(function*() {
        const plain = yield* Trees.make({ directory })
        yield* plain.prepare(here, options)
      }))
      const { folders, trees: { changes, prepare, remove } } = yield* trees(directory)
      yield* prepare(here, options)
      assert.deepStrictEqual((yield* changes(here)).files, [])
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
      yield* remove(here.sandboxId)
      assert.isFalse(existsSync(join(folders.directory, here.sandboxId)))
    }).pipe(Effect.scoped))
})
