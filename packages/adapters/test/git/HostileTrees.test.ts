/** The agent owns its tree and does its worst. Nothing of it may run here, and nothing from outside may get in. */
import { assert, describe, it } from "@effect/vitest"
import { workspacesIn } from "@slipway/adapters/hosts/box/TreesLayout"
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { SandboxId } from "@slipway/domain/SandboxId"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { Context, Effect, Layer, Result, Stream } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { join } from "node:path"
import * as SafeTree from "../../src/git/SafeTree.ts"
import { agent, gitIn, source, temporaryFolder, tolerate } from "./Repositories.ts"
import * as Trees from "./Trees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const SECRET = "from outside the tree\n"

const setUp = Effect.gen(function*() {
  const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n", ".gitmodules": "" })
  const directory = yield* temporaryFolder
  const outside = yield* temporaryFolder
  writeFileSync(join(outside, "file"), SECRET)
  const trees = Context.get(yield* Layer.build(Trees.layer({ directory })), WorkingTrees)
  yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  const tree = join(workspacesIn(directory)(key.sandboxId), "app")
  const publish = Effect.gen(function*() {
    const { sha } = yield* trees.snapshot(key, { message: "x", author })
    yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
    return sha
  })
  return { origin, directory, outside, trees, tree, publish }
})

/** Makes the tree's own repository run something wherever git runs something; each leaves its name in `marks`. */
const boobyTrap = (tree: string, marks: string, attacker: string) => {
  const touch = (name: string) => `touch ${join(marks, name)}`
  const script = (path: string, content: string) => writeFileSync(path, `#!/bin/sh\n${content}\n`, { mode: 0o755 })
  mkdirSync(join(tree, ".git", "hooks"), { recursive: true })
  for (
    const hook of ["pre-commit", "post-commit", "pre-push", "post-index-change", "reference-transaction", "prepare-commit-msg",
      "post-checkout"]
  ) {
    script(join(tree, ".git", "hooks", hook), touch(`hook-${hook}`))
  }
  const config = (folder: string, name: string, value: string) => gitIn(folder, "config", "--add", name, value)
  script(join(tree, "monitor"), `${touch("fsmonitor")}\necho`)
  for (const kind of ["clean", "smudge"]) config(tree, `filter.evil.${kind}`, `sh -c '${touch(`filter-${kind}`)}; cat'`)
  config(tree, "filter.talking.process", `sh -c '${touch("filter-process")}; exit 1'`)
  config(tree, "diff.evil.textconv", `sh -c '${touch("textconv")}'`)
  config(tree, "diff.external", `sh -c '${touch("external-diff")}'`)
  config(tree, "core.sshCommand", `sh -c '${touch("ssh")}'`)
  config(tree, "credential.helper", `!${touch("credentials")}`)
  config(tree, "gpg.program", join(tree, "monitor"))
  config(tree, "commit.gpgSign", "true")
  config(tree, "core.pager", `sh -c '${touch("pager")}'`)
  config(tree, `url.${attacker}.insteadOf`, "/")
  // Where we have put it that attributes have no say.
  rmSync(join(tree, ".git", "info", "attributes"), { force: true })
  writeFileSync(join(tree, ".gitattributes"), "* filter=evil diff=evil merge=evil\n*.talk filter=talking\n")
  writeFileSync(join(tree, "some.talk"), "x\n")
  writeFileSync(
    join(tree, ".gitmodules"),
    "[submodule \"nested\"]\n\tpath = nested\n\turl = ext::sh\n\tupdate = !touch x\n\tignore = none\n"
  )
  mkdirSync(join(tree, "nested"))
  gitIn(join(tree, "nested"), "init", "--quiet")
  writeFileSync(join(tree, "nested", "file"), "n")
  gitIn(join(tree, "nested"), "add", "file")
  gitIn(join(tree, "nested"), "commit", "--quiet", "--message", "n")
  config(join(tree, "nested"), "core.fsmonitor", join(tree, "monitor"))
  writeFileSync(join(tree, "README.md"), "# changed\n")
  config(tree, "core.fsmonitor", join(tree, "monitor"))
}

