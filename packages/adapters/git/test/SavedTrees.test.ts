/** The state of the agent's own git after its tree was restored, and the restored part of forged archives. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { direct, Spawn } from "@slipway/machine/node/spawner/Spawn"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Context, Effect, Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import * as TreesArchive from "../src/save/TreesArchive.ts"
import * as WorkingTreesGit from "../src/working-trees/WorkingTreesGit.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }

/** As the agent's side tells its own commits. */
const historyOf = (tree: string) => (base: string) => {
  const head = gitIn(tree, "rev-parse", "HEAD")
  if (head === base) return Stream.empty
  const pack = execFileSync("git", ["-C", tree, "pack-objects", "--revs", "--stdout", "--quiet"], {
    input: `${head}\n^${base}\n`,
    stdio: ["pipe", "pipe", "ignore"]
  })
  return Stream.make(Buffer.from(`${head}\n`), pack)
}

const machine = Effect.fnUntraced(function*(options: Partial<Trees.Options> = {}) {
  const directory = yield* temporaryFolder
  const trees = yield* Trees.make({ directory, ...options })
  return { directory, trees, tree: join(workspacesIn(directory)(key.sandboxId), "app") }
})

const write = (tree: string, files: Readonly<Record<string, string>>) => {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(tree, path, ".."), { recursive: true })
    writeFileSync(join(tree, path), content)
  }
}

const setUp = Effect.fnUntraced(function*() {
  const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n", ".gitignore": "dist\n", "gone": "x\n" })
  const before = gitIn(origin.path, "rev-parse", "main")
  yield* origin.commit("main", { more: "more\n" })
  const one = yield* machine()
  const { baseSha } = yield* one.trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  const sources = [{ repo: key.repo, remote: origin.remote }]
  const commit = (message: string, files: Readonly<Record<string, string>>) => {
    write(one.tree, files)
    gitIn(one.tree, "add", "--force", ...Object.keys(files))
    gitIn(one.tree, "commit", "--quiet", "--message", message)
    return gitIn(one.tree, "rev-parse", "HEAD")
  }
  const save = Effect.gen(function*() {
    const { content, repos } = yield* one.trees.save(key.sandboxId, [{ repo: key.repo, history: historyOf(one.tree) }])
    return { bytes: Buffer.concat(yield* Stream.runCollect(content)), sha: repos[0]?.sha ?? "" }
  }).pipe(Effect.scoped)
  return { ...one, origin, before, baseSha, sources, commit, save }
})

/** The state that is visible to all who work in the tree. */
const seen = (tree: string) => ({
  status: gitIn(tree, "status", "--porcelain", "--branch", "--untracked-files=all"),
  log: gitIn(tree, "log", "--format=%H %s"),
  diff: gitIn(tree, "diff", "HEAD"),
  sound: gitIn(tree, "fsck", "--connectivity-only")
})

/** As it is, and the words of which each program of ours was told one. */
const asking = Effect.fnUntraced(function*<A, E, R>(self: Effect.Effect<A, E, R>, words: ReadonlyArray<string>) {
  const asked: Array<string> = []
  const counting: Spawn = (command, args, options) => {
    if (command === "git" || args.includes("slipway-git") && !args.includes("snapshot")) {
      asked.push(...words.filter((word) => args.includes(word)))
    }
    return direct(command, args, options)
  }
  yield* Effect.provideService(self, Spawn, counting)
  return asked
})

