/** Output of a box is hostile. The host takes objects, looks at them, and decides on the commit. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Context, Effect, Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import * as WorkingTreesGit from "../src/working-trees/WorkingTreesGit.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const MAXIMUM_BYTES = 1_000_000

/** A host whose box says what it is told to. */
const saying = Effect.gen(function*() {
  let said: Stream.Stream<Uint8Array> = Stream.empty
  let code = 0
  let toLose = 0
  const box: Box = {
    sandboxId: key.sandboxId,
    workspace: "/workspace",
    home: "/home",
    spawn: () =>
      Effect.sync(() => {
        const isLost = toLose-- > 0
        return {
          pid: 1,
          write: () => Effect.void,
          endInput: Effect.void,
          stdout: isLost ? Stream.empty : said,
          stderrTail: Effect.succeed("fatal: trouble"),
          exited: Effect.succeed(isLost ? { code: null, signal: "SIGKILL" as const } : { code, signal: null })
        }
      })
  }
  const host = Layer.mock(SandboxHost, { isolation: "bubblewrap", visit: () => Effect.succeed(box) })
  const origin = yield* source({ "README.md": "# app\n", ".env": "KEPT=1\n" })
  const directory = yield* temporaryFolder
  const trees = Context.get(
    yield* Layer.build(WorkingTreesGit.layer({ directory, maximumSnapshotBytes: MAXIMUM_BYTES }).pipe(Layer.provide(host))),
    WorkingTrees
  )
  const { baseSha } = yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  const tree = join(workspacesIn(directory)(key.sandboxId), "app")
  const repository = join(directory, "sandboxes", key.sandboxId, "git", "acme+app")
  const git = (input: string | Uint8Array, ...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-C", tree, ...args], { input, maxBuffer: 2 ** 30, stdio: ["pipe", "pipe", "ignore"] })
  return {
    trees,
    repository,
    baseSha,
    filesOf: (sha: string) => gitIn("/", "--git-dir", repository, "ls-tree", "-r", "--name-only", sha).split("\n"),
    say: (bytes: Stream.Stream<Uint8Array>, end = 0) => {
      said = bytes
      code = end
    },
    /** So many of the next programs end with their box. */
    lose: (programs: number) => {
      toLose = programs
    },
    blob: (content: string | Uint8Array) => git(content, "hash-object", "-w", "--stdin").toString().trim(),
    /** A tree of the base's files and these. */
    treeOf: (...entries: ReadonlyArray<string>) =>
      git([git("", "ls-tree", baseSha).toString(), ...entries.map((entry) => `${entry}\n`)].join(""), "mktree", "--missing").toString()
        .trim(),
    only: (...entries: ReadonlyArray<string>) =>
      git(entries.map((entry) => `${entry}\n`).join(""), "mktree", "--missing").toString().trim(),
    /** As the box says it when there are no new files. */
    pack: (id: string) =>
      Buffer.concat([Buffer.from(`\x000\n${id}\n`),
        git(`${id}\n^${baseSha}^{tree}\n`, "pack-objects", "--revs", "--stdout", "--quiet", "--missing=allow-any")])
  }
})

const pieces = (bytes: Uint8Array) =>
  Stream.fromIterable(Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, i) => bytes.subarray(i * 1_000, (i + 1) * 1_000)))

type World = Effect.Success<typeof saying>