describe("a hostile tree", () => {
  it.live("runs nothing on the host and redirects no push", () =>
    Effect.gen(function*() {
      const { directory, origin, publish, tree, trees } = yield* setUp
      const marks = yield* temporaryFolder
      const attacker = yield* temporaryFolder
      boobyTrap(tree, marks, attacker)
      const fired = () => {
        const names = readdirSync(marks)
        for (const name of names) rmSync(join(marks, name))
        return names.sort()
      }

      // The traps are live: git as anybody runs it falls into them.
      const copy = join(directory, "copy")
      cpSync(tree, copy, { recursive: true, verbatimSymlinks: true })
      fired()
      for (
        const args of [["status"], ["add", "README.md"], ["-c", "commit.gpgSign=false", "commit", "--message", "x"], ["diff", "HEAD~1"], [
          "add",
          "some.talk"
        ]]
      ) {
        tolerate(() => gitIn(copy, ...args))
      }
      assert.includeMembers(fired(), ["filter-clean", "filter-process", "fsmonitor", "hook-pre-commit", "external-diff"])
      assert.strictEqual(gitIn(copy, "ls-remote", "--get-url", origin.path), attacker + origin.path.slice(1))
      rmSync(copy, { recursive: true })

      const { entries } = yield* trees.list(key, "")
      assert.deepStrictEqual(entries.filter(({ status }) => status !== null).map(({ kind, name, status }) => [name, kind, status]), [
        [".gitattributes", "file", "untracked"],
        [".gitmodules", "file", "modified"],
        ["README.md", "file", "modified"],
        ["monitor", "file", "untracked"],
        ["nested", "submodule", "untracked"],
        ["some.talk", "file", "untracked"]
      ])
      assert.strictEqual((yield* trees.compare(key, "README.md", 100)).working?.content, "# changed\n")
      const sha = yield* publish
      assert.strictEqual(yield* origin.tip("slipway/x"), sha)
      assert.deepStrictEqual(Object.keys(yield* origin.files(sha)), [".gitattributes", ".gitmodules", "README.md", "dir/file", "monitor",
        "some.talk"])
      assert.deepStrictEqual(fired(), [])
    }))

  it.live("may put anything in the place of .git", () =>
    Effect.gen(function*() {
      const { outside, publish, origin, tree, trees } = yield* setUp
      const marks = yield* temporaryFolder
      boobyTrap(tree, marks, outside)
      rmSync(join(outside, "evil.git"), { recursive: true, force: true })
      cpSync(join(tree, ".git"), join(outside, "evil.git"), { recursive: true })
      for (
        const replace of [
          () => writeFileSync(join(tree, ".git"), `gitdir: ${join(outside, "evil.git")}\n`),
          () => symlinkSync(join(outside, "evil.git"), join(tree, ".git")),
          () => {}
        ]
      ) {
        rmSync(join(tree, ".git"), { recursive: true, force: true })
        replace()
        assert.isFalse((yield* trees.list(key, "")).entries.some(({ name }) => name === ".git"))
        assert.strictEqual(Object.keys(yield* origin.files(yield* publish)).length, 6)
      }
      assert.deepStrictEqual(readdirSync(marks), [])
    }))

  it.live("a folder that became a link to the outside is a deleted folder and a link", () =>
    Effect.gen(function*() {
      const { origin, outside, publish, tree, trees } = yield* setUp
      rmSync(join(tree, "dir"), { recursive: true })
      symlinkSync(outside, join(tree, "dir"))
      const { entries } = yield* trees.list(key, "")
      assert.deepInclude(entries.find(({ name }) => name === "dir"), { kind: "symlink", status: "untracked" })
      const files = yield* origin.files(yield* publish)
      assert.strictEqual(files["dir"], `-> ${outside}`)
      assert.isUndefined(files["dir/file"])
    }))

  it.live("the tree itself may become a link", () =>
    Effect.gen(function*() {
      const { outside, tree, trees } = yield* setUp
      rmSync(tree, { recursive: true })
      symlinkSync(outside, tree)
      assert.strictEqual((yield* trees.list(key, "").pipe(Effect.flip))._tag, "FileProtected")
      assert.strictEqual((yield* trees.open(key, "file", 100).pipe(Effect.scoped, Effect.flip))._tag, "FileProtected")
      assert.strictEqual((yield* trees.compare(key, "file", 100).pipe(Effect.flip))._tag, "FileProtected")
      yield* trees.remove(key.sandboxId)
      assert.isTrue(existsSync(join(outside, "file")))
    }))

  it.live("sockets are neither listed nor opened nor committed, and devices are no files", () =>
    Effect.gen(function*() {
      const { origin, publish, tree, trees } = yield* setUp
      const socket = join(tree, "socket")
      yield* Effect.acquireRelease(
        Effect.promise(() =>
          new Promise<Server>((resolve) => {
            const server = createServer().listen(socket, () => resolve(server))
          })
        ),
        (server) => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
      )
      yield* agent.write(join(tree, "new"), "x")
      const { entries, partialWarnings } = yield* trees.list(key, "")
      assert.deepStrictEqual([entries.some(({ name }) => name === "socket"), partialWarnings], [false, ["unreadable_entries"]])
      assert.strictEqual((yield* trees.open(key, "socket", 100).pipe(Effect.scoped, Effect.flip))._tag, "FileProtected")
      assert.strictEqual((yield* trees.compare(key, "socket", 100).pipe(Effect.flip))._tag, "FileProtected")
      assert.deepStrictEqual(Object.keys(yield* origin.files(yield* publish)), [".gitmodules", "README.md", "dir/file", "new"])
      // No agent of ours can make one, but a tree may be on a disk where one is.
      for (const device of ["null", "tty"]) {
        assert.strictEqual(
          (yield* SafeTree.openFile("/dev", Buffer.from(device)).pipe(Effect.scoped, Effect.flip))._tag,
          "FileProtected",
          device
        )
      }
    }))

  it.live("names that are no text are left out of listings, but committed", () =>
    Effect.gen(function*() {
      const { origin, publish, tree, trees } = yield* setUp
      const name = Buffer.concat([Buffer.from(`${tree}/bad-`), Buffer.from([0xff])])
      writeFileSync(name, "bytes")
      const listed = yield* trees.list(key, "")
      assert.deepStrictEqual(listed.partialWarnings, ["invalid_names"])
      assert.isFalse(listed.entries.some((entry) => entry.name.startsWith("bad-")))
      assert.include(Object.values(yield* origin.files(yield* publish)), "bytes")
    }))

  it.live("paths that git refuses, or that are too long for a path, break neither listing nor publishing nor removal", () =>
    Effect.gen(function*() {
      const { origin, publish, tree, trees } = yield* setUp
      yield* agent.write(join(tree, "git~1"), "x")
      yield* agent.write(join(tree, "sub", ".GIT", "config"), "x")
      yield* agent.symlink(join(tree, "sub", ".gitmodules"), "x")
      yield* agent.write(join(tree, "new"), "x")
      const deep = `
        const { mkdirSync, writeFileSync } = require("fs")
        for (let i = 0; i < 30; i++) {
          mkdirSync("d".repeat(200))
          process.chdir("d".repeat(200))
        }
        writeFileSync("f", "x")`
      execFileSync(process.execPath, ["-e", deep], { cwd: tree })
      const { entries } = yield* trees.list(key, "")
      assert.deepStrictEqual(entries.map(({ name }) => name), ["d".repeat(200), "dir", "sub", ".gitmodules", "README.md", "git~1", "new"])
      assert.strictEqual(entries.at(-1)?.status, "untracked")
      assert.deepStrictEqual(Object.keys(yield* origin.files(yield* publish)), [".gitmodules", "README.md", "dir/file", "new"])
      yield* trees.remove(key.sandboxId)
      assert.isFalse(yield* trees.has(key.sandboxId))
    }))

  it.live("more than a snapshot may hold is refused before it fills the disk", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const directory = yield* temporaryFolder
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
        yield* agent.write(join(workspacesIn(directory)(key.sandboxId), "app", "a"), "x".repeat(600))
        yield* trees.snapshot(key, { message: "x", author })
        yield* agent.write(join(workspacesIn(directory)(key.sandboxId), "app", "b"), "x".repeat(600))
        assert.deepInclude(yield* trees.snapshot(key, { message: "x", author }).pipe(Effect.flip), { _tag: "PushFailed", retryable: false })
      }).pipe(Effect.provide(Trees.layer({ directory, maximumSnapshotBytes: 1_000 })))
    }))
})