describe("a tree that is saved again and again", () => {
  it.live("is not read again where its pack could not be made, but for what changed", () =>
    Effect.gen(function*() {
      const { save, tree, trees } = yield* setUp()
      writeFileSync(join(tree, "large"), crypto.getRandomValues(new Uint8Array(65_536)))
      for (let i = 0; i < 17 * 16; i++) appendFileSync(join(tree, "large"), crypto.getRandomValues(new Uint8Array(65_536)))
      const failed = trees.save(key.sandboxId, [{ repo: key.repo }], { maximumBytes: 1_000_000 }).pipe(Effect.scoped, Effect.flip)
      assert.strictEqual((yield* failed)._tag, "CannotSave")
      assert.deepStrictEqual(yield* asking(save, ["index-pack"]), [])
    }).pipe(Effect.scoped))

  it.live("is not kept in ever more packs, and what was saved before can still be compared", () =>
    Effect.gen(function*() {
      const { directory, save, tree, trees } = yield* setUp()
      write(tree, { "README.md": "# one\n" })
      const first = yield* save
      const repository = join(directory, "sandboxes", key.sandboxId, "git", "acme+app")
      const packs = () => readdirSync(join(repository, "objects", "pack")).filter((name) => name.endsWith(".pack")).length
      const planted = Array.from({ length: 60 - packs() }, (_, i) => {
        const blob = execFileSync("git", ["--git-dir", repository, "hash-object", "-w", "--stdin"], { input: `${i}\n`, encoding: "utf8" })
        execFileSync("git", ["--git-dir", repository, "pack-objects", "--quiet", join(repository, "objects", "pack", "pack")], {
          input: blob,
          stdio: ["pipe", "ignore", "ignore"]
        })
        rmSync(join(repository, "objects", blob.slice(0, 2), blob.slice(2).trim()))
        return blob.trim()
      })
      assert.strictEqual(packs(), 60)
      // Nothing new comes with what is known.
      yield* save
      assert.strictEqual(packs(), 1)
      write(tree, { "README.md": "# two\n" })
      const second = yield* save
      const patch = yield* trees.diff(key, { from: first.sha, to: second.sha, maximumBytes: 10_000 })
      assert.include(Buffer.from(patch).toString(), "-# one\n+# two\n")
      for (const blob of planted) gitIn(repository, "--git-dir", repository, "cat-file", "-e", blob)
    }).pipe(Effect.scoped))
})

describe("a tree that is published after it was saved", () => {
  const WORDS = ["cat-file", "diff-tree", "index-pack", "commit-tree"]

  it.live("is not looked at again, unless it is another one by then", () =>
    Effect.gen(function*() {
      const { baseSha, directory, save, tree, trees } = yield* setUp()
      const repository = join(directory, "sandboxes", key.sandboxId, "git", "acme+app")
      let sha = ""
      const publish = Effect.map(trees.snapshot(key, { message: "What it did", author }), (made) => {
        sha = made.sha
      })
      const published = () => gitIn(repository, "--git-dir", repository, "diff-tree", "-r", "--name-only", baseSha, sha)
      write(tree, { "notes.md": "Notes.\n" })
      assert.includeMembers(yield* asking(save, WORDS), ["index-pack", "diff-tree", "cat-file"])
      assert.deepStrictEqual(yield* asking(publish, WORDS), [])
      assert.strictEqual(published(), "notes.md")
      write(tree, { "more.md": "More.\n", ".env.local": "SECRET=1\n" })
      assert.includeMembers(yield* asking(save, WORDS), ["index-pack", "diff-tree", "cat-file"])
      // Only a checkpoint holds the file: it is another tree.
      assert.includeMembers(yield* asking(publish, WORDS), ["index-pack", "diff-tree", "cat-file"])
      assert.strictEqual(published(), "more.md\nnotes.md")
    }).pipe(Effect.scoped))
})

