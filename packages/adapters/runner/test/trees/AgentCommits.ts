/** The fate of commits that an agent made itself, sound and unsound. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { gitIn, source, temporaryFolder } from "@slipway/git/testing/Repositories"
import type * as Trees from "@slipway/git/testing/Trees"
import { Context, Effect, Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Kind } from "./Kinds.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }

/** The head and the pack, as the agent's side sends them. */
const packOf = (tree: string, base: string, head = gitIn(tree, "rev-parse", "HEAD")) =>
  Buffer.concat([
    Buffer.from(`${head}\n`),
    execFileSync("git", ["-C", tree, "pack-objects", "--revs", "--stdout", "--quiet"], {
      input: `${head}\n${base === "" ? "" : `^${base}\n`}`,
      stdio: ["pipe", "pipe", "ignore"]
    })
  ])

/** Gives the branch main of a bare repository a submodule at the path. */
const addSubmodule = (bare: string, path: string) => {
  const blob = execFileSync("git", ["-C", bare, "hash-object", "-w", "--stdin"], {
    input: `[submodule "${path}"]\n\tpath = ${path}\n\turl = ../${path}\n`,
    encoding: "utf8"
  }).trim()
  const entries = [gitIn(bare, "ls-tree", "main"), `100644 blob ${blob}\t.gitmodules`,
    `160000 commit ${gitIn(bare, "rev-parse", "main")}\t${path}`]
  const tree = execFileSync("git", ["-C", bare, "mktree"], { input: `${entries.join("\n")}\n`, encoding: "utf8" }).trim()
  gitIn(bare, "update-ref", "refs/heads/main", gitIn(bare, "commit-tree", tree, "-p", "main", "-m", "submodule"))
}

const setUpIn = ({ layer, workspaceIn }: Kind) =>
  Effect.fnUntraced(function*(options: Partial<Trees.Options> = {}, submodule?: string) {
    const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n", ".gitignore": "dist\n", ".env": "KEPT=1\n" })
    // The base has a parent of its own.
    yield* origin.commit("main", { more: "more\n" })
    if (submodule !== undefined) addSubmodule(origin.path, submodule)
    const directory = yield* temporaryFolder
    const trees = Context.get(yield* Layer.build(layer({ directory, ...options })), WorkingTrees)
    const prepare = trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    const { baseSha } = yield* prepare
    const tree = join(workspaceIn(directory)(key.sandboxId), "app")
    const commit = (message: string, files: Readonly<Record<string, string>>) => {
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(join(tree, path, ".."), { recursive: true })
        writeFileSync(join(tree, path), content)
      }
      gitIn(tree, "add", "--force", ...Object.keys(files))
      gitIn(tree, "commit", "--quiet", "--message", message)
      return gitIn(tree, "rev-parse", "HEAD")
    }
    const snapshot = (bytes: Uint8Array = packOf(tree, baseSha), head: string | null = null) =>
      // In pieces, as a pipe has them.
      trees.snapshot(key, {
        message: "the rest",
        author,
        since: { head, merges: [], remote: origin.remote },
        history: () => Stream.fromIterable(Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => bytes.subarray(i * 7, i * 7 + 7)))
      })
    const repository = join(directory, "sandboxes", key.sandboxId, "git", "acme+app")
    const subjects = (sha: string) =>
      execFileSync("git", ["--git-dir", repository, "log", "--format=%s", sha, `^${baseSha}`], { encoding: "utf8" }).trim().split("\n")
    const filesOf = (sha: string) =>
      execFileSync("git", ["--git-dir", repository, "ls-tree", "-r", "--name-only", sha], { encoding: "utf8" }).trim().split("\n")
    const packs = () => {
      try {
        return readdirSync(join(repository, "objects", "pack")).sort()
      } catch {
        return []
      }
    }
    return { origin, trees, tree, baseSha, commit, prepare, snapshot, subjects, filesOf, packs, repository }
  })

