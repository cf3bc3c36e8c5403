/** The fate of trees whose machine goes, comes back, is taken over, or whose worker is killed. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { gitIn, source, temporaryFolder } from "@slipway/git/testing/Repositories"
import { Context, Effect, Exit, Layer, Scope, Stream } from "effect"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as MachineTrees from "../../testing/MachineTrees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }

const FILES = { "README.md": "# app\n", "dir/file": "inside\n", ".gitignore": "dist\n" }

const world = Effect.gen(function*() {
  const directory = yield* temporaryFolder
  const origin = yield* source(FILES)
  const services = yield* Layer.build(MachineTrees.layer({ directory }))
  const trees = Context.get(services, WorkingTrees)
  const machines = Context.get(services, MachineTrees.Machines)
  const root = machines.rootOf(key.sandboxId)
  const prepare = trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  yield* prepare
  const saved = Effect.scoped(Effect.gen(function*() {
    const { content, repos } = yield* trees.save(key.sandboxId, [{ repo: key.repo }])
    return { sha: repos[0]?.sha ?? "", content: Buffer.concat(yield* Stream.runCollect(content)) }
  }))
  return {
    directory,
    origin,
    trees,
    machines,
    prepare,
    saved,
    restore: (content: Uint8Array) => trees.restore(key.sandboxId, Stream.make(content), [{ repo: key.repo, remote: origin.remote }]),
    tree: join(root, "workspace", "app"),
    /** The repository that git in the box works with. */
    repository: join(root, "repositories", "acme+app"),
    /** The repository of the worker. */
    kept: join(directory, "sandboxes", key.sandboxId, "git", "acme+app"),
    names: Effect.map(
      trees.list(key, ""),
      ({ entries }) => entries.map(({ name, status }) => status === null ? name : `${name} (${status})`)
    )
  }
})

const PLAIN = ["dir", ".gitignore", "README.md"]

/** The error, and whether to try again. */
const failure = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.match(Effect.scoped(self), {
    onSuccess: () => "nothing",
    onFailure: (error) => `${error._tag}${"retryable" in error ? error.retryable === true ? ", again" : ", for good" : ""}`
  })