describe("commits of checkpoints that a tree is compared with", () => {
  const bytesIn = (folder: string) => Number(execFileSync("du", ["-sb", folder], { encoding: "utf8" }).split("\t")[0])

  const learning = Effect.fnUntraced(function*(count: number, options: Partial<Trees.Options> = {}) {
    const { save, sources, tree } = yield* setUp()
    const saved = yield* Effect.forEach(Array.from({ length: count }, (_, n) => n), (n) => {
      write(tree, { n: `${n}\n`, large: `${Array.from({ length: 5_000 }, (_, i) => Math.imul(i + n, 2_654_435_761)).join("\n")}\n` })
      return save
    })
    const other = yield* machine(options)
    yield* other.trees.restore(key.sandboxId, Stream.make(saved.at(-1)?.bytes ?? new Uint8Array()), sources)
    const learn = (n: number) => other.trees.learn(key.sandboxId, Stream.make(saved[n]?.bytes ?? new Uint8Array()))
    const knows = (n: number) =>
      other.trees.diff(key, { from: saved[n]?.sha ?? "", to: "working", path: "n", maximumBytes: 10_000 }).pipe(
        Effect.map((patch) => Buffer.from(patch).toString().includes(`-${n}\n`)),
        Effect.catchTag("UnknownCommit", () => Effect.succeed(false))
      )
    return { ...other, learn, knows, folder: join(other.directory, "learned") }
  })

  it.live("are neither on the disk of its sandbox nor in what its box sees, and go with it and for room", () =>
    Effect.gen(function*() {
      const { directory, folder, knows, learn, trees } = yield* learning(3)
      const own = join(directory, "sandboxes", key.sandboxId)
      const before = bytesIn(own)
      yield* learn(0)
      yield* learn(1)
      assert.deepStrictEqual([yield* knows(0), yield* knows(1)], [true, true])
      assert.strictEqual(bytesIn(own), before)
      assert.deepStrictEqual(readdirSync(folder).length, 2)
      yield* trees.makeRoom
      assert.deepStrictEqual([yield* knows(0), readdirSync(folder).length], [false, 0])
      yield* learn(0)
      yield* trees.remove(key.sandboxId)
      assert.deepStrictEqual(readdirSync(folder), [])
    }))

  it.live("are no more than there may be, the last used ones, and none outlives the process", () =>
    Effect.gen(function*() {
      const { directory, folder, knows, learn } = yield* learning(12, { maximumLearnedBytes: 0 })
      for (let n = 0; n < 8; n++) yield* learn(n)
      assert.isTrue(yield* knows(0))
      yield* learn(8)
      yield* learn(9)
      const known = yield* Effect.forEach(Array.from({ length: 10 }, (_, n) => n), knows)
      assert.deepStrictEqual(known, [true, false, false, true, true, true, true, true, true, true])
      assert.strictEqual(readdirSync(folder).length, 8)
      yield* Trees.make({ directory })
      assert.deepStrictEqual(readdirSync(folder), [])
    }))
})