/** Swaps the folder `dir` of the tree for a link to the outside and back, as fast as it can. */
const swapping = (tree: string, outside: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const loop = `
        const { renameSync, symlinkSync, unlinkSync } = require("fs")
        process.chdir(process.argv[1])
        process.stdout.write("go")
        for (;;) {
          renameSync("dir", "dir.away")
          symlinkSync(process.argv[2], "dir")
          unlinkSync("dir")
          renameSync("dir.away", "dir")
        }`
      const child = spawn(process.execPath, ["-e", loop, tree, outside], { stdio: ["ignore", "pipe", "inherit"] })
      await new Promise((resolve) => child.stdout.once("data", resolve))
      return child
    }),
    (child) =>
      Effect.promise(() => {
        const gone = new Promise((resolve) => child.once("close", resolve))
        child.kill("SIGKILL")
        return gone
      })
  )

/** The race can be lost: a reader that resolves the path before it reads gets the file from outside. */
const assertLive = (tree: string) => {
  const file = join(tree, "dir", "file")
  for (let i = 0; i < 200_000; i++) {
    if (tolerate(() => realpathSync(file).startsWith(tree) && readFileSync(file, "utf8")) === SECRET) return
  }
  assert.fail("the attack is not live")
}

// That no commit has such a file is its box's doing, where git runs: see git.isolation.ts. Without isolation git is the agent's user.
describe("a tree that changes under our hands", () => {
  it.live("never gives out a file from outside, while a careful-looking reader does", () =>
    Effect.gen(function*() {
      const { outside, tree, trees } = yield* setUp
      yield* swapping(tree, outside)
      let [leaks, reads] = [0, 0]
      for (let i = 0; i < 1_500; i++) {
        const result = yield* trees.open(key, "dir/file", 1_000).pipe(
          Effect.flatMap(({ bytes }) => Stream.mkString(Stream.decodeText(bytes))),
          Effect.scoped,
          Effect.result
        )
        if (Result.isFailure(result)) assert.include(["FileProtected", "FileNotFound"], result.failure._tag)
        else if (result.success === SECRET) leaks++
        else reads++
      }
      assert.strictEqual(leaks, 0)
      assert.isAbove(reads, 0)

      assertLive(tree)
    }), 60_000)
})
