/** A worker dies at any point; the next one carries on. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, Fiber, Stream } from "effect"
import { spawnSync } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { agent, gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")
const key = { sandboxId, repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }

const setUp = Effect.gen(function*() {
  const origin = yield* source({
    "README.md": "# app\n",
    ...Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`src/${i}`, `${i}\n`]))
  })
  const directory = yield* temporaryFolder
  /** Boots and publishes as the next worker would, and checks that all is as if nothing had happened. */
  const carryOn = Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const base = yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    assert.deepStrictEqual(base, { baseSha: (yield* origin.tip("main")) ?? "", baseRef: "main" })
    yield* agent.write(join(workspacesIn(directory)(sandboxId), "app", "new"), "new\n")
    const { entries } = yield* trees.list(key, "")
    assert.deepStrictEqual(entries.slice(0, 2).map(({ name, status }) => [name, status]), [["src", null], ["README.md", null]])
    // The killed process may have pushed.
    const asked = { remote: origin.remote, headRef: "slipway/x", pushed: null, branches: [], author }
    const { head } = yield* trees.branches(key, asked)
    const { sha } = yield* trees.snapshot(key, { message: "x", author, since: { head, merges: [], remote: origin.remote } })
    yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote, expected: head })
    assert.strictEqual(yield* origin.tip("slipway/x"), sha)
    assert.strictEqual(gitIn(origin.path, "ls-tree", "-r", "--name-only", sha).split("\n").length, 302)
    yield* trees.remove(sandboxId)
    assert.deepStrictEqual(readdirSync(join(directory, "sandboxes")), [])
    // Nor of a download that was broken off.
    yield* Effect.promise(async () => {
      while (readdirSync(join(directory, "mirrors", "incoming")).length > 0) await new Promise((resolve) => setImmediate(resolve))
    })
  }).pipe(Effect.provide(Trees.layer({ directory })))
  return { origin, directory, carryOn }
})

const some = (folder: string): ReadonlyArray<string> => existsSync(folder) ? readdirSync(folder) : []

/** Looks at the directory as fast as it can, and kills the worker when it sees what it waits for. */
const killWhen = (
  directory: string,
  origin: string,
  seen: () => boolean,
  program = "./boot-and-publish.ts",
  ...more: ReadonlyArray<string>
) =>
  Effect.promise(async () => {
    const args = [fileURLToPath(new URL(program, import.meta.url)), directory, origin, sandboxId, ...more]
    const worker = SpawnedProgram.start(process.execPath, args)
    while (worker.isRunning() && !seen()) await new Promise((resolve) => setImmediate(resolve))
    return (await worker.stop("SIGKILL")).signal
  })

/** The entries of the mirrors in one of their folders. */
const inMirrors = (directory: string, ...folder: ReadonlyArray<string>) =>
  some(join(directory, "mirrors")).flatMap((name) => some(join(directory, "mirrors", name, ...folder)))

describe("a worker that is killed", () => {
  const inSandbox = (directory: string, ...path: ReadonlyArray<string>) => join(directory, "sandboxes", sandboxId, ...path)
  it.live.each([
    { when: "the mirror appears", seen: (d: string) => some(join(d, "mirrors")).some((name) => name.endsWith(".git")) },
    { when: "the download begins", seen: (d: string) => some(join(d, "mirrors", "incoming")).length > 0 },
    { when: "the download is moved to the mirror", seen: (d: string) => inMirrors(d, "objects", "pack").length > 0 },
    { when: "the commit is fetched", seen: (d: string) => inMirrors(d, "refs", "commits").length > 0 },
    { when: "the commit is known", seen: (d: string) => inMirrors(d, "commits").length > 0 },
    { when: "the site of the tree appears", seen: (d: string) => some(inSandbox(d, "making")).length > 0 },
    { when: "the tree is in its place", seen: (d: string) => some(inSandbox(d, "workspace")).length > 0 },
    { when: "the repository is in its place", seen: (d: string) => some(inSandbox(d, "git")).length > 0 },
    { when: "the snapshot is taken", seen: (d: string) => some(inSandbox(d, "git", "acme+app", "scratch")).length > 0 },
    { when: "the push begins", seen: (d: string) => existsSync(inSandbox(d, "git", "acme+app", "pushed")) },
    {
      when: "the push has arrived",
      seen: (_: string, origin: string) => existsSync(join(origin, "refs", "heads", "slipway", "x")),
      mayBeLate: true
    }
  ])("when $when leaves nothing that stops the next one", ({ mayBeLate, seen }) =>
    Effect.gen(function*() {
      const { carryOn, directory, origin } = yield* setUp
      const signal = yield* killWhen(directory, origin.path, () => seen(directory, origin.path))
      if (mayBeLate !== true) assert.strictEqual(signal, "SIGKILL", "it was done before it could be killed")
      yield* carryOn
    }))
})