describe("a hostile tree", () => {
  it.live("is saved without what is no file of it", () =>
    Effect.gen(function*() {
      const { save, sources, tree } = yield* setUp()
      const outside = join(yield* temporaryFolder, "outside")
      writeFileSync(outside, "outside\n")
      write(tree, { kept: "kept\n", "inner/.git/HEAD": "ref: refs/heads/x\n", "nested/file": "nested\n" })
      gitIn(join(tree, "nested"), "init", "--quiet")
      gitIn(join(tree, "nested"), "add", "file")
      gitIn(join(tree, "nested"), "commit", "--quiet", "--message", "nested")
      execFileSync("mkfifo", [join(tree, "fifo")])
      symlinkSync(outside, join(tree, "link"))
      symlinkSync("../../../..", join(tree, "climbs"))
      writeFileSync(join(tree, "line\nbreak"), "named\n")
      writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0xff])]), "no text\n")
      const { bytes } = yield* save
      const other = yield* machine()
      yield* other.trees.restore(key.sandboxId, Stream.make(bytes), sources)
      assert.deepStrictEqual(
        readdirSync(other.tree, "latin1").sort(),
        [".git", ".gitignore", "README.md", "climbs", "dir", "gone", "kept", "line\nbreak", "link", "more", "\u00ff"]
      )
      assert.deepStrictEqual(["link", "climbs"].map((name) => readlinkSync(join(other.tree, name))), [outside, "../../../.."])
    }))

  it.live("that is too large is refused for good", () =>
    Effect.gen(function*() {
      const { origin } = yield* setUp()
      const { tree, trees } = yield* machine({ maximumSnapshotBytes: 1_000_000 })
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      // Nearly nothing when it is packed.
      write(tree, { huge: "" })
      truncateSync(join(tree, "huge"), 1_000_001)
      const refused = yield* Effect.flip(Effect.scoped(trees.save(key.sandboxId, [{ repo: key.repo }])))
      assert.deepInclude(refused, { _tag: "CannotSave", retryable: false })
      truncateSync(join(tree, "huge"), 1_000_000)
      yield* Effect.scoped(trees.save(key.sandboxId, [{ repo: key.repo }]))
    }))

  it.live("of a machine that lost its power may lack something, until they are saved as they are, restored or removed", () =>
    Effect.gen(function*() {
      const first = yield* machine({ bootId: "one" })
      const origin = yield* source({ v: "0" })
      const remote = { url: origin.path, authorization: null }
      const prepare = { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] }
      yield* first.trees.prepare(key, prepare)
      const { directory } = first
      const saved = yield* first.trees.save(key.sandboxId, [{ repo: key.repo }])
      const isWhole = (trees: typeof first.trees) => trees.isWhole(key.sandboxId)
      assert.isTrue(yield* isWhole(first.trees))

      const second = yield* Trees.make({ directory, bootId: "two" })
      assert.isFalse(yield* isWhole(second))
      yield* Effect.scoped(second.save(key.sandboxId, [{ repo: key.repo }]))
      assert.isTrue(yield* isWhole(second))

      const third = yield* Trees.make({ directory, bootId: "three" })
      assert.isFalse(yield* isWhole(third))
      yield* third.restore(key.sandboxId, saved.content, [{ repo: key.repo, remote }])
      assert.isTrue(yield* isWhole(third))

      const fourth = yield* Trees.make({ directory, bootId: "four" })
      yield* fourth.remove(key.sandboxId)
      yield* fourth.prepare(key, prepare)
      assert.isTrue(yield* isWhole(fourth))
    }))

  /** A box that says what it likes, in place of what git would. */
  const saidBy = (said: Stream.Stream<Uint8Array>) =>
    Effect.gen(function*() {
      const { directory, trees } = yield* setUp()
      const host = yield* Layer.build(SandboxHostNone.layer({ directory: join(directory, "boxes"), workspaceOf: workspacesIn(directory) }))
      const real = Context.get(host, SandboxHost)
      const lying = SandboxHost.of({
        ...real,
        visit: (place) =>
          Effect.map(real.visit(place), (box) => ({
            ...box,
            spawn: (command) =>
              Effect.map(box.spawn({ ...command, command: "true", args: [] }), (process) => ({ ...process, stdout: said }))
          }))
      })
      assert.isTrue(yield* trees.has(key.sandboxId))
      const again = yield* Layer.build(Layer.provide(WorkingTreesGit.layer({ directory }), Layer.succeed(SandboxHost, lying)))
      return yield* Effect.flip(Effect.scoped(Context.get(again, WorkingTrees).save(key.sandboxId, [{ repo: key.repo }])))
    })

  it.live.each([
    {
      what: "a million new names",
      said: Stream.concat(Stream.make(Buffer.from("50000000\n")), Stream.forever(Stream.make(Buffer.alloc(65_536, 97))))
    },
    { what: "names without end", said: Stream.forever(Stream.make(Buffer.alloc(65_536, 97))) },
    {
      what: "a pack without end",
      said: Stream.concat(Stream.make(Buffer.from(`0\n${"a".repeat(40)}\n`)), Stream.forever(Stream.make(Buffer.alloc(4_194_304))))
    },
    { what: "what is no pack", said: Stream.make(Buffer.from(`0\n${"a".repeat(40)}\nPACK`)) },
    { what: "what is no id", said: Stream.make(Buffer.from(`0\n${"../".repeat(14)}`)) }
  ])("of which is said $what is refused for good", ({ said }) =>
    Effect.gen(function*() {
      assert.deepInclude(yield* saidBy(said), { _tag: "CannotSave", retryable: false })
    }))
})