describe("a snapshot that a box says", () => {
  it.live("is committed on the commit the tree started from, without new environment files and repositories", () =>
    Effect.gen(function*() {
      const { baseSha, blob, filesOf, pack, repository, say, treeOf, trees } = yield* saying
      const one = blob("one\n")
      const nested = treeOf(`100644 blob ${one}\t.env.local`, `100644 blob ${one}\tplain`)
      say(
        pieces(
          pack(
            treeOf(`100644 blob ${one}\tnew`, `100644 blob ${one}\t.npmrc`, `040000 tree ${nested}\tsub`, `160000 commit ${baseSha}\tother`)
          )
        )
      )
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      // The base has an environment file of its own; in another folder it is a new one.
      assert.deepStrictEqual(filesOf(sha), [".env", "README.md", "new", "sub/README.md", "sub/plain"])
      assert.strictEqual(gitIn("/", "--git-dir", repository, "log", "-1", "--format=%P %an %s", sha), `${baseSha} Slipway x`)
      assert.deepStrictEqual(readdirSync(join(repository, "scratch")), [])
    }))

  const refused: ReadonlyArray<readonly [what: string, said: (world: World) => Stream.Stream<Uint8Array>, code?: number]> = [
    ["is nothing", () => Stream.empty],
    ["has no id", () => Stream.make(Buffer.from("\x000\nHEAD\nPACK"))],
    ["has no pack", ({ blob, treeOf }) => Stream.make(Buffer.from(`\x000\n${treeOf(`100644 blob ${blob("x")}\tx`)}\n`))],
    ["is cut off", ({ blob, pack, treeOf }) => pieces(pack(treeOf(`100644 blob ${blob("x")}\tx`)).subarray(0, -30))],
    ["lacks a file", ({ pack, treeOf }) => pieces(pack(treeOf(`100644 blob ${"1".repeat(40)}\tx`)))],
    ["is a file", ({ blob, pack }) => pieces(pack(blob("x")))],
    ["holds what git would take for its own",
      ({ blob, only, pack, treeOf }) =>
        pieces(pack(treeOf(`040000 tree ${only(`100644 blob ${blob("[core]\n\tfsmonitor = touch pwned\n")}\tconfig`)}\t.git`)))],
    ["has more bytes than it may, in few",
      ({ blob, pack, treeOf }) => pieces(pack(treeOf(`100644 blob ${blob(Buffer.alloc(50 * 2 ** 20))}\tzeros`)))],
    ["has the same bytes so often that they are too many", ({ blob, pack, treeOf }) => {
      const half = blob(Buffer.alloc(MAXIMUM_BYTES * 0.6))
      return pieces(pack(treeOf(`100644 blob ${half}\ta`, `100644 blob ${half}\tb`)))
    }],
    ["has a million million files, in few objects", ({ blob, only, pack }) => {
      let tree = only(...Array.from({ length: 10 }, (_, i) => `100644 blob ${blob("x")}\t${i}`))
      for (let depth = 1; depth < 12; depth++) tree = only(...Array.from({ length: 10 }, (_, i) => `040000 tree ${tree}\t${i}`))
      return pieces(pack(tree))
    }],
    ["never ends",
      () => Stream.concat(Stream.make(Buffer.from(`\x000\n${"a".repeat(40)}\n`)), Stream.forever(Stream.make(Buffer.alloc(100_000))))],
    ["has names without end", () => Stream.forever(Stream.make(Buffer.alloc(100_000, "?? a\0")))],
    ["has names that no empty one ends", () => Stream.make(Buffer.from("?? x\0"))],
    ["ends badly", ({ blob, pack, treeOf }) => pieces(pack(treeOf(`100644 blob ${blob("x")}\tx`))), 128]
  ]
  it.live.each(refused)("is refused for good when it %s", ([, said, code]) =>
    Effect.gen(function*() {
      const world = yield* saying
      world.say(said(world), code)
      const refusal = yield* Effect.flip(world.trees.snapshot(key, { message: "x", author }))
      assert.deepInclude(refusal, { _tag: "PushFailed", retryable: false })
      assert.deepStrictEqual(readdirSync(join(world.repository, "scratch")), [])
    }))
})

it.live("a comparison is made again when its box goes away, and says so where boxes go on to", () =>
  Effect.gen(function*() {
    const { blob, lose, pack, repository, say, treeOf, trees } = yield* saying
    say(pieces(pack(treeOf(`100644 blob ${blob("one\n")}\tnew`))))
    const diff = trees.diff(key, { from: "base", to: "working", maximumBytes: 10_000 })
    lose(1)
    assert.include(Buffer.from(yield* diff).toString(), "\n+one\n")
    lose(100)
    const refusal = yield* Effect.flip(diff)
    assert.deepInclude(refusal, { _tag: "TreesUnavailable", retryable: true })
    assert.include(refusal.message, "Git was stopped")
    assert.deepStrictEqual(readdirSync(join(repository, "scratch")), [])
  }))

it.live.each(
  [
    ["nothing", Buffer.alloc(0)],
    ["names alone", Buffer.from("a\0b\0\0")],
    ["no differences", Buffer.from(`\x000\n${":\0\0:a b c\0:100644 100644 x y R\0".repeat(50)}`)],
    ["bytes without a meaning",
      Buffer.concat([Buffer.from("\x000\n"), Buffer.from(Array.from({ length: 10_000 }, (_, i) => (i * 7919) % 256))])]
  ] as const
)("a box that says %s of its changes stops no listing", ([, bytes]) =>
  Effect.gen(function*() {
    const { say, trees } = yield* saying
    say(Stream.make(bytes))
    const { entries } = yield* trees.list(key, "")
    assert.includeMembers(entries.map(({ name }) => name), [".env", "README.md"])
    yield* trees.changes(key)
  }))