describe("a worker that is killed while it restores", () => {
  const app = (directory: string, ...path: ReadonlyArray<string>) => join(directory, "sandboxes", sandboxId, "workspace", "app", ...path)
  it.live.each([
    { when: "it begins", seen: (d: string) => some(join(d, "restoring")).length > 0 },
    { when: "what was saved is read", seen: (d: string) => some(join(d, "restoring", sandboxId)).length > 0 },
    { when: "the site of the tree appears", seen: (d: string) => some(join(d, "sandboxes", sandboxId, "making")).length > 0 },
    { when: "the tree before goes", seen: (d: string) => !existsSync(app(d, "before")) },
    { when: "the tree is in its place", seen: (d: string) => existsSync(app(d, "saved")) }
  ])("when $when leaves no tree, and the next one restores it", ({ seen }) =>
    Effect.gen(function*() {
      const { directory, origin } = yield* setUp
      const source = { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] }
      const archive = join(yield* temporaryFolder, "archive")
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        yield* trees.prepare(key, source)
        yield* agent.write(app(directory, "saved"), "saved\n")
        const { content } = yield* trees.save(sandboxId, [{ repo: key.repo }])
        writeFileSync(archive, Buffer.concat(yield* Stream.runCollect(content)))
        yield* agent.remove(app(directory, "saved"))
        yield* agent.write(app(directory, "before"), "before\n")
      }).pipe(Effect.scoped, Effect.provide(Trees.layer({ directory })))

      const signal = yield* killWhen(directory, origin.path, () => seen(directory), "./restore.ts", archive)
      assert.strictEqual(signal, "SIGKILL", "it was done before it could be killed")
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        assert.isFalse(yield* trees.has(sandboxId))
        assert.strictEqual((yield* Effect.flip(trees.list(key, "")))._tag, "FileNotFound")
        assert.deepStrictEqual(yield* trees.sandboxes, [sandboxId])
        yield* trees.restore(sandboxId, Stream.make(readFileSync(archive)), [{ repo: key.repo, remote: origin.remote }])
        assert.isTrue(yield* trees.has(sandboxId))
        const { entries } = yield* trees.list(key, "")
        assert.deepStrictEqual(entries.map(({ name, status }) => [name, status]), [["src", null], ["README.md", null], ["saved",
          "untracked"]])
        assert.deepStrictEqual(readdirSync(join(directory, "restoring")), [])
        assert.deepStrictEqual(some(join(directory, "sandboxes", sandboxId, "making")), [])
        yield* trees.remove(sandboxId)
        assert.deepStrictEqual(yield* trees.sandboxes, [])
      }).pipe(Effect.provide(Trees.layer({ directory })))
    }))
})

describe("what a power failure leaves", () => {
  const mirrorIn = (directory: string) =>
    join(directory, "mirrors", some(join(directory, "mirrors")).find((name) => name.endsWith(".git")) ?? "")

  it.live("a mirror with empty files is put right", () =>
    Effect.gen(function*() {
      const { carryOn, directory, origin } = yield* setUp
      yield* carryOn
      const mirror = mirrorIn(directory)
      const sha = (yield* origin.tip("main")) ?? ""
      for (const file of ["HEAD", "config", join("refs", "commits", sha), join("commits", sha)]) truncateSync(join(mirror, file))
      yield* origin.deleteBranch("slipway/x")
      yield* carryOn
    }))

  it.live("a mirror that was only begun is finished", () =>
    Effect.gen(function*() {
      const { carryOn, directory, origin } = yield* setUp
      yield* carryOn
      const mirror = mirrorIn(directory)
      rmSync(mirror, { recursive: true })
      mkdirSync(join(mirror, "objects"), { recursive: true })
      yield* origin.deleteBranch("slipway/x")
      yield* carryOn
    }))

  it.live("a tree without a repository, or with an incomplete one, is made again", () =>
    Effect.gen(function*() {
      const { carryOn, directory } = yield* setUp
      const tree = join(directory, "sandboxes", sandboxId, "workspace", "app")
      const repository = join(directory, "sandboxes", sandboxId, "git", "acme+app")
      mkdirSync(tree, { recursive: true })
      mkdirSync(repository, { recursive: true })
      writeFileSync(join(tree, "left"), "over")
      writeFileSync(join(repository, "slipway.json"), "{\"repo\":\"acme/ap")
      yield* carryOn
    }))
})