describe("the agent's own commits", () => {
  it.live("are asked for only where its files do not say that they are known", () =>
    Effect.gen(function*() {
      const { commit, tree, trees } = yield* setUp()
      let asked = 0
      const history = (base: string) => {
        asked++
        return historyOf(tree)(base)
      }
      const saved = Effect.gen(function*() {
        const before = asked
        const { repos } = yield* trees.save(key.sandboxId, [{ repo: key.repo, history }])
        return { sha: repos[0]?.sha, asked: asked - before }
      }).pipe(Effect.scoped)

      assert.strictEqual((yield* saved).asked, 0)
      // A branch of its own, in a file of its own, and none.
      gitIn(tree, "switch", "--quiet", "--create", "feature/x")
      assert.strictEqual((yield* saved).asked, 0)
      gitIn(tree, "switch", "--quiet", "--detach")
      assert.strictEqual((yield* saved).asked, 0)
      gitIn(tree, "switch", "--quiet", "feature/x")
      const one = commit("one", { a: "a\n" })
      assert.deepStrictEqual([yield* saved, yield* saved], [{ sha: one, asked: 1 }, { sha: one, asked: 0 }])
      const two = commit("two", { a: "b\n" })
      gitIn(tree, "pack-refs", "--all")
      assert.deepStrictEqual([yield* saved, yield* saved], [{ sha: two, asked: 1 }, { sha: two, asked: 0 }])
      gitIn(tree, "reset", "--quiet", "--hard", one)
      assert.deepStrictEqual(yield* saved, { sha: one, asked: 0 })
      // Only git can tell this: a branch that stands for another branch.
      gitIn(tree, "symbolic-ref", "refs/heads/alias", "refs/heads/feature/x")
      gitIn(tree, "symbolic-ref", "HEAD", "refs/heads/alias")
      assert.deepStrictEqual(yield* saved, { sha: one, asked: 1 })
    }))
})