describe("trees in a machine", () => {
  it.live("are clean, on their branch and with their history, to the agent's git", () =>
    Effect.gen(function*() {
      const { origin, prepare, trees, tree } = yield* world
      yield* origin.commit("main", { more: "1\n" })
      yield* trees.remove(key.sandboxId)
      yield* prepare
      assert.strictEqual(gitIn(tree, "status", "--porcelain", "--branch"), "## main")
      assert.strictEqual(gitIn(tree, "rev-list", "--count", "HEAD"), "2")
      writeFileSync(join(tree, "more"), "2\n")
      gitIn(tree, "commit", "--quiet", "--all", "--message", "mine")
      assert.strictEqual(gitIn(tree, "rev-list", "--count", "origin/main..HEAD"), "1")
      gitIn(tree, "fsck", "--strict")
    }))

  it.live("come with all of their history, however large, when they are made and when they are restored", () =>
    Effect.gen(function*() {
      const { origin, prepare, restore, saved, tree, trees } = yield* world
      const noise = (seed: number) =>
        Buffer.concat(Array.from({ length: 50_000 }, (_, i) => createHash("sha256").update(`${seed} ${i}`).digest()))
      for (let i = 0; i < 3; i++) yield* origin.commit("main", { large: noise(i) })
      yield* trees.remove(key.sandboxId)
      yield* prepare
      writeFileSync(join(tree, "own"), noise(3))
      for (let i = 0; i < 3; i++) {
        const { content, sha } = yield* saved
        yield* restore(content)
        gitIn(tree, "fsck", "--strict")
        assert.strictEqual(gitIn(tree, "rev-list", "--count", "HEAD"), "4")
        assert.strictEqual((yield* saved).sha, sha)
      }
    }))

  it.live("have an index that knows of each file what the file system says, so that git need not read it", () =>
    Effect.gen(function*() {
      const { repository, tree } = yield* world
      const known = gitIn(tree, `--git-dir=${repository}`, "--work-tree=.", "ls-files", "--debug")
      for (const path of Object.keys(FILES)) {
        const { ctimeMs, ino, mtimeMs, size } = statSync(join(tree, path))
        const seconds = [ctimeMs, mtimeMs].map((time) => Math.floor(time / 1_000))
        const about = known.slice(known.indexOf(`${path}\n`))
        assert.match(
          about,
          new RegExp(`ctime: ${seconds[0]}:\\d+\\s+mtime: ${seconds[1]}:\\d+\\s+dev: \\d+\\s+ino: ${ino % 2 ** 32}\\s`, "u")
        )
        assert.match(about, new RegExp(`size: ${size}\\s`, "u"))
      }
      assert.deepStrictEqual(readFileSync(join(tree, ".git", "index")), readFileSync(join(repository, "index")))
    }))

  it.live("are there as they were to the next process of the worker", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const machines = yield* temporaryFolder
      const origin = yield* source(FILES)
      const first = yield* Scope.make()
      const before = Context.get(yield* Scope.provide(Layer.build(MachineTrees.layer({ directory, machines })), first), WorkingTrees)
      const { baseSha } = yield* before.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      writeFileSync(join(machines, key.sandboxId, "workspace", "app", "new"), "mine\n")
      yield* Scope.close(first, Exit.void)

      const services = yield* Layer.build(MachineTrees.layer({ directory, machines }))
      const after = Context.get(services, WorkingTrees)
      yield* Context.get(services, MachineTrees.Machines).start(key.sandboxId)
      assert.isTrue(yield* after.has(key.sandboxId))
      assert.isTrue(yield* after.isWhole(key.sandboxId))
      const again = yield* after.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      assert.strictEqual(again.baseSha, baseSha)
      const { entries } = yield* after.list(key, "")
      assert.deepStrictEqual(entries.filter(({ status }) => status !== null).map(({ name }) => name), ["new"])
    }))

  it.live("are gone with the machine, and are made anew in the next one", () =>
    Effect.gen(function*() {
      const { machines, names, prepare, saved, restore, tree, trees } = yield* world
      writeFileSync(join(tree, "new"), "mine\n")
      const { content } = yield* saved
      yield* machines.remove(key.sandboxId)
      assert.isFalse(yield* trees.has(key.sandboxId))
      assert.strictEqual(yield* failure(trees.list(key, "")), "TreesUnavailable, for good")
      yield* machines.start(key.sandboxId)
      // There is one, and it is another.
      assert.isFalse(yield* trees.has(key.sandboxId))
      assert.strictEqual(yield* failure(trees.open(key, "README.md", 100)), "FileNotFound")
      yield* restore(content)
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.deepStrictEqual(yield* names, ["dir", ".gitignore", "README.md", "new (untracked)"])
      yield* machines.remove(key.sandboxId)
      yield* prepare
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.deepStrictEqual(yield* names, PLAIN)
    }))

  it.live("may be there still while their machine cannot be reached, and it can be tried again", () =>
    Effect.gen(function*() {
      const { machines, names, trees } = yield* world
      yield* machines.kill(key.sandboxId)
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.isTrue(yield* trees.isWhole(key.sandboxId))
      const failures = yield* Effect.forEach(
        [trees.list(key, ""), trees.open(key, "README.md", 100), trees.compare(key, "README.md", 100),
          trees.save(key.sandboxId, [{ repo: key.repo }]), trees.snapshot(key, { message: "x", author }), trees.remove(key.sandboxId)],
        (asked) => failure(asked as Effect.Effect<unknown, { readonly _tag: string }, Scope.Scope>),
        { concurrency: "unbounded" }
      )
      for (const told of failures) assert.match(told, /, again$/u)
      yield* machines.start(key.sandboxId)
      assert.deepStrictEqual(yield* names, PLAIN)
    }))

  it.live("are torn where their kernel is another than when they were made, until they are saved as they are", () =>
    Effect.gen(function*() {
      const { kept, saved, trees } = yield* world
      assert.isTrue(yield* trees.isWhole(key.sandboxId))
      // As a machine would say that started again since.
      const record = join(kept, "machine")
      const known: Readonly<Record<string, string>> = JSON.parse(readFileSync(record, "utf8"))
      assert.match(known["kernel"] ?? "", /^[0-9a-f-]{36}$/u)
      writeFileSync(record, JSON.stringify({ ...known, kernel: "another" }))
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.isFalse(yield* trees.isWhole(key.sandboxId))
      yield* saved
      assert.isTrue(yield* trees.isWhole(key.sandboxId))
    }))

  it.live("count once the worker says so: the unfinished trees of a killed worker are unowned", () =>
    Effect.gen(function*() {
      const { kept, names, prepare, repository, tree, trees } = yield* world
      // Between the last move in the machine and the worker's own.
      writeFileSync(join(tree, "new"), "of nobody\n")
      rmSync(kept, { recursive: true })
      // And in the middle of the next try.
      const left = [join(tree, "../.making+acme+app+1"), join(repository, "../.making+acme+app+1")]
      for (const site of left) mkdirSync(join(site, "some"), { recursive: true })
      const other = join(repository, "../.making+acme+app2+1")
      mkdirSync(other)
      assert.isFalse(yield* trees.has(key.sandboxId))
      yield* prepare
      assert.deepStrictEqual(yield* names, PLAIN)
      assert.deepStrictEqual(left.map((site) => existsSync(site)), [false, false])
      // On which another repository of the sandbox is being made.
      assert.isTrue(existsSync(other))
    }))

  it.live("leave nothing in the machine: neither of those that were removed, nor of a restoration that was refused", () =>
    Effect.gen(function*() {
      const { machines, names, restore, saved, trees } = yield* world
      const { content } = yield* saved
      const root = machines.rootOf(key.sandboxId)
      const inMachine = () => ["workspace", "repositories"].map((folder) => readdirSync(join(root, folder)))
      assert.deepStrictEqual(inMachine(), [["app"], ["acme+app"]])
      assert.strictEqual(yield* failure(restore(content.subarray(0, -10))), "CheckpointDamaged")
      assert.deepStrictEqual(inMachine(), [["app"], ["acme+app"]])
      assert.deepStrictEqual(yield* names, PLAIN)
      mkdirSync(join(root, "workspace", ".hidden"))
      yield* trees.remove(key.sandboxId)
      // The machine itself is the host's to remove: the wrapper of these tests does.
      assert.isFalse(existsSync(root))
    }))
})