it.live("a push that is broken off succeeds when it is done again, also with newer changes", () =>
  Effect.gen(function*() {
    const { directory, origin } = yield* setUp
    yield* Effect.gen(function*() {
      const trees = yield* WorkingTrees
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      const tree = join(workspacesIn(directory)(sandboxId), "app")
      const { remote } = origin
      const publish = Effect.gen(function*() {
        const { head } = yield* trees.branches(key, { remote, headRef: "slipway/x", pushed: null, branches: [], author })
        const { sha } = yield* trees.snapshot(key, { message: "x", author, since: { head, merges: [], remote } })
        yield* trees.push(key, { sha, headRef: "slipway/x", remote, expected: head })
        return sha
      })
      yield* agent.write(join(tree, "new"), "1\n")
      const pushing = yield* Effect.forkChild(publish)
      while ((yield* origin.tip("slipway/x")) === null) yield* Effect.yieldNow
      yield* Fiber.interrupt(pushing)
      // Not remembered as published, though it arrived.
      rmSync(join(directory, "sandboxes", sandboxId, "git", "acme+app", "published"), { force: true })

      appendFileSync(join(tree, "new"), "2\n")
      const first = yield* origin.tip("slipway/x")
      const second = yield* publish
      assert.deepStrictEqual((yield* origin.history("slipway/x")).slice(0, 2), [second, first])
      assert.strictEqual((yield* trees.compare(key, "new", 100)).head?.content, "1\n2\n")
    }).pipe(Effect.provide(Trees.layer({ directory })))
  }))

it.live("nothing is open to other users of the machine, and what was is closed at the next start", () =>
  Effect.gen(function*() {
    const { directory, origin } = yield* setUp
    const modes = () =>
      ["", "mirrors", "sandboxes", ...["", "git", "making", "workspace"].map((name) => join("sandboxes", sandboxId, name))]
        .map((path) => (statSync(join(directory, path)).mode & 0o777).toString(8))
    const closed = Array.from({ length: 7 }, () => "700")
    yield* Effect.scoped(Effect.gen(function*() {
      const trees = yield* Trees.make({ directory })
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      assert.deepStrictEqual(modes(), closed)
    }))
    // As earlier versions left them.
    for (const path of ["", "mirrors"]) chmodSync(join(directory, path), 0o755)
    for (const path of ["sandboxes", join("sandboxes", sandboxId), join("sandboxes", sandboxId, "workspace")]) {
      chmodSync(join(directory, path), 0o711)
    }
    yield* Trees.make({ directory })
    assert.deepStrictEqual(modes(), closed)
  }))

/** Somebody else on the machine. */
const OTHER = "65534"
const isRoot = process.getuid?.() === 0

it.live.skipIf(!isRoot)(
  `another user of the machine reads nothing of a private repository${isRoot ? "" : " (only root can become another user: NOT TESTED)"}`,
  () =>
    Effect.gen(function*() {
      const { origin } = yield* setUp
      const data = yield* temporaryFolder
      chmodSync(data, 0o755)
      const trees = yield* Trees.make({ directory: join(data, "trees") })
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      yield* agent.write(join(workspacesIn(join(data, "trees"))(sandboxId), "app", "new"), "new\n")
      yield* trees.snapshot(key, { message: "x", author })
      const readable = (folder: string) =>
        spawnSync("setpriv", [`--reuid=${OTHER}`, `--regid=${OTHER}`, "--clear-groups", "sh", "-c",
          "find \"$1\" -type f -readable; cat \"$1\"/sandboxes/*/workspace/*/README.md \"$2\"", "sh", folder,
          join(workspacesIn(join(data, "trees"))(sandboxId), "app", "README.md")], { encoding: "utf8", cwd: "/" }).stdout
      // They read what is open to them.
      writeFileSync(join(data, "open"), "")
      assert.strictEqual(readable(data).trim(), join(data, "open"))
      assert.strictEqual(readable(join(data, "trees")), "")
    })
)