describe("the agent's own git on another machine", () => {
  it.live("is on its branch with its commits, and what was not committed is not", () =>
    Effect.gen(function*() {
      const { commit, save, sources, tree } = yield* setUp()
      gitIn(tree, "switch", "--quiet", "--create", "feature/x")
      commit("one", { "a": "a\n", "dist/kept": "by force\n" })
      commit("two", { "dir/file": "changed\n", ".env": "SECRET=1\n" })
      write(tree, { "README.md": "# changed\n", "new": "new\n", "dir/.env.local": "SECRET=2\n", "dist/left": "ignored\n" })
      rmSync(join(tree, "gone"))
      symlinkSync("/etc/passwd", join(tree, "link"))
      const before = seen(tree)
      const { bytes } = yield* save
      const other = yield* machine()
      yield* other.trees.restore(key.sandboxId, Stream.make(bytes), sources)
      assert.deepStrictEqual(seen(other.tree), before)
      assert.match(before.status, /^## feature\/x\n/u)
      assert.strictEqual(readFileSync(join(other.tree, "dir/.env.local"), "utf8"), "SECRET=2\n")
      assert.isFalse(existsSync(join(other.tree, "dist/left")))
      // It goes on.
      gitIn(other.tree, "add", "--all")
      gitIn(other.tree, "commit", "--quiet", "--message", "three")
      assert.strictEqual(gitIn(other.tree, "rev-list", "--count", "origin/main..HEAD"), "3")
    }))

  it.live("stands at any commit it went back to, on a branch of its own or on none", () =>
    Effect.gen(function*() {
      const { before, save, sources, tree } = yield* setUp()
      gitIn(tree, "checkout", "--quiet", "--detach", before)
      const detached = yield* save
      const other = yield* machine()
      yield* other.trees.restore(key.sandboxId, Stream.make(detached.bytes), sources)
      assert.deepStrictEqual(seen(other.tree), seen(tree))
      // Another history, on a branch whose name is a folder to that of the first one.
      gitIn(tree, "branch", "--quiet", "--delete", "--force", "main")
      gitIn(tree, "checkout", "--quiet", "--orphan", "main/other")
      gitIn(tree, "commit", "--quiet", "--all", "--message", "from nothing")
      const orphan = yield* save
      yield* other.trees.restore(key.sandboxId, Stream.make(orphan.bytes), sources)
      assert.deepStrictEqual(seen(other.tree), seen(tree))
      assert.strictEqual(gitIn(other.tree, "rev-list", "--count", "HEAD"), "1")
    }))

  it.live("publishes after it as before, whatever the agent committed", () =>
    Effect.gen(function*() {
      const { commit, save, sources, tree, trees } = yield* setUp()
      commit("one", { a: "a\n" })
      write(tree, { b: "b\n", ".env": "SECRET=1\n" })
      const snapshot = (on: Effect.Success<ReturnType<typeof machine>>) =>
        on.trees.snapshot(key, { message: "rest", author, history: historyOf(on.tree) })
      const before = yield* trees.snapshot(key, { message: "rest", author, history: historyOf(tree) })
      const { bytes, sha } = yield* save
      const other = yield* machine()
      yield* other.trees.restore(key.sandboxId, Stream.make(bytes), sources)
      assert.deepStrictEqual(yield* snapshot(other), before)
      const again = yield* Effect.scoped(other.trees.save(key.sandboxId, [{ repo: key.repo, history: historyOf(other.tree) }]))
      assert.strictEqual(again.repos[0]?.sha, sha)
    }))

  it.live("saves again what nothing was added to without writing it again", () =>
    Effect.gen(function*() {
      const { directory, save, tree } = yield* setUp()
      const packs = () =>
        execFileSync("du", ["-sb", join(directory, "sandboxes", key.sandboxId, "git")], { encoding: "utf8" }).split("\t")[0]
      write(tree, { large: Array.from({ length: 20_000 }, (_, i) => `${Math.imul(i, 2_654_435_761) >>> 0}\n`).join("") })
      yield* save
      const size = Number(packs())
      write(tree, { small: "small\n" })
      yield* save
      yield* save
      assert.isBelow(Number(packs()) - size, 20_000)
    }))
})

describe("on a machine that has nothing", () => {
  it.live("says when neither it nor the repository has the commit that the tree started from", () =>
    Effect.gen(function*() {
      const { origin, save, sources, tree } = yield* setUp()
      write(tree, { new: "new\n" })
      const { bytes } = yield* save
      rmSync(origin.path, { recursive: true })
      const { trees } = yield* machine()
      const error = yield* Effect.flip(trees.restore(key.sandboxId, Stream.make(bytes), sources))
      assert.deepInclude(error, { _tag: "CloneFailed", repo: "acme/app", retryable: false })
      assert.isFalse(yield* trees.has(key.sandboxId))
      assert.notInclude(yield* trees.sandboxes, key.sandboxId)
    }))

  it.live("what the end of a process left is no tree; it is restored or made anew", () =>
    Effect.gen(function*() {
      const { directory, origin, save, sources, tree, trees } = yield* setUp()
      write(tree, { new: "saved\n" })
      const { bytes } = yield* save
      const left = Effect.sync(() => mkdirSync(join(directory, "restoring", key.sandboxId, "half"), { recursive: true }))
      yield* left
      assert.isFalse(yield* trees.has(key.sandboxId))
      assert.include(yield* trees.sandboxes, key.sandboxId)
      assert.strictEqual((yield* Effect.flip(trees.list(key, "")))._tag, "FileNotFound")
      // Nor is it one after another that could not be done.
      yield* Effect.flip(trees.restore(key.sandboxId, Stream.make(bytes.subarray(1)), sources))
      assert.isFalse(yield* trees.has(key.sandboxId))
      write(tree, { new: "later\n" })
      yield* trees.restore(key.sandboxId, Stream.make(bytes), sources)
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.strictEqual(readFileSync(join(tree, "new"), "utf8"), "saved\n")
      yield* left
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      assert.isTrue(yield* trees.has(key.sandboxId))
      assert.isFalse(existsSync(join(tree, "new")))
    }))
})

describe("an archive that somebody made up", () => {
  const blob = (content: string) => (repository: string) => hash(repository, "blob", Buffer.from(content))
  const hash = (repository: string, type: string, bytes: Buffer) =>
    execFileSync("git", ["-C", repository, "hash-object", "-t", type, "-w", "--literally", "--stdin"], { input: bytes, encoding: "utf8" })
      .trim()
  const treeOf = (repository: string, entries: ReadonlyArray<readonly [mode: string, name: string, id: string]>) =>
    hash(
      repository,
      "tree",
      Buffer.concat(entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]))
    )
  const commitOf = (repository: string, tree: string, parent: string) =>
    hash(
      repository,
      "commit",
      Buffer.from(`tree ${tree}\nparent ${parent}\nauthor A <a@b.c> 1 +0000\ncommitter A <a@b.c> 1 +0000\n\nx\n`)
    )

  /** Restores the commit that `make` gives, with all it needs but `without`. */
  const restoring = Effect.fnUntraced(function*(
    make: (repository: string, base: string) => string,
    { change = {}, options = {}, without = [] }: {
      readonly change?: Partial<TreesArchive.SavedTree>
      readonly options?: Partial<Trees.Options>
      readonly without?: ReadonlyArray<string>
    } = {}
  ) {
    const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n" })
    const baseSha = gitIn(origin.path, "rev-parse", "main")
    const folder = yield* temporaryFolder
    const forge = join(folder, "forge")
    gitIn(folder, "clone", "--quiet", origin.path, forge)
    const sha = make(forge, baseSha)
    const objects = gitIn(forge, "rev-list", "--objects", "--no-object-names", sha, `^${baseSha}`).split("\n")
    const pack = execFileSync("git", ["-C", forge, "pack-objects", "--stdout", "--quiet"], {
      input: objects.filter((id) => !without.includes(id)).map((id) => `${id}\n`).join("")
    })
    const path = join(folder, "pack")
    writeFileSync(path, pack)
    const tree: TreesArchive.SavedTree = {
      repo: key.repo,
      baseSha,
      baseRef: "main",
      preparedAt: 1_000,
      sha,
      head: null,
      branch: "main",
      published: null,
      pushed: [],
      ...change
    }
    const { content } = yield* TreesArchive.write([{ tree, pack: { fd: openSync(path, "r"), size: statSync(path).size } }])
    const { tree: place, trees } = yield* machine(options)
    const result = yield* Effect.result(trees.restore(key.sandboxId, content, [{ repo: key.repo, remote: origin.remote }]))
    if (result._tag === "Failure") assert.isFalse(yield* trees.has(key.sandboxId))
    // It is not learned either.
    const learning = yield* machine(options)
    yield* learning.trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    const learned = yield* Effect.result(learning.trees.learn(key.sandboxId, content))
    assert.strictEqual(learned._tag, result._tag)
    const refused = change.repo === undefined ? "CheckpointDamaged" : "FileNotFound"
    if (learned._tag === "Failure") assert.strictEqual(learned.failure._tag, refused)
    assert.strictEqual(readdirSync(join(learning.directory, "learned")).length, learned._tag === "Failure" ? 0 : 1)
    return { said: result._tag === "Failure" ? result.failure._tag : "nothing", place }
  })

  it.live("is restored where nothing is wrong with it", () =>
    Effect.gen(function*() {
      const { place, said } = yield* restoring((at, base) => commitOf(at, treeOf(at, [["100644", "a", blob("a\n")(at)]]), base))
      assert.strictEqual(said, "nothing")
      assert.strictEqual(gitIn(place, "status", "--porcelain"), "D README.md\n D dir/file\n?? a")
    }))

  it.live("is refused for names that git does not allow, in any disguise", () =>
    Effect.gen(function*() {
      for (const name of [".git", ".GIT", "git~1", ".g\u200cit", "..", ".", "a/b"]) {
        const { said } = yield* restoring((at, base) => {
          const inner = treeOf(at, [["100644", "config", blob("[core]\n")(at)]])
          return commitOf(at, treeOf(at, [["40000", name, inner]]), base)
        })
        assert.strictEqual(said, "CheckpointDamaged", JSON.stringify(name))
      }
    }))

  it.live("writes through no link, whatever order its names have", () =>
    Effect.gen(function*() {
      const outside = join(yield* temporaryFolder, "outside")
      mkdirSync(outside)
      const { said } = yield* restoring((at, base) => {
        const inner = treeOf(at, [["100644", "file", blob("written\n")(at)]])
        return commitOf(at, treeOf(at, [["120000", "link", blob(outside)(at)], ["40000", "link", inner]]), base)
      })
      assert.strictEqual(said, "CheckpointDamaged")
      assert.isFalse(existsSync(join(outside, "file")))
    }))

  it.live("is refused with another repository in it, with objects missing, and where its commits are none", () =>
    Effect.gen(function*() {
      const nested = yield* restoring((at, base) => commitOf(at, treeOf(at, [["160000", "sub", base]]), base))
      assert.strictEqual(nested.said, "CheckpointDamaged")
      let missing = ""
      const lacking = (at: string, base: string) => {
        missing = blob("missing\n")(at)
        return commitOf(at, treeOf(at, [["100644", "a", missing]]), base)
      }
      yield* restoring(lacking)
      assert.strictEqual((yield* restoring(lacking, { without: [missing] })).said, "CheckpointDamaged")
      const plain = (at: string, base: string) => commitOf(at, treeOf(at, [["100644", "a", blob("a\n")(at)]]), base)
      const none = "0123456789abcdef0123456789abcdef01234567"
      for (const change of [{ head: none }, { published: none }, { sha: none }]) {
        assert.strictEqual((yield* restoring(plain, { change })).said, "CheckpointDamaged", JSON.stringify(change))
      }
      assert.strictEqual((yield* restoring(plain, { change: { baseSha: none } })).said, "CloneFailed")
      const other = { repo: RepoName.make("acme/other") }
      assert.strictEqual((yield* restoring(plain, { change: other })).said, "CheckpointDamaged")
    }))

  it.live("has the limits of a checkout: billions of files out of a few trees, and files of a size", () =>
    Effect.gen(function*() {
      const many = yield* restoring((at, base) => {
        let tree = treeOf(at, [["100644", "a", blob("a\n")(at)]])
        for (let depth = 0; depth < 10; depth++) {
          const below = tree
          tree = treeOf(at, Array.from("0123456789", (name) => ["40000", name, below] as const))
        }
        return commitOf(at, tree, base)
      }, { options: { maximumCheckoutFiles: 1_000 } })
      assert.strictEqual(many.said, "CheckpointDamaged")
      const large = yield* restoring((at, base) => commitOf(at, treeOf(at, [["100644", "a", blob("a".repeat(1e6))(at)]]), base), {
        options: { maximumCheckoutBytes: 500_000 }
      })
      assert.strictEqual(large.said, "CheckpointDamaged")
    }))
})