export const agentCommits = (kind: Kind) =>
  describe(`an agent's own commits, ${kind.name},`, () => {
    const setUp = setUpIn(kind)
    it.live("are kept as they are when the tree holds nothing more", () =>
      Effect.gen(function*() {
        const { commit, snapshot, subjects } = yield* setUp()
        commit("one", { a: "a\n" })
        const head = commit("two", { a: "b\n", "dir/file": "changed\n" })
        const { baseRef, sha, subjects: told } = yield* snapshot()
        assert.deepStrictEqual([sha, baseRef, told], [head, "main", ["one", "two"]])
        assert.deepStrictEqual(subjects(sha), ["two", "one"])
        assert.strictEqual((yield* snapshot()).sha, sha)
      }))

    it.live("are kept when they make a folder of files of a submodule, or say so in the tree alone", () =>
      Effect.gen(function*() {
        const { commit, filesOf, prepare, snapshot, subjects, tree, trees } = yield* setUp({}, "lib")
        assert.deepStrictEqual((yield* prepare).submodules, ["lib"])
        const before = [".env", ".gitignore", "README.md", "dir/file"]
        // Files in the folder of an intact submodule are not the tree's.
        mkdirSync(join(tree, "lib"), { recursive: true })
        writeFileSync(join(tree, "beside"), "beside\n")
        assert.isUndefined((yield* snapshot()).submodules)
        writeFileSync(join(tree, "lib/inside"), "inside\n")
        const first = yield* snapshot()
        assert.deepStrictEqual(first.submodules, ["lib"])
        assert.deepStrictEqual(filesOf(first.sha), [...before.slice(0, 2), ".gitmodules", "README.md", "beside", "dir/file", "lib", "more"])
        rmSync(join(tree, "beside"))
        gitIn(tree, "rm", "--quiet", "--cached", "lib")
        gitIn(tree, "rm", "--quiet", "--force", ".gitmodules")
        const head = commit("lib is ours now", { "lib/-delete": "a\n", "lib/inside": "b\n" })
        const { sha, submodules } = yield* snapshot()
        assert.isUndefined(submodules)
        assert.strictEqual(sha, head)
        assert.deepStrictEqual(filesOf(sha), [...before, "lib/-delete", "lib/inside", "more"])
        writeFileSync(join(tree, "lib/inside"), "c\n")
        writeFileSync(join(tree, "lib/new"), "new\n")
        const next = yield* snapshot()
        assert.deepStrictEqual(subjects(next.sha), ["the rest", "lib is ours now"])
        assert.deepStrictEqual(filesOf(next.sha), [...before, "lib/-delete", "lib/inside", "lib/new", "more"])
        const { files } = yield* trees.changes(key)
        assert.includeMembers(files.map(({ path }) => path), ["lib/-delete", "lib/inside", "lib/new"])
      }))

    it.live("come before one more, with what the tree holds beyond them; again and again the same one", () =>
      Effect.gen(function*() {
        const { commit, filesOf, origin, repository, snapshot, subjects, tree, trees } = yield* setUp()
        commit("one", { a: "a\n", gone: "x\n" })
        writeFileSync(join(tree, "b"), "b\n")
        rmSync(join(tree, "gone"))
        const { sha } = yield* snapshot()
        assert.deepStrictEqual(subjects(sha), ["the rest", "one"])
        assert.deepStrictEqual(filesOf(sha), [".env", ".gitignore", "README.md", "a", "b", "dir/file", "more"])
        assert.strictEqual((yield* snapshot()).sha, sha)
        yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
        // And once more, when more was committed: what was pushed stays, so the new commits become one of ours.
        gitIn(tree, "add", "--all")
        commit("two", { c: "c\n" })
        commit("three", { c: "d\n" })
        const next = yield* snapshot(undefined, sha)
        assert.deepStrictEqual(subjects(next.sha), ["the rest", "the rest", "one"])
        assert.deepStrictEqual(next.subjects, ["two", "three"])
        assert.strictEqual(gitIn(repository, "log", "-1", "--format=%b", next.sha), "- two\n- three")
        assert.strictEqual(gitIn(repository, "rev-parse", `${next.sha}^{tree}`), gitIn(tree, "rev-parse", "HEAD^{tree}"))
        yield* trees.push(key, { sha: next.sha, headRef: "slipway/x", remote: origin.remote, expected: sha })
        // Only those since are named.
        commit("four", { c: "e\n" })
        const last = yield* snapshot(undefined, next.sha)
        assert.strictEqual(gitIn(repository, "log", "-1", "--format=%b", last.sha), "- four")
        assert.strictEqual(gitIn(repository, "rev-parse", `${last.sha}^`), next.sha)
      }))

    it.live("go on as they are after one of them was pushed", () =>
      Effect.gen(function*() {
        const { commit, origin, snapshot, subjects, tree, trees } = yield* setUp()
        const one = commit("one", { a: "a\n" })
        assert.strictEqual((yield* snapshot()).sha, one)
        yield* trees.push(key, { sha: one, headRef: "slipway/x", remote: origin.remote })
        assert.strictEqual((yield* snapshot(undefined, one)).sha, one)
        const two = commit("two", { b: "b\n" })
        assert.strictEqual((yield* snapshot(undefined, one)).sha, two)
        writeFileSync(join(tree, "b"), "c\n")
        const { sha } = yield* snapshot(undefined, one)
        assert.deepStrictEqual(subjects(sha), ["the rest", "two", "one"])
        yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote, expected: one })
      }))

    it.live.each(
      [
        ["amended", (tree: string) => gitIn(tree, "commit", "--quiet", "--amend", "--message", "other")],
        ["reset", (tree: string) => gitIn(tree, "reset", "--quiet", "--hard", "HEAD^")],
        ["rebased", (tree: string) => {
          gitIn(tree, "reset", "--quiet", "--soft", "HEAD^")
          gitIn(tree, "commit", "--quiet", "--message", "other")
        }]
      ] as const
    )("become one of ours on what was pushed when that was %s", ([, rewrite]) =>
      Effect.gen(function*() {
        const { commit, origin, repository, snapshot, tree, trees } = yield* setUp()
        commit("one", { a: "a\n" })
        const pushed = commit("two", { b: "b\n" })
        yield* trees.push(key, { sha: (yield* snapshot()).sha, headRef: "slipway/x", remote: origin.remote })
        rewrite(tree)
        commit("after", { c: "c\n" })
        const { sha } = yield* snapshot(undefined, pushed)
        assert.strictEqual(gitIn(repository, "rev-parse", `${sha}^`), pushed)
        assert.strictEqual(gitIn(repository, "rev-parse", `${sha}^{tree}`), gitIn(tree, "rev-parse", "HEAD^{tree}"))
        assert.include(gitIn(repository, "log", "-1", "--format=%b", sha), "- after")
        yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote, expected: pushed })
      }))

    it.live("are kept in a clone without history as well", () =>
      Effect.gen(function*() {
        const { commit, origin, snapshot, subjects, tree, trees } = yield* setUp({ depth: 1 })
        assert.strictEqual(gitIn(tree, "rev-list", "--count", "HEAD"), "1")
        const head = commit("one", { a: "a\n" })
        const { sha } = yield* snapshot()
        assert.deepStrictEqual([sha, subjects(sha)], [head, ["one"]])
        yield* trees.push(key, { sha, headRef: "slipway/x", remote: origin.remote })
        assert.strictEqual(gitIn(origin.path, "rev-parse", "slipway/x"), head)
        assert.strictEqual(gitIn(origin.path, "rev-list", "--count", "slipway/x"), "3")
      }))

    it.live("are nothing to publish when they end where they began", () =>
      Effect.gen(function*() {
        const { commit, snapshot, tree } = yield* setUp()
        commit("one", { a: "a\n" })
        gitIn(tree, "revert", "--no-edit", "HEAD")
        assert.strictEqual((yield* Effect.flip(snapshot()))._tag, "NoChanges")
      }))

    it.live("may merge what the agent branched off itself", () =>
      Effect.gen(function*() {
        const { commit, snapshot, tree } = yield* setUp()
        gitIn(tree, "switch", "--quiet", "--create", "side")
        commit("side", { side: "s\n" })
        gitIn(tree, "switch", "--quiet", "main")
        commit("main", { main: "m\n" })
        gitIn(tree, "merge", "--quiet", "--no-edit", "side")
        assert.strictEqual((yield* snapshot()).sha, gitIn(tree, "rev-parse", "HEAD"))
      }))

    type World = Effect.Success<ReturnType<typeof setUp>>
    const unsound: ReadonlyArray<readonly [what: string, history: (world: World) => Uint8Array | undefined]> = [
      ["none came", () => Buffer.alloc(0)],
      ["no id came", () => Buffer.from("HEAD\nPACK")],
      ["an invalid id came", () => Buffer.from(`${"g".repeat(40)}\nPACK`)],
      ["an id came in place of a pack", ({ commit }) => Buffer.from(`${commit("one", { a: "a\n" })}\n`)],
      ["the pack is cut off", ({ baseSha, commit, tree }) => {
        commit("one", { a: "a\n" })
        return packOf(tree, baseSha).subarray(0, -30)
      }],
      ["the pack is of something else", ({ baseSha, commit, tree }) => {
        const head = commit("one", { a: "a\n" })
        commit("two", { a: "b\n" })
        return Buffer.concat([Buffer.from(`${gitIn(tree, "rev-parse", "HEAD")}\n`), packOf(tree, baseSha, head).subarray(41)])
      }],
      ["a file of a commit is missing", ({ commit, tree }) => {
        const head = commit("one", { a: "a\n" })
        const objects = [head, gitIn(tree, "rev-parse", "HEAD^{tree}")]
        return Buffer.concat([Buffer.from(`${head}\n`), execFileSync("git", ["-C", tree, "pack-objects", "--stdout", "--quiet"], {
          input: `${objects.join("\n")}\n`,
          stdio: ["pipe", "pipe", "ignore"]
        })])
      }],
      ["they do not go on from the base", ({ commit, tree }) => {
        gitIn(tree, "checkout", "--quiet", "--orphan", "another")
        const head = commit("another", { a: "a\n" })
        return packOf(tree, "", head)
      }],
      ["they bring in another history", ({ commit, tree }) => {
        gitIn(tree, "checkout", "--quiet", "--orphan", "another")
        commit("another", { other: "a\n" })
        gitIn(tree, "checkout", "--quiet", "--force", "main")
        gitIn(tree, "merge", "--quiet", "--no-edit", "--allow-unrelated-histories", "--strategy=ours", "another")
        return undefined
      }],
      ["one adds an environment file", ({ commit }) => {
        commit("secrets", { "dir/.env.production": "SECRET=1\n" })
        return undefined
      }],
      ["one adds an environment file, and the next removes it", ({ commit, tree }) => {
        commit("secrets", { ".env.local": "SECRET=1\n" })
        gitIn(tree, "rm", "--quiet", "--force", ".env.local")
        gitIn(tree, "commit", "--quiet", "--message", "no secrets")
        return undefined
      }],
      ["one adds a file that is ignored", ({ commit }) => {
        commit("build", { "dist/out.js": "built\n" })
        return undefined
      }],
      ["one adds another repository", ({ commit, tree }) => {
        commit("one", { a: "a\n" })
        gitIn(tree, "update-index", "--add", "--cacheinfo", `160000,${gitIn(tree, "rev-parse", "HEAD")},nested`)
        gitIn(tree, "commit", "--quiet", "--message", "nested")
        return undefined
      }],
      ["one holds what git would take for its own", ({ baseSha, tree }) => {
        const blob = execFileSync("git", ["-C", tree, "hash-object", "-w", "--stdin"], {
          input: "[core]\n\tfsmonitor = touch pwned\n",
          encoding: "utf8"
        }).trim()
        const inner = execFileSync("git", ["-C", tree, "mktree"], { input: `100644 blob ${blob}\tconfig\n`, encoding: "utf8" }).trim()
        const outer = execFileSync("git", ["-C", tree, "mktree"], { input: `040000 tree ${inner}\t.git\n`, encoding: "utf8" }).trim()
        return packOf(tree, baseSha, gitIn(tree, "commit-tree", outer, "-p", baseSha, "-m", "trap"))
      }]
    ]

    it.live.each(unsound)(
      "are not kept when %s: the tree is one commit, and nothing of them is left",
      ([, history]) =>
        Effect.gen(function*() {
          const world = yield* setUp()
          const bytes = history(world)
          writeFileSync(join(world.tree, "mine"), "mine\n")
          const { sha } = yield* world.snapshot(bytes)
          assert.deepStrictEqual(world.subjects(sha), ["the rest"])
          assert.include(world.filesOf(sha), "mine")
          for (const path of world.filesOf(sha)) assert.notMatch(path, /env\.|dist|nested|\.git\//u)
          const tree = gitIn("/", "--git-dir", world.repository, "rev-parse", `${sha}^{tree}`)
          assert.deepStrictEqual(world.packs(), [`pack-${tree}.idx`, `pack-${tree}.pack`])
          assert.deepStrictEqual(readdirSync(join(world.repository, "scratch")), [])
        })
    )

    it.live("are not kept when they are too many or too large", () =>
      Effect.gen(function*() {
        const many = yield* setUp()
        const script = Array.from({ length: 1_001 }, (_, i) => {
          const from = i === 0 ? `from ${many.baseSha}\n` : ""
          const file = `M 100644 inline f\ndata 4\n${1000 + i}\n`
          return `commit refs/heads/main\ncommitter A <a@b> ${1_700_000_000 + i} +0000\ndata 1\nx\n${from}${file}`
        }).join("")
        execFileSync("git", ["-C", many.tree, "fast-import", "--quiet"], { input: script })
        gitIn(many.tree, "reset", "--quiet", "--hard")
        assert.deepStrictEqual(many.subjects((yield* many.snapshot()).sha), ["the rest"])
        // One less are kept, and the tree goes beyond them.
        const fewer = yield* many.snapshot(packOf(many.tree, many.baseSha, gitIn(many.tree, "rev-parse", "HEAD~1")))
        assert.strictEqual(many.subjects(fewer.sha).length, 1_001)

        const large = yield* setUp({ maximumSnapshotBytes: 2_000 })
        large.commit("noise", { noise: Buffer.from(crypto.getRandomValues(new Uint8Array(1_900))).toString("hex").slice(0, 1_900) })
        large.commit("more noise", { noise: Buffer.from(crypto.getRandomValues(new Uint8Array(1_900))).toString("hex").slice(0, 1_900) })
        assert.deepStrictEqual(large.subjects((yield* large.snapshot()).sha), ["the rest"])
      }))
  })
