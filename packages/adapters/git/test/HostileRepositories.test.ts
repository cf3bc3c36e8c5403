/** The content of a repository was written by strangers: nothing of it runs, is followed, or is taken for git's own. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { serve } from "../testing/GitHttpServer.ts"
import { agent, gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 12345\n`

const object = (gitDir: string, type: string, content: string | Buffer) =>
  execFileSync("git", ["--git-dir", gitDir, "hash-object", "-t", type, "--literally", "-w", "--stdin"], {
    input: content,
    encoding: "utf8"
  }).trim()
/** A tree as no git would write it: any name, any order. */
const rawTree = (gitDir: string, entries: ReadonlyArray<readonly [mode: string, name: string, id: string]>) =>
  object(gitDir, "tree", Buffer.concat(entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")])))

/** Settings of this machine and of its user that run things, fetch from elsewhere and smudge files; each leaves its name in `marks`. */
const poisonedMachine = Effect.gen(function*() {
  const marks = yield* temporaryFolder
  const home = yield* temporaryFolder
  const touch = (name: string) => `touch ${join(marks, name)}`
  mkdirSync(join(home, "hooks"))
  for (const hook of ["post-checkout", "reference-transaction", "post-index-change", "pre-push"]) {
    writeFileSync(join(home, "hooks", hook), `#!/bin/sh\n${touch(hook)}\n`, { mode: 0o755 })
  }
  const monitor = join(home, "monitor")
  writeFileSync(monitor, `#!/bin/sh\n${touch("fsmonitor")}\n`)
  chmodSync(monitor, 0o755)
  const config = join(home, ".gitconfig")
  const set = (name: string, value: string) => execFileSync("git", ["config", "--file", config, "--add", name, value])
  set("core.hooksPath", join(home, "hooks"))
  set("core.fsmonitor", monitor)
  set("filter.lfs.smudge", `sh -c '${touch("smudge")}; echo smudged'`)
  set("filter.lfs.clean", `sh -c '${touch("clean")}; echo cleaned'`)
  set("filter.lfs.required", "true")
  set(`url.${marks}/.insteadOf`, "http://127.0.0.1")
  set("protocol.allow", "always")
  set("submodule.recurse", "true")
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const before = { HOME: process.env["HOME"], GIT_CONFIG_GLOBAL: process.env["GIT_CONFIG_GLOBAL"], GIT_DIR: process.env["GIT_DIR"] }
      Object.assign(process.env, { HOME: home, GIT_CONFIG_GLOBAL: config, GIT_DIR: marks })
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of Object.entries(before)) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )
  return { config, marks }
})