describe("what git in the box made", () => {
  it.live("stays in the machine, and is not sent again", () =>
    Effect.gen(function*() {
      const { kept, repository, saved, tree } = yield* world
      const sizes = () =>
        readdirSync(join(kept, "objects", "pack")).filter((name) => name.endsWith(".pack")).map((name) =>
          statSync(join(kept, "objects", "pack", name)).size
        )
      writeFileSync(join(tree, "large"), Buffer.from(Array.from({ length: 300_000 }, () => Math.floor(Math.random() * 256))))
      yield* saved
      assert.isAbove(Math.max(...sizes()), 250_000)
      const before = sizes().length
      writeFileSync(join(tree, "small"), "1\n")
      yield* saved
      assert.strictEqual(sizes().length, before + 1)
      assert.isBelow(Math.min(...sizes()), 1_000)
      // Objects that the agent removed are sent again.
      for (const name of readdirSync(join(repository, "objects")).filter((name) => name.length === 2)) {
        rmSync(join(repository, "objects", name), { recursive: true })
      }
      writeFileSync(join(tree, "small"), "2\n")
      yield* saved
      assert.strictEqual(sizes().filter((size) => size > 250_000).length, 2)
    }))

  it.live("is put together when it is many files", () =>
    Effect.gen(function*() {
      const { names, repository, saved, tree } = yield* world
      mkdirSync(join(tree, "many"))
      for (let i = 0; i < 9_000; i++) writeFileSync(join(tree, "many", `${i}`), `${i}`)
      const { sha } = yield* saved
      const folders = readdirSync(join(repository, "objects")).filter((name) => /^[0-9a-f]{2}$/u.test(name))
      assert.deepStrictEqual(folders.flatMap((name) => readdirSync(join(repository, "objects", name))), [])
      assert.strictEqual((yield* saved).sha, sha)
      writeFileSync(join(tree, "new"), "1\n")
      assert.notStrictEqual((yield* saved).sha, sha)
      assert.include(yield* names, "new (untracked)")
    }))
})

