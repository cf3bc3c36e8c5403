/** The agent owns its tree and does its worst. Nothing of it may run here, and nothing from outside may get in. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { agent, gitIn, source, temporaryFolder, tolerate } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import * as SafeTree from "@slipway/git/tree/SafeTree"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Context, Effect, Layer, Result, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { join } from "node:path"
import { type Kind, kinds } from "./Kinds.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const SECRET = "from outside the tree\n"

const setUpIn = Effect.fnUntraced(function*({ layer, workspaceIn }: Kind) {
  const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n", ".gitmodules": "" })
  const directory = yield* temporaryFolder
  const outside = yield* temporaryFolder
  writeFileSync(join(outside, "file"), SECRET)
  const trees = Context.get(yield* Layer.build(layer({ directory })), WorkingTrees)
  yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  const tree = join(workspaceIn(directory)(key.sandboxId), "app")
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

describe.for(kinds)("a hostile tree $name", (kind) => {
  const setUp = setUpIn(kind)
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
        yield* agent.write(join(kind.workspaceIn(directory)(key.sandboxId), "app", "a"), "x".repeat(600))
        yield* trees.snapshot(key, { message: "x", author })
        yield* agent.write(join(kind.workspaceIn(directory)(key.sandboxId), "app", "b"), "x".repeat(600))
        assert.deepInclude(yield* trees.snapshot(key, { message: "x", author }).pipe(Effect.flip), { _tag: "PushFailed", retryable: false })
      }).pipe(Effect.provide(kind.layer({ directory, maximumSnapshotBytes: 1_000 })))
    }))
})

/** Swaps the folder `dir` of the tree for a link to the outside and back, as fast as it can. */
const swapping = (tree: string, outside: string) => {
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
  return Effect.tap(
    SpawnedProgram.scoped(process.execPath, ["-e", loop, tree, outside]),
    ({ says }) => Effect.promise(() => says((output) => /go/u.exec(output)))
  )
}

/** The race can be lost: ends when a reader that resolves the path before it reads has got the file from outside. */
const untilLive = Effect.fnUntraced(function*(tree: string) {
  const file = join(tree, "dir", "file")
  for (let i = 1;; i++) {
    if (tolerate(() => realpathSync(file).startsWith(tree) && readFileSync(file, "utf8")) === SECRET) return
    if (i % 1_000 === 0) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  }
})

/** The content of the whole repository of a tree, and of every file on the way to it. */
const allBytes = (gitDir: string): string => {
  const said = execFileSync("git", ["--git-dir", gitDir, "cat-file", "--batch", "--batch-all-objects", "--unordered"], {
    maxBuffer: 2 ** 28
  })
  return said.toString("latin1")
}

/** Without isolation, and `act` happens whenever git has told what differs, before anything of it is read. */
const betweenLookAndRead = (options: Trees.Options, act: () => void) =>
  Trees.layerOn(
    Layer.effect(
      SandboxHost,
      Effect.map(SandboxHost, (host) => {
        const acting = <B extends Box>(box: B): B => ({
          ...box,
          spawn: (command) =>
            Effect.map(box.spawn(command), (process) => ({ ...process, exited: Effect.tap(process.exited, Effect.sync(act)) }))
        })
        return SandboxHost.of({ ...host, visit: (asked) => Effect.map(host.visit(asked), acting) })
      })
    ).pipe(Layer.provide(Layer.orDie(
      SandboxHostNone.layer({ directory: join(options.directory, "boxes"), workspaceOf: workspacesIn(options.directory) })
    ))),
    options
  )

describe("a tree without isolation, of which a folder becomes a link to the outside between git's look and the read", () => {
  it.live("gives out what was in the folder, or that it is gone, and nothing from outside", () =>
    Effect.gen(function*() {
      let act = () => {}
      const layer = (options: Trees.Options) => betweenLookAndRead(options, () => act())
      const { directory, origin, outside, tree, trees } = yield* setUpIn({ name: "", layer, workspaceIn: workspacesIn })
      for (const name of ["new", "deep/er/new", "link"]) yield* agent.write(join(outside, name), SECRET)
      rmSync(join(outside, "link"))
      symlinkSync(SECRET.trim(), join(outside, "link"))
      const fill = () => {
        rmSync(join(tree, "dir"), { recursive: true, force: true })
        mkdirSync(join(tree, "dir", "deep", "er"), { recursive: true })
        for (const name of ["file", "new", "deep/er/new"]) writeFileSync(join(tree, "dir", name), "mine\n")
        symlinkSync("mine", join(tree, "dir", "link"))
      }
      const become = () => {
        rmSync(join(tree, "dir"), { recursive: true, force: true })
        symlinkSync(outside, join(tree, "dir"))
      }
      const patchOf = Effect.map(
        trees.diff(key, { from: "base", to: "working", maximumBytes: 1_000_000 }),
        (patch) => Buffer.from(patch).toString()
      )
      fill()
      const before = yield* patchOf
      for (const line of ["+++ b/dir/deep/er/new", "+++ b/dir/file", "+mine"]) assert.include(before, line)
      act = become
      fill()
      const after = yield* patchOf
      assert.include(after, "deleted file mode 100644\n")
      assert.notInclude(after, "mine")
      assert.notInclude(after, SECRET.trim())
      fill()
      assert.deepStrictEqual((yield* trees.changes(key)).files.map(({ path, status }) => [path, status]), [["dir/file", "deleted"]])
      fill()
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
      assert.deepStrictEqual(Object.keys(yield* origin.files(sha)), [".gitmodules", "README.md"])
      fill()
      yield* Effect.scoped(trees.save(key.sandboxId, [{ repo: key.repo }]))
      assert.notInclude(allBytes(join(directory, "sandboxes", key.sandboxId, "git", "acme+app")), SECRET.trim())
    }))
})

// That no commit has such a file is its box's doing, where git runs: see git.isolation.ts.
describe.for(kinds)("a tree $name that changes under our hands", (kind) => {
  const setUp = setUpIn(kind)
  it.live("never gives out a file from outside, while a careful-looking reader does", () =>
    Effect.gen(function*() {
      const { outside, tree, trees } = yield* setUp
      yield* swapping(tree, outside)
      let [leaks, reads] = [0, 0]
      // A round in a machine takes many times as long.
      for (let i = 0; i < (kind.name === "in a machine" ? 150 : 1_500) || reads === 0; i++) {
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
      yield* untilLive(tree)
    }))
})