describe("a hostile repository", () => {
  it.live(
    "runs nothing, is fetched alone, and stays as it is: attributes, submodules, LFS pointers, links and what looks like git's own",
    () =>
      Effect.gen(function*() {
        const origin = yield* source({
          ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt ident text eol=lf\n",
          ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/lfs\n",
          "big.bin": POINTER,
          // A bare repository within the tree, as git would find it.
          "bare/HEAD": "ref: refs/heads/main\n",
          "bare/config": "[core]\n\tbare = true\n\tfsmonitor = touch bare-ran\n",
          "bare/objects/x": "x",
          "bare/refs/x": "x",
          ".husky/post-checkout": "#!/bin/sh\ntouch husky-ran\n"
        })
        const server = yield* serve(dirname(origin.path))
        const url = `${server.url}/${basename(origin.path)}`
        const base = gitIn(origin.path, "ls-tree", "main")
        const sub = (yield* origin.tip("main")) ?? ""
        const addresses = { library: `${server.url}/library.git`, evil: "ext::sh -c touch% ran" }
        const modules = Object.entries(addresses).map(([name, address]) =>
          `[submodule "${name}"]\n\tpath = ${name}\n\turl = ${address}\n\tignore = none\n`
        ).join("")
        const tree = execFileSync("git", ["--git-dir", origin.path, "mktree"], {
          encoding: "utf8",
          input: [
            base,
            `100644 blob ${object(origin.path, "blob", modules)}\t.gitmodules`,
            `160000 commit ${sub}\tlibrary`,
            `160000 commit ${sub}\tevil`,
            `120000 blob ${object(origin.path, "blob", "/etc")}\tabsolute`,
            `120000 blob ${object(origin.path, "blob", "../../../../../../etc/passwd")}\tupwards`,
            `120000 blob ${object(origin.path, "blob", ".git/config")}\tconfig`
          ].join("\n")
        }).trim()
        yield* origin.setBranch("main", gitIn(origin.path, "commit-tree", "-p", "main", "-m", "hostile", tree))

        const { config, marks } = yield* poisonedMachine
        // The machine is poisoned: git as anybody runs it there smudges, and goes elsewhere.
        const asAnybody = { env: { PATH: process.env["PATH"], HOME: dirname(config), GIT_CONFIG_NOSYSTEM: "1" }, encoding: "utf8" } as const
        assert.include(execFileSync("git", ["ls-remote", "--get-url", url], asAnybody), marks)
        execFileSync("git", ["-C", dirname(config), "clone", "--quiet", "--no-recurse-submodules", origin.path, "copy"], asAnybody)
        assert.strictEqual(readFileSync(join(dirname(config), "copy", "big.bin"), "utf8"), "smudged\n")
        assert.includeMembers(readdirSync(marks), ["smudge", "post-checkout"])
        execFileSync("rm", ["-rf", ...readdirSync(marks).map((name) => join(marks, name))])

        const directory = yield* temporaryFolder
        const trees = Context.get(yield* Layer.build(Trees.layer({ directory })), WorkingTrees)
        const remote = { url, authorization: null }
        yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
        const at = (...path: ReadonlyArray<string>) => join(workspacesIn(directory)(key.sandboxId), "app", ...path)
        assert.strictEqual(readFileSync(at("big.bin"), "utf8"), POINTER)
        assert.deepStrictEqual([readdirSync(at("library")), readdirSync(at("evil"))], [[], []])
        assert.strictEqual(readlinkSync(at("upwards")), "../../../../../../etc/passwd")
        const named = ["big.bin", "absolute", "upwards", "config", "library", "evil", "absolute/passwd", "bare"]
        const read = yield* trees.readBase(key, named, { maximumBytes: 1000 })
        assert.deepStrictEqual(Array.from(read, ([path, { content }]) => [path, Buffer.from(content ?? []).toString()]), [["big.bin",
          POINTER]])

        const { entries } = yield* trees.list(key, "")
        assert.deepStrictEqual(
          entries.filter(({ kind }) => kind === "submodule" || kind === "symlink").map(({ kind, name, status }) => [name, kind, status]),
          [
            ["absolute", "symlink", null],
            ["config", "symlink", null],
            ["evil", "submodule", null],
            ["library", "submodule", null],
            ["upwards", "symlink", null]
          ]
        )
        assert.isTrue(entries.every(({ status }) => status === null))
        for (const path of ["absolute/passwd", "upwards", "config"]) {
          assert.strictEqual((yield* trees.open(key, path, 1e6).pipe(Effect.scoped, Effect.flip))._tag, "FileProtected", path)
        }

        yield* agent.write(at("big.bin"), "no pointer any more")
        yield* agent.write(at("new.bin"), "new")
        yield* agent.write(at("new.txt"), "new")
        const { lfs, sha } = yield* trees.snapshot(key, { message: "x", author })
        yield* trees.push(key, { sha, headRef: "slipway/x", remote })
        assert.deepStrictEqual(lfs, ["big.bin", "new.bin"])
        assert.strictEqual(gitIn(origin.path, "show", `${sha}:big.bin`), POINTER.trim())
        assert.deepStrictEqual(gitIn(origin.path, "diff", "--name-status", "main", sha).split("\n"), ["A\tnew.txt"])
        assert.deepStrictEqual(readdirSync(marks), [])
        assert.isFalse(server.seen.some(({ url }) => url.includes("library")))
        for (const ran of ["ran", "bare-ran", "husky-ran"]) assert.isFalse(existsSync(at(ran)))
      })
  )

  it.live("with names that some file system takes for .git, or for a way out, is not taken at all", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const directory = yield* temporaryFolder
      const trees = Context.get(yield* Layer.build(Trees.layer({ directory })), WorkingTrees)
      const blob = object(origin.path, "blob", "[core]\n\tfsmonitor = touch ran\n")
      const config = rawTree(origin.path, [["100644", "config", blob]])
      const link = object(origin.path, "blob", "/etc")
      const modules = (lines: string) => object(origin.path, "blob", `[submodule "x"]\n\tpath = x\n\t${lines}\n`)
      const hostile: ReadonlyArray<readonly [what: string, tree: string]> = [
        ...[".git", ".GIT", ".Git", "git~1", "GIT~1", ".g\u200cit", ".gi\u200ct", "\ufeff.git", ".git ", ".git.", ".git::$INDEX_ALLOCATION",
          ".git\\config"]
          .map((name) => [JSON.stringify(name), rawTree(origin.path, [["40000", name, config]])] as const),
        ["a file .git", rawTree(origin.path, [["100644", ".git", blob]])],
        [".git deep below", rawTree(origin.path, [["40000", "a", rawTree(origin.path, [["40000", ".Git", config]])]])],
        [".gitmodules that is a link", rawTree(origin.path, [["120000", ".gitmodules", link]])],
        ["a submodule that runs something", rawTree(origin.path, [["100644", ".gitmodules", modules("url = /x\n\tupdate = !touch ran")]])],
        ["a submodule that is an option", rawTree(origin.path, [["100644", ".gitmodules", modules("url = --upload-pack=touch")]])],
        ["..", rawTree(origin.path, [["40000", "..", config]])],
        [".", rawTree(origin.path, [["40000", ".", config]])],
        ["a name with a slash", rawTree(origin.path, [["100644", "../../out", blob]])],
        ["an absolute name", rawTree(origin.path, [["100644", "/tmp/out", blob]])],
        ["no name", rawTree(origin.path, [["100644", "", blob]])],
        ["no mode", rawTree(origin.path, [["", "a", blob]])],
        ["a link and a folder of one name", rawTree(origin.path, [["120000", "a", link], ["40000", "a", config]])]
      ]
      for (const [what, tree] of hostile) {
        const commit = gitIn(origin.path, "commit-tree", "-m", what, tree)
        yield* origin.setBranch("hostile", commit)
        for (const ref of ["hostile", commit]) {
          const refused = yield* Effect.flip(trees.prepare(key, { remote: origin.remote, ref, defaultBranch: "main", repos: [key.repo] }))
          assert.deepInclude(refused, { _tag: "CloneFailed", retryable: false }, what)
          // With the words of the host, if it saw that as well.
          assert.match(refused.message, /: The repository holds objects that git refuses to take[.:]/u, what)
        }
      }
      // Nothing of all these was stored, so the next one is as well off as the first.
      const mirror = readdirSync(join(directory, "mirrors")).find((name) => name.endsWith(".git")) ?? ""
      assert.deepStrictEqual(readdirSync(join(directory, "mirrors", mirror, "objects", "pack")), [])
      assert.deepStrictEqual(readdirSync(join(directory, "mirrors", "incoming")), [])
      yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    }))
})