describe("a machine whose agent wrote over the repository of git in the box", () => {
  const harms: ReadonlyArray<readonly [what: string, harm: (repository: string) => void]> = [
    ["its index is invalid", (repository) => writeFileSync(join(repository, "index"), "DIRC of nothing")],
    ["its objects are gone", (repository) => rmSync(join(repository, "objects"), { recursive: true })],
    ["it is gone", (repository) => rmSync(repository, { recursive: true })],
    ["it is a link to another place", (repository) => {
      rmSync(repository, { recursive: true })
      symlinkSync("/", repository)
    }],
    ["its HEAD and configuration are none", (repository) => {
      writeFileSync(join(repository, "HEAD"), "\0")
      writeFileSync(join(repository, "config"), "[core")
    }]
  ]
  for (const [what, harm] of harms) {
    it.live(`harms itself alone where ${what}`, () =>
      Effect.gen(function*() {
        const { names, origin, prepare, repository, restore, saved, tree, trees } = yield* world
        writeFileSync(join(tree, "new"), "mine\n")
        const { content, sha } = yield* saved
        harm(repository)
        // Files are there, and what git said of them is not.
        assert.deepStrictEqual(yield* names, ["dir", ".gitignore", "README.md", "new"])
        assert.deepStrictEqual((yield* trees.list(key, "")).partialWarnings, ["unreadable_entries"])
        assert.match(yield* failure(saved), /^CannotSave/u)
        assert.match(yield* failure(trees.snapshot(key, { message: "x", author })), /^PushFailed/u)
        // The worker's copy is unchanged.
        assert.strictEqual((yield* trees.compare(key, "README.md", 100)).base?.content, "# app\n")
        yield* trees.diff(key, { from: "base", to: sha, maximumBytes: 10_000 })
        yield* restore(content)
        assert.deepStrictEqual(yield* names, ["dir", ".gitignore", "README.md", "new (untracked)"])
        assert.strictEqual((yield* saved).sha, sha)
        assert.isTrue(yield* trees.has(key.sandboxId))
        const other = { ...key, sandboxId: SandboxId.make("c_bbbbbbbbbbbb") }
        yield* prepare
        yield* trees.prepare(other, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
        yield* trees.remove(other.sandboxId)
      }))
  }

  it.live("cannot have another commit taken for the tree's first commit", () =>
    Effect.gen(function*() {
      const { origin, repository, saved, tree, trees } = yield* world
      const base = gitIn(tree, "rev-parse", "HEAD")
      // A repository in which the same name leads elsewhere, as far as git there can tell.
      writeFileSync(join(tree, "README.md"), "# another\n")
      gitIn(tree, "commit", "--quiet", "--all", "--message", "another")
      const another = gitIn(tree, "rev-parse", "HEAD")
      mkdirSync(join(repository, "refs", "replace"), { recursive: true })
      writeFileSync(join(repository, "refs", "replace", base), `${another}\n`)
      writeFileSync(join(repository, "objects", "info", "alternates"), `${join(tree, ".git", "objects")}\n`)
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
      assert.strictEqual(gitIn(origin.path, "log", "-1", "--format=%P", sha), base)
      assert.deepStrictEqual(yield* origin.files(sha), { ...FILES, "README.md": "# another\n" })
      yield* saved
    }))
})
