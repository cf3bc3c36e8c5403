/**
 * The rules that every `WorkingTrees` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. `trees` holds for every implementation, `onDisk` for those whose trees are files of a real machine, where
 * agents make links and pipes; `suite` is both. Uses the real clock.
 */
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { MAX_FOUND_FILES, MAX_FOUND_LINE, MAX_FOUND_LINES, MAX_SEARCHED_FILE } from "@slipway/domain/files/schema/FileSearch"
import type { FileEntry } from "@slipway/domain/files/schema/FileTree"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import * as SavedTreesContract from "./SavedTreesContract.ts"
import {
  app,
  author,
  blobId,
  type DiskFixture,
  fileOf,
  type Fixture,
  freshId,
  lines,
  options,
  preparing,
  refusal,
  type SourceRepository
} from "./TreeFixtures.ts"

const decodeText = (bytes: Uint8Array): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

/** All of the suite: for trees that are files of a real machine. */
export const suite = <R>(name: string, layer: Layer.Layer<WorkingTrees | R, unknown>, fixture: DiskFixture<R>) => [
  ...trees(name, layer, fixture),
  onDisk(name, layer, fixture)
]

/** The part that every implementation can be held to. */
export const trees = <R>(name: string, layer: Layer.Layer<WorkingTrees | R, unknown>, fixture: Fixture<R>) => [
  SavedTreesContract.suite(name, layer, fixture),
  ofOneMachine(name, layer, fixture)
]

/** Shared by the rules below. */
const treeHelpersOf = <R>(fixture: Fixture<R>) => {
  const { agent } = fixture
  const prepared = preparing(fixture)
  return { agent, prepared }
}

const startingPoints = <R>(
  it: Writer<WorkingTrees | R>,
  fixture: Fixture<R>,
  { prepared }: ReturnType<typeof treeHelpersOf<R>>
) => {
  it.effect("starts from the tip of the default branch", () =>
    Effect.gen(function*() {
      const { base, list, read, source } = yield* prepared({ "README.md": "# app\n", "src/a.ts": "a\n" })
      assert.deepStrictEqual(base, { baseSha: (yield* source.tip("main")) ?? "", baseRef: "main" })
      assert.deepStrictEqual((yield* list()).map(({ kind, name, status }) => [kind, name, status]), [
        ["directory", "src", null],
        ["file", "README.md", null]
      ])
      assert.strictEqual(yield* read("src/a.ts"), "a\n")
    }))

  it.effect("starts from a branch, a tag or a full commit id, in either case of letters", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      const first = (yield* source.tip("main")) ?? ""
      yield* source.tag("v1", first)
      const second = yield* source.commit("feature/x", { v: "1" })
      yield* source.commit("main", { v: "2" })
      const prepare = Effect.fnUntraced(function*(ref: string) {
        const sandboxId = freshId()
        return yield* Effect.ensuring(
          trees.prepare({ sandboxId, repo: app }, options(source, ref)),
          Effect.orDie(trees.remove(sandboxId))
        )
      })
      assert.deepStrictEqual(yield* prepare("feature/x"), { baseSha: second, baseRef: "feature/x" })
      assert.deepStrictEqual(yield* prepare("v1"), { baseSha: first, baseRef: null })
      assert.deepStrictEqual(yield* prepare(first), { baseSha: first, baseRef: null })
      assert.deepStrictEqual(yield* prepare(second.toUpperCase()), { baseSha: second, baseRef: null })
    }))

  it.effect("a branch goes before a tag of the same name", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      yield* source.tag("both", (yield* source.tip("main")) ?? "")
      const branch = yield* source.commit("both", { v: "1" })
      const sandboxId = freshId()
      const base = yield* trees.prepare({ sandboxId, repo: app }, options(source, "both"))
      assert.deepStrictEqual(base, { baseSha: branch, baseRef: "both" })
      yield* trees.remove(sandboxId)
    }))

  it.effect("sees at once where a branch or a tag has been moved, forwards or back", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      const first = (yield* source.tip("main")) ?? ""
      const second = yield* source.commit("main", { v: "1" })
      const baseOf = (ref?: string) => {
        const key: TreeKey = { sandboxId: freshId(), repo: app }
        return Effect.ensuring(trees.prepare(key, options(source, ref)), Effect.orDie(trees.remove(key.sandboxId)))
      }
      for (const sha of [second, first, second]) {
        yield* source.setBranch("main", sha)
        yield* source.tag("latest", sha)
        assert.deepStrictEqual(yield* baseOf(), { baseSha: sha, baseRef: "main" })
        assert.deepStrictEqual(yield* baseOf("latest"), { baseSha: sha, baseRef: null })
      }
    }))

  it.effect("keeps every tree when room is made, and makes the next one all the same", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      const [kept, next] = [{ sandboxId: freshId(), repo: app }, { sandboxId: freshId(), repo: app }]
      const first = yield* trees.prepare(kept, options(source))
      yield* trees.makeRoom
      assert.isTrue(yield* trees.has(kept.sandboxId))
      assert.strictEqual((yield* trees.compare(kept, "v", 10)).base?.content, "0")
      yield* trees.remove(kept.sandboxId)
      yield* trees.makeRoom
      assert.deepStrictEqual(yield* trees.prepare(next, options(source)), first)
      yield* trees.remove(next.sandboxId)
    }))
}

const refusedRefsAndManyTrees = <R>(
  it: Writer<WorkingTrees | R>,
  fixture: Fixture<R>,
  { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>
) => {
  it.effect("says what is wrong with a ref that is not there, and that trying again is no use", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      const empty = yield* fixture.source()
      const refused = Effect.fnUntraced(function*(from: SourceRepository, ref?: string, defaultBranch = "main") {
        const error = yield* trees.prepare({ sandboxId: freshId(), repo: app }, { ...options(from, ref), defaultBranch }).pipe(
          Effect.flip
        )
        if (error._tag !== "CloneFailed") return assert.fail(error._tag)
        assert.strictEqual(error.repo, app)
        assert.isFalse(error.retryable)
        return error.detail
      })
      assert.match(yield* refused(source, "missing"), /no branch or tag "missing"/u)
      assert.match(yield* refused(source, undefined, "trunk"), /no default branch "trunk".* Push a first commit to it and try again\.$/u)
      assert.match(yield* refused(source, "0123456789abcdef0123456789abcdef01234567"), /commit does not exist/u)
      assert.strictEqual(yield* refused(empty), "The repository has no commits. Push a first commit and try again.")
      assert.match(yield* refused({ ...source, remote: { ...source.remote, url: `${source.remote.url}-gone` } }), /not found/u)
      for (const ref of ["--upload-pack=touch x", "a..b", "a b", "HEAD~1", "main:x"]) yield* refused(source, ref)
    }))

  it.effect("gives the tree that is there, although the branch has moved on", () =>
    Effect.gen(function*() {
      const { at, base, key, read, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "mine")
      const moved = yield* source.commit("main", { v: "1" })
      assert.deepStrictEqual(yield* trees.prepare(key, options(source)), base)
      assert.strictEqual(yield* read("v"), "mine")

      const other = { sandboxId: freshId(), repo: app }
      assert.strictEqual((yield* trees.prepare(other, options(source))).baseSha, moved)
      yield* trees.remove(other.sandboxId)
    }))

  it.effect("many at once, of one tree and of many sandboxes, all get what they asked for", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0", "a/b": "c" })
      const baseSha = (yield* source.tip("main")) ?? ""
      const ids = Array.from({ length: 4 }, freshId)
      const results = yield* Effect.forEach(
        [...ids, ...ids],
        (sandboxId) => trees.prepare({ sandboxId, repo: app }, options(source)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results, results.map(() => ({ baseSha, baseRef: "main" })))
      for (const sandboxId of ids) {
        assert.deepStrictEqual((yield* trees.list({ sandboxId, repo: app }, "")).entries.map(({ status }) => status), [null, null])
        yield* trees.remove(sandboxId)
      }
    }))

  it.effect("keeps the repositories of a sandbox apart, and finds them in any case of letters", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const repos = ["acme/app", "other/App", "acme/acme"].map((repo) => RepoName.make(repo))
      const folders = repos.map((repo) => trees.folder(repo, repos).toLowerCase())
      assert.strictEqual(new Set(folders).size, 3)
      assert.strictEqual(trees.folder(app, [RepoName.make("Acme/App"), RepoName.make("acme/web")]), "app")
      const sandboxId = freshId()
      for (const [made, repo] of repos.entries()) {
        assert.strictEqual(yield* trees.has(sandboxId, repos.slice(0, made)), made > 0)
        assert.isFalse(yield* trees.has(sandboxId, repos.slice(0, made + 1)))
        const source = yield* fixture.source({ [`of-${repo.replace("/", "-")}`]: "" })
        yield* trees.prepare({ sandboxId, repo }, { ...options(source), repos })
      }
      for (const repo of repos) {
        const { entries } = yield* trees.list({ sandboxId, repo: RepoName.make(repo.toUpperCase()) }, "")
        assert.deepStrictEqual(entries.map((entry) => entry.name), [`of-${repo.replace("/", "-")}`])
      }
      assert.isTrue(yield* trees.has(sandboxId, repos))
      yield* trees.remove(sandboxId)
    }))
}

const statuses = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("knows which sandboxes have trees, and deletes them as often as it is told", () =>
    Effect.gen(function*() {
      const { at, key: { sandboxId }, key, trees } = yield* prepared({ v: "0" })
      assert.isTrue(yield* trees.has(sandboxId))
      assert.include(yield* trees.sandboxes, sandboxId)
      yield* agent.write(at("deep/er/file"), "x")
      yield* trees.remove(sandboxId)
      yield* trees.remove(sandboxId)
      assert.isFalse(yield* trees.has(sandboxId))
      assert.notInclude(yield* trees.sandboxes, sandboxId)
      assert.strictEqual(yield* refusal(trees.list(key, "")), "FileNotFound")
      assert.strictEqual(yield* refusal(trees.open(key, "v", 10)), "FileNotFound")
      assert.strictEqual(yield* refusal(trees.compare(key, "v", 10)), "FileNotFound")
      assert.strictEqual(yield* refusal(trees.readBase(key, ["v"], { maximumBytes: 10 })), "FileNotFound")
      assert.strictEqual(yield* refusal(trees.snapshot(key, { message: "x", author })), "FileNotFound")
    }))

  it.effect("tells how each file differs from the commit the sandbox started from", () =>
    Effect.gen(function*() {
      const { at, list } = yield* prepared({
        ".gitignore": "ignored\n",
        "same": "same\n",
        "changed": lines(3),
        "gone": lines(2),
        "old": lines(20),
        "image": new Uint8Array([0, 1])
      })
      yield* agent.write(at("changed"), `${lines(3)}more\n`)
      yield* agent.remove(at("gone"))
      yield* agent.rename(at("old"), at("new"))
      yield* agent.write(at("fresh"), "quite\nanother\ntèxt\n")
      yield* agent.write(at("ignored"), "x\n")
      yield* agent.write(at("image"), new Uint8Array([0, 2, 3]))
      const entries = (yield* list()).map((
        { additions, deletions, kind, name, previousPath, size, status }
      ) => [name, kind, status, additions, deletions, size, previousPath])
      assert.deepStrictEqual(entries, [
        [".gitignore", "file", null, 0, 0, 8, null],
        ["changed", "file", "modified", 1, 0, 26, null],
        ["fresh", "file", "untracked", 3, 0, 20, null],
        ["gone", "file", "deleted", 0, 2, null, null],
        ["ignored", "file", null, 0, 0, 2, null],
        ["image", "file", "modified", 0, 0, 3, null],
        ["new", "file", "renamed", 0, 0, 150, "old"],
        ["same", "file", null, 0, 0, 5, null]
      ])
      assert.isNull(fileOf(yield* list(), "gone").mtimeMs)
      assert.isTrue(Number.isInteger(fileOf(yield* list(), "same").mtimeMs))
    }))

  it.effect("takes the deleted file of the same name as the old name of the renamed file", () =>
    Effect.gen(function*() {
      const { at, list } = yield* prepared({ "a/other": lines(20), "b/name": lines(20), "z/other": lines(20) })
      yield* agent.remove(at("a/other"))
      yield* agent.rename(at("b/name"), at("name"))
      yield* agent.remove(at("z/other"))
      assert.deepInclude(fileOf(yield* list(), "name"), { status: "renamed", previousPath: "b/name" })
      assert.strictEqual(fileOf(yield* list("a"), "other").status, "deleted")
    }))

  it.effect("shows and publishes a file that took the place of another of the same size", () =>
    Effect.gen(function*() {
      const { at, list, publish, source } = yield* prepared({ a: "AAAA\n", b: "BBBB\n", c: "CCCC\n", d: "DDDD\n", "conf/now": "1\n" })
      yield* agent.rename(at("a"), at("t"))
      yield* agent.rename(at("b"), at("a"))
      yield* agent.rename(at("t"), at("b"))
      yield* agent.rename(at("c"), at("d"))
      const statuses = (yield* list()).map(({ name, status }) => [name, status])
      assert.deepStrictEqual(statuses, [["conf", null], ["a", "modified"], ["b", "modified"], ["c", "deleted"], ["d", "modified"]])
      const files = yield* source.files(yield* publish())
      assert.deepStrictEqual(files, { "a": "BBBB\n", "b": "AAAA\n", "conf/now": "1\n", "d": "CCCC\n" })
    }))

  it.effect("notices a change that keeps the size, made in the very second of the checkout", () =>
    Effect.gen(function*() {
      const { at, list, publish, source } = yield* prepared({ v: "0\n", w: "0\n" })
      yield* agent.write(at("v"), "1\n")
      yield* agent.write(at("new"), "1\n")
      assert.strictEqual(fileOf(yield* list(), "v").status, "modified")
      assert.deepStrictEqual(yield* source.files(yield* publish()), { new: "1\n", v: "1\n", w: "0\n" })
    }))
}

const publishedStatuses = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("new files are untracked until they were published, then added", () =>
    Effect.gen(function*() {
      const { at, list, publish } = yield* prepared({ v: "0" })
      yield* agent.write(at("dir/one"), "1\n")
      assert.strictEqual(fileOf(yield* list("dir"), "one").status, "untracked")
      assert.strictEqual(fileOf(yield* list(), "dir").status, "untracked")
      yield* publish()
      assert.strictEqual(fileOf(yield* list("dir"), "one").status, "added")
      assert.strictEqual(fileOf(yield* list(), "dir").status, "added")
      yield* agent.write(at("dir/two"), "2\n")
      assert.deepStrictEqual((yield* list("dir")).map(({ status }) => status), ["added", "untracked"])
      assert.strictEqual(fileOf(yield* list(), "dir").status, "untracked")
    }))

  it.effect("shows a deleted directory, and in it the files it had", () =>
    Effect.gen(function*() {
      const { at, list, trees, key } = yield* prepared({ "a/b/c": "1\n", "a/d": "2\n", "e/f": "3\n", "e/g": "4\n" })
      yield* agent.remove(at("a"))
      yield* agent.remove(at("e/f"))
      const shown = (entries: ReadonlyArray<FileEntry>) => entries.map(({ depth, kind, path, status }) => [path, kind, status, depth])
      assert.deepStrictEqual(shown(yield* list()), [["a", "directory", "deleted", 0], ["e", "directory", null, 0]])
      assert.deepStrictEqual(shown(yield* list("a")), [["a/b", "directory", "deleted", 1], ["a/d", "file", "deleted", 1]])
      assert.deepStrictEqual(shown(yield* list("a/b")), [["a/b/c", "file", "deleted", 2]])
      assert.deepStrictEqual(shown(yield* list("e")), [["e/f", "file", "deleted", 1], ["e/g", "file", null, 1]])
      assert.strictEqual(yield* refusal(trees.list(key, "a/x")), "FileNotFound")
    }))

  it.effect("a file that became a directory, and the other way round, is shown as what it is now", () =>
    Effect.gen(function*() {
      const { at, list, publish, source } = yield* prepared({ "file": "1\n", "dir/a": "2\n" })
      yield* agent.remove(at("file"))
      yield* agent.write(at("file/inner"), "new\n")
      yield* agent.remove(at("dir"))
      yield* agent.write(at("dir"), "now a file\n")
      assert.deepStrictEqual((yield* list()).map(({ kind, name, status }) => [name, kind, status]), [
        ["file", "directory", "untracked"],
        ["dir", "file", "untracked"]
      ])
      assert.deepStrictEqual(yield* source.files(yield* publish()), { dir: "now a file\n", "file/inner": "new\n" })
    }))

  it.effect("never lists .git, and lists other protected names without their size", () =>
    Effect.gen(function*() {
      const { at, key, list, trees } = yield* prepared({
        "bb": "1",
        "b": "1",
        "a/x": "1",
        "Z": "1",
        "é": "1",
        "~": "1",
        ".env.local": "S=1\n"
      })
      yield* agent.remove(at(".env.local"))
      yield* agent.write(at(".GIT/description"), "mine\n")
      yield* agent.write(at(".env"), "SECRET=1\n")
      yield* agent.write(at(".claude/settings.json"), "{}")
      yield* agent.write(at(".git/description"), "mine\n")
      assert.deepStrictEqual((yield* list()).map(({ kind, name, size }) => [name, kind, size]), [
        [".claude", "directory", null],
        ["a", "directory", null],
        [".env", "file", null],
        [".env.local", "file", null],
        ["Z", "file", 1],
        ["b", "file", 1],
        ["bb", "file", 1],
        ["~", "file", 1],
        ["é", "file", 1]
      ])
      assert.deepStrictEqual(yield* trees.list(key, "").pipe(Effect.map((tree) => [tree.partialWarnings, tree.directory, tree.scope])), [
        [],
        "",
        "all"
      ])
      assert.strictEqual(fileOf(yield* list(), ".env").additions, 0)
      assert.deepInclude(fileOf(yield* list(), ".env.local"), { status: "deleted", deletions: 0 })
    }))
}

const listings = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("shows at most 5,000 entries, directories first, and says so", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ ".gitignore": "many\n" })
      const name = (i: number) => `f${String(i).padStart(5, "0")}`
      yield* Effect.forEach(Array.from({ length: 5_001 }, (_, i) => i), (i) => agent.write(at(`many/${name(i)}`), ""), {
        concurrency: 50
      })
      yield* agent.write(at("many/z/x"), "")
      const tree = yield* trees.list(key, "many")
      assert.deepStrictEqual(tree.partialWarnings, ["entries_truncated"])
      assert.strictEqual(tree.entries.length, 5_000)
      assert.deepStrictEqual([tree.entries[0]?.name, tree.entries[1]?.name, tree.entries.at(-1)?.name], ["z", name(0), name(4_998)])
    }), { timeout: 300_000 })

  it.effect("a repository in the tree is a submodule, whether it has commits or not, unless its place was ours", () =>
    Effect.gen(function*() {
      const { at, list, publish, source } = yield* prepared({ v: "0", "ours/file": "1", "was": "1", ".gitignore": "ignored\n" })
      yield* agent.initRepository(at("ours"))
      yield* agent.write(at("ours/new"), "1")
      yield* agent.remove(at("was"))
      yield* agent.initRepository(at("was"))
      yield* agent.write(at("nested/file"), "x")
      yield* agent.initRepository(at("nested"))
      yield* agent.initRepository(at("nested/inner"))
      yield* agent.initRepository(at("deps/library"))
      yield* agent.initRepository(at("ignored"))
      yield* agent.initRepository(at("bare-start"))
      yield* agent.write(at("v"), "1")
      assert.strictEqual(fileOf(yield* list(), "nested").kind, "submodule")
      assert.deepStrictEqual((yield* list("nested")).map(({ kind, name }) => [name, kind]), [["inner", "directory"], ["file", "file"]])
      assert.deepStrictEqual((yield* list()).map(({ kind, name, status }) => [name, kind, status]), [
        ["deps", "directory", "untracked"],
        ["ignored", "directory", null],
        ["ours", "directory", null],
        ["was", "directory", null],
        [".gitignore", "file", null],
        ["bare-start", "submodule", "untracked"],
        ["nested", "submodule", "untracked"],
        ["v", "file", "modified"]
      ])
      assert.deepStrictEqual(yield* source.files(yield* publish()), {
        ".gitignore": "ignored\n",
        "ours/file": "1",
        "ours/new": "1",
        v: "1"
      })
    }))
}

const searches = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("finds a text in the names and contents of the tree as it is, in the order of their paths", () =>
    Effect.gen(function*() {
      const hostile = "<b>\u202e [needle] $(x)"
      const { at, search } = yield* prepared({
        ".gitignore": "ignored\n",
        ".env": "needle\n",
        "src/base.ts": "one\nA needle, and a needle\r\nthree\nneedles",
        "src/needle/named.txt": "x\n",
        "gone needle": "needle\n",
        binary: new TextEncoder().encode("needle\0"),
        plain: "nothing\n"
      })
      yield* agent.remove(at("gone needle"))
      yield* agent.write(at(hostile), `${"x".repeat(1_000)}${hostile}${"\u{1f600}".repeat(500)}\n`)
      yield* agent.write(at("plain"), "Needle\nNEEDLE\n")
      yield* agent.write(at("ignored"), "needle\n")
      yield* agent.write(at(".env.local"), "needle\n")
      yield* agent.initRepository(at("nested"))
      yield* agent.write(at("nested/file"), "needle\n")
      const { files, isComplete } = yield* search("needle")
      assert.isTrue(isComplete)
      assert.deepStrictEqual(files.slice(1), [
        {
          path: "src/base.ts",
          lines: [{ number: 2, text: "A needle, and a needle" }, { number: 4, text: "needles" }],
          lineCount: 2
        },
        { path: "src/needle/named.txt", lines: [], lineCount: 0 }
      ])
      const [found] = files
      assert.deepStrictEqual([found?.path, found?.lineCount, found?.lines[0]?.number], [hostile, 1, 1])
      const { text = "" } = found?.lines[0] ?? {}
      assert.include(text, `x${hostile}`)
      assert.isAtMost(text.length, MAX_FOUND_LINE)
      assert.isTrue(text.isWellFormed())
      // Nothing of a text is a pattern.
      assert.deepStrictEqual((yield* search("n.edle")).files, [])
      assert.deepStrictEqual((yield* search(hostile)).files.map(({ path }) => path), [hostile])
      const any = yield* search("nEEdle", true)
      assert.deepStrictEqual(any.files.map(({ path }) => path), [hostile, "plain", "src/base.ts", "src/needle/named.txt"])
      assert.deepStrictEqual(any.files[1]?.lines, [{ number: 1, text: "Needle" }, { number: 2, text: "NEEDLE" }])
    }))

  it.effect("finds a bounded number of files and lines, and says that there are more", () =>
    Effect.gen(function*() {
      const { at, search } = yield* prepared({ v: "needle\n".repeat(50) })
      yield* agent.write(at("large"), `needle${"x".repeat(MAX_SEARCHED_FILE)}`)
      const first = yield* search("needle")
      assert.deepStrictEqual(first.files.map(({ lineCount, lines, path }) => [path, lines.length, lineCount]), [["v", MAX_FOUND_LINES, 50]])
      assert.isFalse(first.isComplete)
      yield* agent.remove(at("large"))
      assert.isTrue((yield* search("needle")).isComplete)
      const name = (i: number) => `f${String(i).padStart(4, "0")}`
      const count = MAX_FOUND_FILES + 20
      yield* Effect.forEach(Array.from({ length: count }, (_, i) => i), (i) => agent.write(at(name(i)), "needle\n"), { concurrency: 20 })
      const { files, isComplete } = yield* search("needle")
      assert.deepStrictEqual([files.length, files[0]?.path, isComplete], [MAX_FOUND_FILES, name(0), false])
    }))
}

const changedPaths = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("tells all changes of the tree at once, in the order of their paths", () =>
    Effect.gen(function*() {
      const { at, changes, publish } = yield* prepared({
        ".gitignore": "ignored\n",
        same: "same\n",
        "src/changed": lines(3),
        "gone/a": lines(2),
        "gone/b": "",
        old: lines(20),
        image: new Uint8Array([0, 1]),
        ".env": "S=1\n"
      })
      assert.deepStrictEqual(yield* changes(), { files: [], partialWarnings: [] })
      yield* agent.write(at("src/changed"), `line 0\nline two\nline 2\nmore\n`)
      yield* agent.remove(at("gone"))
      yield* agent.rename(at("old"), at("src/new"))
      yield* agent.write(at("image"), new Uint8Array([0, 2, 3]))
      yield* agent.write(at("src/fresh"), "1\n2\n3")
      yield* agent.write(at("src-2"), "1\n")
      yield* agent.write(at("é"), "e\n")
      yield* agent.write(at("ignored"), "x\n")
      yield* agent.write(at(".env"), "S=2\nT=3\n")
      yield* agent.write(at(".env.local"), "S=2\n")
      yield* agent.initRepository(at("nested"))
      yield* agent.write(at("nested/file"), "1\n")
      const shown = Effect.map(changes(), ({ files, partialWarnings }) => {
        assert.deepStrictEqual(partialWarnings, [])
        return files.map(({ additions, deletions, path, previousPath, status }) => [path, status, additions, deletions, previousPath])
      })
      const expected = (fresh: string) => [
        [".env", "modified", 0, 0, null],
        [".env.local", "untracked", 0, 0, null],
        ["gone/a", "deleted", 0, 2, null],
        ["gone/b", "deleted", 0, 0, null],
        ["image", "modified", 0, 0, null],
        ["src-2", fresh, 1, 0, null],
        ["src/changed", "modified", 2, 1, null],
        ["src/fresh", fresh, 3, 0, null],
        ["src/new", "renamed", 0, 0, "old"],
        ["é", fresh, 1, 0, null]
      ]
      assert.deepStrictEqual(yield* shown, expected("untracked"))
      yield* publish()
      assert.deepStrictEqual(yield* shown, expected("added"))
    }))

  it.effect("tells the first 1,000 changes, and that there are more", () =>
    Effect.gen(function*() {
      const { at, changes } = yield* prepared({ v: "0" })
      const name = (i: number) => `f${String(i).padStart(4, "0")}`
      yield* Effect.forEach(Array.from({ length: 1_001 }, (_, i) => i), (i) => agent.write(at(name(i)), ""), { concurrency: 50 })
      const { files, partialWarnings } = yield* changes()
      assert.deepStrictEqual([files.length, files[0]?.path, files.at(-1)?.path], [1_000, name(0), name(999)])
      assert.deepStrictEqual(partialWarnings, ["entries_truncated"])
    }), { timeout: 300_000 })

  it.effect("a tree that is not here has no changes to tell", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      assert.strictEqual(yield* refusal(trees.changes({ sandboxId: freshId(), repo: app })), "FileNotFound")
      const search = trees.search({ sandboxId: freshId(), repo: app }, { text: "a", ignoreCase: false })
      assert.strictEqual(yield* refusal(search), "FileNotFound")
    }))

  it.effect("refuses to list what is no directory of the tree", () =>
    Effect.gen(function*() {
      const { key, trees } = yield* prepared({ "file": "1", "dir/x": "1", ".claude/x": "1" })
      const list = (directory: string) => refusal(trees.list(key, directory))
      assert.strictEqual(yield* list("missing"), "FileNotFound")
      assert.strictEqual(yield* list("missing/x"), "FileNotFound")
      assert.strictEqual(yield* list("file"), "NotADirectory")
      assert.strictEqual(yield* list("file/x"), "FileNotFound")
      assert.strictEqual(yield* list(".git"), "FileProtected")
      assert.strictEqual(yield* list("dir/.GIT/refs"), "FileProtected")
      assert.strictEqual(yield* list(".claude"), "FileProtected")
      assert.strictEqual(yield* list("x".repeat(300)), "FileNotFound")
    }))

  it.effect("streams exactly the bytes of a file, in bounded pieces", () =>
    Effect.gen(function*() {
      const content = new TextEncoder().encode("aé€😀".repeat(30_000))
      const { at, pieces } = yield* prepared({ empty: "" })
      yield* agent.write(at("big"), content)
      const big = yield* pieces("big")
      assert.strictEqual(big.size, 300_000)
      assert.isTrue(big.chunks.every((chunk) => chunk.length <= 65_536))
      assert.deepStrictEqual(big.chunks.flatMap((chunk) => [...chunk]), [...content])
      assert.deepStrictEqual(yield* pieces("empty"), { size: 0, chunks: [] })
    }))
}

const opening = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("cuts what grows while it is read, and fails when it shrinks", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ v: "0123456789" })
      yield* Effect.scoped(Effect.gen(function*() {
        const { bytes, size } = yield* trees.open(key, "v", 100)
        yield* agent.append(at("v"), "more")
        assert.strictEqual(size, 10)
        assert.strictEqual(yield* Stream.mkString(Stream.decodeText(bytes)), "0123456789")
        yield* agent.truncate(at("v"))
        assert.strictEqual(yield* refusal(Stream.runDrain(bytes)), "FileNotFound")
      }))
    }))

  it.effect("reads to its end what was deleted since it was opened", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ v: "0123456789" })
      yield* Effect.scoped(Effect.gen(function*() {
        const { bytes } = yield* trees.open(key, "v", 100)
        yield* agent.remove(at("v"))
        assert.strictEqual(yield* Stream.mkString(Stream.decodeText(bytes)), "0123456789")
      }))
      assert.strictEqual(yield* refusal(trees.open(key, "v", 100)), "FileNotFound")
    }))

  it.effect("opens nothing but unprotected files that are small enough", () =>
    Effect.gen(function*() {
      const { at, key, read, trees } = yield* prepared({ "file": "12345", "dir/x": "1", ".env": "S", ".gitmodules": "m" })
      const open = (path: string) => refusal(trees.open(key, path, 5))
      assert.strictEqual(yield* open("file"), "nothing")
      assert.strictEqual(yield* read(".gitmodules"), "m")
      for (const path of [".env", "missing/.env", ".git", ".git/config", ".GIT/HEAD"]) {
        assert.strictEqual(yield* open(path), "FileProtected", path)
      }
      for (const path of ["missing", "missing/x", "file/x", "dir/y", "x".repeat(300)]) {
        assert.strictEqual(yield* open(path), "FileNotFound", path)
      }
      for (const path of ["", "dir"]) {
        assert.strictEqual(yield* open(path), "IsDirectory", path)
      }
      yield* agent.append(at("file"), "6")
      assert.strictEqual(yield* open("file"), "FileTooLarge")
    }))

  it.effect("names of every kind make the round trip through list, open and snapshot", () =>
    Effect.gen(function*() {
      const { at, list, publish, read, source } = yield* prepared({ v: "0" })
      const names = [
        "-rf",
        "--help",
        " lead",
        "trail ",
        "a\nb",
        "a\rb",
        "tab\tname",
        "q\"uote",
        "s'ingle",
        "back\\slash",
        "semi;colon",
        "%2e%2e",
        "*",
        "[a]",
        "?",
        ":(glob)x",
        "日本",
        "e\u0301",
        "\u202egnp.exe",
        "#x",
        "!x",
        "$(x)",
        "`x`",
        "n".repeat(255),
        "COPYING:x",
        "<b>",
        "~x"
      ]
      for (const file of names) yield* agent.write(at(`odd/${file}`), file)
      assert.deepStrictEqual(new Set((yield* list("odd")).map((entry) => entry.name)), new Set(names))
      for (const entry of yield* list("odd")) {
        assert.strictEqual(entry.status, "untracked", entry.name)
        assert.strictEqual(yield* read(entry.path), entry.name)
      }
      assert.deepStrictEqual(
        yield* source.files(yield* publish()),
        Object.fromEntries([["v", "0"], ...names.map((file) => [`odd/${file}`, file])])
      )
    }))
}

const versionsOfFiles = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("compares the file in the tree, as published, and where the sandbox started", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, trees } = yield* prepared({
        v: "base",
        gone: "gone",
        image: new Uint8Array([1, 0, 2]),
        "dir/x": "1"
      })
      const text = (content: string, ref: string) => ({
        content,
        hash: blobId(content, base.baseSha),
        ref,
        size: content.length,
        binary: false
      })
      yield* agent.write(at("v"), "one")
      yield* agent.write(at("new"), "new")
      yield* agent.remove(at("gone"))
      const compare = (path: string) => trees.compare(key, path, 10)
      assert.deepStrictEqual(yield* compare("v"), {
        working: text("one", "working"),
        head: text("base", base.baseSha),
        base: text("base", base.baseSha)
      })
      const sha = yield* publish()
      yield* agent.write(at("v"), "two")
      assert.deepStrictEqual(yield* compare("v"), {
        working: text("two", "working"),
        head: text("one", sha),
        base: text("base", base.baseSha)
      })
      assert.deepStrictEqual(yield* compare("new"), { working: text("new", "working"), head: text("new", sha), base: null })
      assert.deepStrictEqual(yield* compare("gone"), { working: null, head: null, base: text("gone", base.baseSha) })
      const image = (ref: string) => ({ content: null, hash: blobId("\u0001\0\u0002", base.baseSha), ref, size: 3, binary: true })
      assert.deepStrictEqual(yield* compare("image"), { working: image("working"), head: image(sha), base: image(base.baseSha) })
      for (const path of ["missing", "missing/x", "v/x"]) {
        assert.deepStrictEqual(yield* compare(path), { working: null, head: null, base: null }, path)
      }

      yield* agent.write(at("large"), "x".repeat(11))
      assert.strictEqual(yield* refusal(compare("large")), "FileTooLarge")
      assert.strictEqual(yield* refusal(compare("dir")), "IsDirectory")
      assert.strictEqual(yield* refusal(compare("")), "IsDirectory")
      assert.strictEqual(yield* refusal(compare(".env")), "FileProtected")
      yield* agent.write(at("v"), "\ufeffé")
      assert.deepStrictEqual((yield* compare("v")).working, { ...text("\ufeffé", "working"), size: 5 })
    }))

  it.effect("a base that is too large is refused too, though the file is small now", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ v: "x".repeat(11) })
      yield* agent.write(at("v"), "small")
      assert.strictEqual(yield* refusal(trees.compare(key, "v", 10)), "FileTooLarge")
    }))

  it.effect("reads files of the commit it started from, whatever the agent and its publications made of them", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, trees } = yield* prepared({
        v: "base",
        "dir/x": "\ufeffé",
        gone: "1",
        just: "1234567890",
        large: "12345678901"
      })
      yield* agent.write(at("v"), "one")
      yield* agent.write(at("new"), "new")
      yield* agent.remove(at("gone"))
      yield* agent.remove(at("dir"))
      yield* agent.write(at("dir"), "a file")
      yield* publish()
      const files = yield* trees.readBase(key, ["v", "dir/x", "new", "gone", "dir", "v/x", "missing", "just", "large", "", "*", "v"], {
        maximumBytes: 10
      })
      const read = Array.from(files, ([path, { blob, content }]) => [path, blob, content === null ? null : decodeText(content)])
      assert.sameDeepMembers(read, [
        ["v", blobId("base", base.baseSha), "base"],
        ["dir/x", blobId("\ufeffé", base.baseSha), "\ufeffé"],
        ["gone", blobId("1", base.baseSha), "1"],
        ["just", blobId("1234567890", base.baseSha), "1234567890"],
        ["large", blobId("12345678901", base.baseSha), null]
      ])
    }))
}

const filesOfTheBase = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("reads of many paths those that are there", () =>
    Effect.gen(function*() {
      const { key, trees } = yield* prepared(Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`folder/file ${i}`, `${i}`])))
      const paths = Array.from({ length: 500 }, (_, i) => `folder/file ${i}`)
      const files = yield* trees.readBase(key, paths, { maximumBytes: 0 })
      assert.sameMembers([...files.keys()], paths.slice(0, 250))
    }))

  it.effect("reads files of the commit it started from after it was restored", () =>
    Effect.gen(function*() {
      const { at, key, source, trees } = yield* prepared({ v: "base" })
      yield* agent.write(at("v"), "saved")
      yield* Effect.scoped(Effect.gen(function*() {
        const { content } = yield* trees.save(key.sandboxId, [{ repo: app }])
        yield* trees.restore(key.sandboxId, content, [{ repo: app, remote: source.remote }])
      }))
      const read = yield* trees.readBase(key, ["v"], { maximumBytes: 10 })
      assert.deepStrictEqual(Array.from(read, ([path, { content }]) => [path, content === null ? null : decodeText(content)]), [
        ["v", "base"]
      ])
    }))

  it.effect("finds files of the commit it started from by their names, in whatever folder, whatever the agent made of them", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, trees } = yield* prepared({
        lock: "1",
        "a/b/lock": "2",
        "a/lock.d/x": "",
        "a/[l]ock": "3",
        "a/*": "4",
        "Lock": "",
        "é/Cargo.lock": "5",
        gone: "6",
        "lock-x": ""
      })
      yield* agent.write(at("lock"), "changed")
      yield* agent.write(at("new/lock"), "new")
      yield* agent.remove(at("gone"))
      yield* publish()
      const found = yield* trees.findBase(key, ["lock", "[l]ock", "*", "Cargo.lock", "gone", "missing", "a/b/lock", ""], { maximum: 6 })
      assert.sameDeepMembers(Array.from(found ?? []), [
        ["lock", blobId("1", base.baseSha)],
        ["a/b/lock", blobId("2", base.baseSha)],
        ["a/[l]ock", blobId("3", base.baseSha)],
        ["a/*", blobId("4", base.baseSha)],
        ["é/Cargo.lock", blobId("5", base.baseSha)],
        ["gone", blobId("6", base.baseSha)]
      ])
      assert.strictEqual((yield* trees.findBase(key, [], { maximum: 0 }))?.size, 0)
    }))

  it.effect("says that there are too many of those files, and names none of them", () =>
    Effect.gen(function*() {
      const { key, trees } = yield* prepared(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}/lock`, `${i}`])))
      assert.isNull(yield* trees.findBase(key, ["lock"], { maximum: 19 }))
      assert.strictEqual((yield* trees.findBase(key, ["lock"], { maximum: 20 }))?.size, 20)
      assert.strictEqual(
        yield* refusal(trees.findBase({ ...key, repo: RepoName.make("acme/none") }, ["lock"], { maximum: 1 })),
        "FileNotFound"
      )
    }))
}

const snapshots = <R>(
  it: Writer<WorkingTrees | R>,
  fixture: Fixture<R>,
  { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>
) => {
  it.effect("tells which branch or tag of the source has the commit it started from in its history by now", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const source = yield* fixture.source({ v: "0" })
      const first = (yield* source.tip("main")) ?? ""
      const feature = yield* source.commit("feature/x", { v: "1" })
      const started = Effect.fnUntraced(function*(ref?: string) {
        const key: TreeKey = { sandboxId: freshId(), repo: app }
        yield* Effect.acquireRelease(trees.prepare(key, options(source, ref)), () => Effect.orDie(trees.remove(key.sandboxId)))
        return (...refs: ReadonlyArray<string>) => trees.findBaseRef(key, { remote: source.remote, refs })
      })
      const [ofMain, ofFeature] = [yield* started(), yield* started("feature/x")]
      assert.deepStrictEqual(yield* ofMain(), { baseSha: first, on: null })
      assert.deepStrictEqual(yield* ofMain("main"), { baseSha: first, on: "main" })
      for (let i = 0; i < 3; i++) yield* source.commit("main", { v: `${i + 2}` })
      assert.deepStrictEqual(yield* ofMain("gone", "main"), { baseSha: first, on: "main" })
      assert.deepStrictEqual(yield* ofMain("feature/*"), { baseSha: first, on: "feature/*" })
      const onFeature = (...refs: ReadonlyArray<string>) => Effect.map(ofFeature(...refs), ({ on }) => on)
      // A name that ends like the other one's.
      yield* source.commit("x/main", { v: "x" })
      yield* source.setBranch("x/main", feature)
      for (const refs of [["main"], ["main", "feature", "feature/", "eature/x", "*", "x/*/x", "gone/*"]]) {
        assert.isNull(yield* onFeature(...refs), refs.join())
      }
      assert.strictEqual(yield* onFeature("main", "feature/x"), "feature/x")
      assert.strictEqual(yield* onFeature("main", "feature/*"), "feature/*")
      yield* source.commit("feature/x", { v: "9" })
      assert.strictEqual(yield* onFeature("main", "feature/x"), "feature/x")
      yield* source.tag("v1", feature)
      yield* source.deleteBranch("feature/x")
      assert.isNull(yield* onFeature("main", "feature/*"))
      assert.strictEqual(yield* onFeature("main", "v1"), "v1")
      yield* source.setBranch("main", feature)
      assert.strictEqual(yield* onFeature("main", "v1"), "main")
      assert.strictEqual(
        yield* refusal(trees.findBaseRef({ sandboxId: freshId(), repo: app }, { remote: source.remote, refs: ["main"] })),
        "FileNotFound"
      )
    }))

  it.effect("a tree without changes has nothing to publish", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ v: "0", ".gitignore": "ignored\n" })
      const snapshot = refusal(trees.snapshot(key, { message: "x", author }))
      assert.strictEqual(yield* snapshot, "NoChanges")
      yield* agent.write(at("ignored"), "x")
      yield* agent.write(at(".env"), "SECRET=1")
      yield* agent.write(at("v"), "1")
      yield* agent.write(at("v"), "0")
      assert.strictEqual(yield* snapshot, "NoChanges")
    }))

  it.effect("commits the tree as it is on the commit it started from, without what must stay out", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, source, trees } = yield* prepared({
        ".gitignore": "dist\n",
        "kept": "1\n",
        "gone": "1\n",
        "tool": "#!\n",
        ".env": "TRACKED=1\n",
        "dir/x": "1\n"
      })
      yield* agent.write(at("kept"), "2\n")
      yield* agent.remove(at("gone"))
      yield* agent.remove(at("dir"))
      yield* agent.makeExecutable(at("tool"))
      yield* agent.write(at("dist/out"), "built")
      yield* agent.write(at(".env"), "TRACKED=2\n")
      yield* agent.write(at(".env.local"), "SECRET=1")
      yield* agent.write(at("sub/.npmrc"), "//r/:_authToken=1")
      yield* agent.write(at("sub/.env.example"), "SECRET=\n")
      const sha = yield* publish()
      assert.strictEqual(yield* source.tip("slipway/x"), sha)
      assert.strictEqual((yield* trees.snapshot(key, { message: "Title", author })).baseRef, base.baseRef)
      assert.deepStrictEqual(yield* source.files(sha), {
        ".env": "TRACKED=2\n",
        ".gitignore": "dist\n",
        "kept": "2\n",
        "sub/.env.example": "SECRET=\n",
        "tool": "*#!\n"
      })
    }))
}

const completeSnapshots = <R>(
  it: Writer<WorkingTrees | R>,
  fixture: Fixture<R>,
  { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>
) => {
  it.effect("a tree made from what was published holds all of it, executable or not", () =>
    Effect.gen(function*() {
      const { at, list, publish, source, trees } = yield* prepared({ tool: "#!\n", v: "0\n" })
      yield* agent.makeExecutable(at("tool"))
      assert.deepInclude(fileOf(yield* list(), "tool"), { status: "modified", additions: 0, deletions: 0 })
      const baseSha = yield* publish()

      const key: TreeKey = { sandboxId: freshId(), repo: app }
      assert.deepStrictEqual(yield* trees.prepare(key, options(source, "slipway/x")), { baseSha, baseRef: "slipway/x" })
      assert.strictEqual(yield* refusal(trees.snapshot(key, { message: "x", author })), "NoChanges")
      const root = `${yield* fixture.workspace(key.sandboxId)}/${trees.folder(app, [app])}`
      yield* agent.write(`${root}/v`, "1\n")
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      assert.isNull(yield* source.tip("slipway/y"))
      yield* trees.push(key, { sha, headRef: "slipway/y", remote: source.remote })
      assert.deepStrictEqual(yield* source.files(sha), { tool: "*#!\n", v: "1\n" })

      yield* agent.remove(`${root}/tool`)
      yield* agent.write(`${root}/tool`, "#!\n")
      const since = { head: sha, merges: [], remote: source.remote }
      const plain = yield* trees.snapshot(key, { message: "x", author, since })
      yield* trees.push(key, { sha: plain.sha, headRef: "slipway/y", remote: source.remote, expected: sha })
      assert.deepStrictEqual(yield* source.files(plain.sha), { tool: "#!\n", v: "1\n" })
      yield* trees.remove(key.sandboxId)
    }))

  it.effect("a tree that is made again has nothing of the one before", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      yield* agent.write(at("w"), "1")
      const theirs = yield* publish()
      yield* trees.remove(key.sandboxId)
      yield* agent.write(at("late"), "written by what was left of an agent")
      assert.deepStrictEqual(yield* trees.prepare(key, options(source)), base)
      assert.deepStrictEqual((yield* trees.list(key, "")).entries.map(({ name, status }) => [name, status]), [["v", null]])
      assert.deepStrictEqual((yield* trees.compare(key, "v", 10)).head, {
        content: "0",
        hash: blobId("0", base.baseSha),
        ref: base.baseSha,
        size: 1,
        binary: false
      })
      // Only the caller that recorded the push knows what was pushed.
      yield* agent.write(at("v"), "2")
      const sha = yield* publish("slipway/x", { pushed: theirs })
      assert.deepStrictEqual((yield* source.history("slipway/x")).slice(0, 3), [sha, theirs, base.baseSha])
      assert.deepStrictEqual(yield* source.files(sha), { v: "2" })
    }))
}

/** Files with rules of every kind, and a file that git tracks although a rule ignores it. */
const IGNORING = {
  ".gitignore": [
    "# names",
    "*.log",
    "!kept.log",
    "/top",
    "mid/dle",
    "folder/",
    "a/**/z",
    "**/deep",
    "all/**",
    "!all/kept",
    "most/**",
    "!most/kept",
    "one/*/two",
    "x?z",
    "[ab]c",
    "[!q]r",
    "\\#hash",
    "\\!bang",
    "trailing  ",
    "closed/",
    "!closed/kept",
    "esc\\*",
    "1?",
    "2[b-a4-6]",
    "3[",
    "-",
    "lone\\",
    "ö*"
  ].join("\n"),
  "wild/.gitignore": "/**\n!/in/\n",
  "sub/.gitignore": "local\n!again.log\n/here\r\n",
  "tracked.log": "1\n"
}

/** Paths that no rule of {@link IGNORING} ignores. */
const NOT_IGNORED = [
  "kept.log",
  "sub/kept.log",
  "sub/again.log",
  "sub/top",
  "sub/mid/dle",
  "sub/more/here",
  "folder",
  "other/x/folder",
  "b/a/z",
  "xz",
  "x/z",
  "qr",
  "cc",
  "all-not",
  "escape",
  "# names",
  "local",
  "deepest",
  "1é",
  "2a",
  "3[",
  "lone\\",
  "most/kept",
  "one/x/y/two"
]

/** Paths that a rule of {@link IGNORING} ignores. */
const IGNORED = [
  "debug.log",
  "sub/debug.log",
  "again.log",
  "top",
  "mid/dle",
  "a/z",
  "a/b/c/z",
  "deep",
  "sub/deep/x",
  "all/x/y",
  "all/kept/x",
  "most/x",
  "one/x/two",
  "wild/x",
  "wild/in/x",
  "xyz",
  "ac",
  "sub/bc",
  "zr",
  "#hash",
  "!bang",
  "closed/kept",
  "closed/in/side",
  "sub/local",
  "sub/more/local",
  "sub/here",
  "esc*",
  "nested/folder/x",
  "trailing/x",
  "12",
  "2b",
  "25",
  "-",
  "öffentlich"
]

const ignoredFiles = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("leaves out what the ignore files of the tree name, and nothing else", () =>
    Effect.gen(function*() {
      const { at, list, publish, source } = yield* prepared(IGNORING)
      for (const path of [...NOT_IGNORED, ...IGNORED]) yield* agent.write(at(path), "")
      yield* agent.write(at("tracked.log"), "2\n")
      assert.strictEqual(fileOf(yield* list(), "tracked.log").status, "modified")
      assert.isNull(fileOf(yield* list(), "debug.log").status)
      assert.isNull(fileOf(yield* list(), "closed").status)
      assert.strictEqual(fileOf(yield* list(), "kept.log").status, "untracked")
      const published = Object.keys(yield* source.files(yield* publish()))
      assert.sameMembers(published.filter((path) => !path.endsWith(".gitignore")), [...NOT_IGNORED, "tracked.log"])
    }))
}

const deterministicCommits = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("attributes have no say in what is checked out, shown and published: that is the bytes of the files", () =>
    Effect.gen(function*() {
      const { at, list, publish, read, source } = yield* prepared({
        ".gitattributes": "*.crlf text eol=crlf\n*.id ident\n",
        "a.crlf": "1\n2\n",
        "b.utf7": "1\n",
        "c.id": "$Id$\n"
      })
      assert.deepStrictEqual([yield* read("a.crlf"), yield* read("c.id")], ["1\n2\n", "$Id$\n"])
      assert.deepStrictEqual((yield* list()).map(({ status }) => status), [null, null, null, null])
      yield* agent.write(
        at(".gitattributes"),
        [
          "*.utf16 working-tree-encoding=UTF-16",
          "*.utf7 working-tree-encoding=UTF-7",
          "*.crlf text eol=crlf",
          "*.id ident",
          "*.bin -diff",
          "*.own filter=own",
          ""
        ].join("\n")
      )
      yield* agent.write(at("sub/.gitattributes"), "*.utf16 working-tree-encoding=UTF-16\n* -diff\n")
      // No UTF-16; another text in UTF-7.
      const written = {
        "a.utf16": "no UTF-16\n",
        "b.utf7": "+AGgAaQ-\n",
        "d.crlf": "1\r\n2\r\n",
        "e.id": "$Id: 1 $\n",
        "f.bin": "1\n2\n",
        "g.own": "1\n",
        "sub/h.utf16": "odd"
      }
      for (const [path, content] of Object.entries(written)) yield* agent.write(at(path), content)
      const shown = (yield* list()).filter(({ kind, name, status }) => kind === "file" && status !== null && !name.startsWith("."))
      assert.deepStrictEqual(shown.map(({ additions, deletions, name }) => [name, additions, deletions]), [
        ["a.utf16", 1, 0],
        ["b.utf7", 1, 1],
        ["d.crlf", 2, 0],
        ["e.id", 1, 0],
        ["f.bin", 2, 0],
        ["g.own", 1, 0]
      ])
      const files = yield* source.files(yield* publish())
      for (const [path, content] of Object.entries(written)) assert.strictEqual(files[path], content)
    }))

  it.effect("equal trees with equal options give the same commit, whatever happened in between", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ v: "0" })
      const snapshot = (message: string, by = author) => Effect.map(trees.snapshot(key, { message, author: by }), ({ sha }) => sha)
      yield* agent.write(at("v"), "1")
      const first = yield* snapshot("a")
      yield* agent.write(at("v"), "2")
      const second = yield* snapshot("a")
      yield* agent.write(at("v"), "1")
      assert.strictEqual(yield* snapshot("a"), first)
      const others = [
        yield* snapshot("b"),
        yield* snapshot("a", { ...author, name: "Else" }),
        yield* snapshot("a", { ...author, email: "else@example.com" })
      ]
      yield* agent.makeExecutable(at("v"))
      assert.strictEqual(new Set([first, second, ...others, yield* snapshot("a")]).size, 6)
    }))

  it.effect("adds to what it pushed before, and pushing the same again succeeds", () =>
    Effect.gen(function*() {
      const { at, base, publish, source } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const first = yield* publish()
      assert.strictEqual(yield* publish(), first)
      yield* agent.write(at("v"), "2")
      const second = yield* publish()
      yield* agent.write(at("v"), "1")
      const third = yield* publish("slipway/x", { pushed: second })
      yield* agent.write(at("v"), "0")
      const fourth = yield* publish("slipway/x", { pushed: third })
      assert.deepStrictEqual(yield* source.history("slipway/x"), [fourth, third, second, first, base.baseSha])
      assert.deepStrictEqual(yield* Effect.forEach([first, second, third, fourth], (sha) => source.files(sha)), [
        { v: "1" },
        { v: "2" },
        { v: "1" },
        { v: "0" }
      ])
    }))
}

const pushes = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("knows what it pushed, whether that was recorded or not, and where other branches are", () =>
    Effect.gen(function*() {
      const { at, base, branch, publish, source } = yield* prepared({ v: "0" })
      const tips = new Map([["main", base.baseSha]])
      assert.deepStrictEqual(yield* branch(), { head: null, isGone: false, root: null, tips })
      yield* agent.write(at("v"), "1")
      const first = yield* publish()
      assert.deepInclude(yield* branch(), { head: first, root: base.baseSha })
      assert.deepInclude(yield* branch("slipway/x", first), { head: first })
      yield* agent.write(at("v"), "2")
      const second = yield* publish()
      assert.deepInclude(yield* branch("slipway/x", first), { head: second })
      const newest = yield* source.commit("main", { w: "1" })
      assert.deepStrictEqual((yield* branch()).tips, new Map([["main", newest]]))
    }))

  it.effect("gives the newest commits of branches as the source has them now, and leaves the tree alone", () =>
    Effect.gen(function*() {
      const { at, base, changes, key, source, trees } = yield* prepared({ v: "0" })
      const newest = Effect.fnUntraced(function*(...branches: ReadonlyArray<string>) {
        const { pack, tips } = yield* trees.newest(key, { remote: source.remote, branches })
        yield* Stream.runDrain(pack)
        return [...tips]
      })
      assert.deepStrictEqual(yield* newest("main"), [["main", base.baseSha]])
      assert.deepStrictEqual(yield* newest("gone"), [])
      yield* agent.write(at("v"), "1")
      const before = yield* changes()
      const theirs = yield* source.commit("feature/x", { w: "1" })
      const main = yield* source.commit("main", { v: "2" })
      assert.sameDeepMembers(yield* newest("main", "gone", "feature/x"), [["main", main], ["feature/x", theirs]])
      // Another person set the branch back.
      yield* source.setBranch("feature/x", base.baseSha)
      assert.deepStrictEqual(yield* newest("feature/x"), [["feature/x", base.baseSha]])
      yield* source.deleteBranch("feature/x")
      assert.deepStrictEqual(yield* newest("feature/x"), [])
      assert.deepStrictEqual(yield* changes(), before)
      const query = { remote: source.remote, branches: ["main"] }
      assert.strictEqual(yield* refusal(trees.newest({ sandboxId: freshId(), repo: app }, query)), "FileNotFound")
    }))

  it.effect("tells a branch that is gone from a branch that never existed", () =>
    Effect.gen(function*() {
      const { at, branch, publish, source } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const sha = yield* publish()
      yield* source.deleteBranch("slipway/x")
      assert.deepInclude(yield* branch(), { head: null, isGone: true })
      assert.deepInclude(yield* branch("slipway/x", sha), { head: null, isGone: true })
      assert.deepInclude(yield* branch("slipway/y"), { head: null, isGone: false })
    }))

  it.effect("pushes nothing onto a branch that is not where it left it", () =>
    Effect.gen(function*() {
      const { at, key, publish, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const theirs = yield* source.commit("slipway/new", { v: "theirs" })
      assert.deepInclude(yield* Effect.flip(publish("slipway/new")), { _tag: "BranchMoved", branch: "slipway/new" })
      const first = yield* publish()
      yield* agent.write(at("v"), "2")
      const second = yield* publish("slipway/x", { pushed: first })
      yield* agent.write(at("v"), "3")
      const elsewhere = [
        yield* source.commit("slipway/x", { w: "theirs" }),
        // One of its own, but not the last.
        first,
        theirs
      ]
      const { sha } = yield* trees.snapshot(key, { message: "x", author, since: { head: second, merges: [], remote: source.remote } })
      for (const tip of elsewhere) {
        yield* source.setBranch("slipway/x", tip)
        assert.strictEqual((yield* Effect.flip(publish("slipway/x", { pushed: second })))._tag, "BranchMoved")
        const late = trees.push(key, { sha, headRef: "slipway/x", remote: source.remote, expected: second })
        assert.strictEqual(yield* refusal(late), "BranchMoved")
        assert.strictEqual(yield* source.tip("slipway/x"), tip)
      }
      yield* source.setBranch("slipway/x", second)
      const third = yield* publish("slipway/x", { pushed: second })
      assert.deepStrictEqual((yield* source.history("slipway/x")).slice(0, 3), [third, second, first])
    }))

  it.effect("never replaces a commit, whatever it is told to expect", () =>
    Effect.gen(function*() {
      const { at, key, publish, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const first = yield* publish()
      yield* agent.write(at("v"), "2")
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      const push = (expected: string | null) => trees.push(key, { sha, headRef: "slipway/x", remote: source.remote, expected })
      assert.strictEqual(yield* refusal(push(null)), "BranchMoved")
      assert.strictEqual(yield* refusal(push(first)), "PushFailed")
      assert.strictEqual(yield* source.tip("slipway/x"), first)
    }))
}

const merges = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof treeHelpersOf<R>>) => {
  it.effect("merges what the tree has beyond what was merged with the newest base, for another pull request", () =>
    Effect.gen(function*() {
      const { at, key, publish, source, trees } = yield* prepared({ ours: "0\n", theirs: "0\n", v: "0\n" })
      yield* agent.write(at("ours"), "1\n")
      const first = yield* publish()
      // As a squash: the base has the content, not the commit.
      const onto = yield* source.commit("main", { ours: "1\n", theirs: "1\n" })
      const merges = [{ onto, ancestor: first }]
      assert.strictEqual(yield* refusal(publish("slipway/x-2", { merges })), "NoChanges")
      assert.isNull(yield* source.tip("slipway/x-2"))

      yield* agent.write(at("new"), "1\n")
      const second = yield* publish("slipway/x-2", { merges })
      assert.deepStrictEqual((yield* source.history("slipway/x-2")).slice(0, 2), [second, onto])
      assert.deepStrictEqual(yield* source.files(second), { new: "1\n", ours: "1\n", theirs: "1\n", v: "0\n" })
      assert.strictEqual(yield* publish("slipway/x-2", { merges, pushed: second }), second)
      yield* agent.write(at("v"), "2\n")
      const third = yield* publish("slipway/x-2", { merges, pushed: second })
      assert.deepStrictEqual((yield* source.history("slipway/x-2")).slice(0, 3), [third, second, onto])
      assert.deepStrictEqual(yield* source.files(third), { new: "1\n", ours: "1\n", theirs: "1\n", v: "2\n" })

      // Merged again, and the base went on: what it has is not taken back.
      const later = yield* source.commit("main", { new: "1\n", v: "2\n", late: "1\n" })
      const again = [...merges, { onto: later, ancestor: third }]
      assert.strictEqual(yield* refusal(publish("slipway/x-3", { merges: again })), "NoChanges")
      yield* agent.remove(at("new"))
      const fourth = yield* publish("slipway/x-3", { merges: again })
      assert.deepStrictEqual(yield* source.files(fourth), { late: "1\n", ours: "1\n", theirs: "1\n", v: "2\n" })
      assert.deepStrictEqual((yield* source.history("slipway/x-3")).slice(0, 2), [fourth, later])

      const saved = yield* Effect.scoped(trees.save(key.sandboxId, [{ repo: app }]))
      assert.deepStrictEqual(saved.repos.map(({ repo }) => repo), [app])
    }))

  it.effect("names the files that conflict with the base, and commits nothing", () =>
    Effect.gen(function*() {
      const { at, base, publish, source } = yield* prepared({ a: "0\n", b: "0\n", c: "0\n" })
      for (const path of ["a", "b", "c"]) yield* agent.write(at(path), "ours\n")
      const onto = yield* source.commit("main", { a: "theirs\n", b: "theirs\n" })
      const conflict = yield* Effect.flip(publish("slipway/x-2", { merges: [{ onto, ancestor: null }] }))
      assert.deepInclude(conflict, { _tag: "MergeConflict", files: ["a", "b"] })
      assert.include(conflict.message, ": a, b")
      assert.isNull(yield* source.tip("slipway/x-2"))
      yield* agent.write(at("a"), "theirs\n")
      yield* agent.write(at("b"), "0\n")
      const sha = yield* publish("slipway/x-2", { merges: [{ onto, ancestor: null }] })
      assert.deepStrictEqual(yield* source.files(sha), { a: "theirs\n", b: "theirs\n", c: "ours\n" })
      assert.deepStrictEqual(yield* source.history("slipway/x-2"), [sha, onto, base.baseSha])
    }))

  it.effect("refuses branch names and commits that are none", () =>
    Effect.gen(function*() {
      const { at, key, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const { sha } = yield* trees.snapshot(key, { message: "x", author })
      for (const headRef of ["-d", "a..b", "a:b", "a b", "a~1"]) {
        assert.strictEqual(yield* refusal(trees.push(key, { sha, headRef, remote: source.remote })), "PushFailed", headRef)
      }
      assert.strictEqual(yield* refusal(trees.push(key, { sha: "HEAD", headRef: "x", remote: source.remote })), "PushFailed")
    }))
}

const ofOneMachine = <R>(name: string, layer: Layer.Layer<WorkingTrees | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`WorkingTrees (${name})`, layer, (it) => {
    const helpers = treeHelpersOf(fixture)
    startingPoints(it, fixture, helpers)
    refusedRefsAndManyTrees(it, fixture, helpers)
    statuses(it, helpers)
    publishedStatuses(it, helpers)
    listings(it, helpers)
    changedPaths(it, helpers)
    searches(it, helpers)
    opening(it, helpers)
    versionsOfFiles(it, helpers)
    filesOfTheBase(it, helpers)
    snapshots(it, fixture, helpers)
    completeSnapshots(it, fixture, helpers)
    ignoredFiles(it, helpers)
    deterministicCommits(it, helpers)
    pushes(it, helpers)
    merges(it, helpers)
  })

/** Trees on a disk, with everything that agents can make there. */
const onDisk = <R>(name: string, layer: Layer.Layer<WorkingTrees | R, unknown>, fixture: DiskFixture<R>) =>
  defineLive(`WorkingTrees on a disk (${name})`, layer, (it) => {
    const { agent } = fixture
    const prepared = preparing(fixture)

    it.effect("packs exactly the objects of the newest commits that the commit lacks that the tree started from", () =>
      Effect.gen(function*() {
        const { key, source, trees } = yield* prepared({ v: "0", "kept/a": "a", "kept/b": "b" })
        const objects = Effect.fnUntraced(function*() {
          const { pack, shallow } = yield* trees.newest(key, { remote: source.remote, branches: ["main"] })
          const chunks = yield* Stream.runCollect(pack)
          const bytes = Uint8Array.from(chunks.flatMap((chunk) => Array.from(chunk)))
          assert.strictEqual(new TextDecoder().decode(bytes.slice(0, 4)), "PACK")
          return { count: new DataView(bytes.buffer).getUint32(8), shallow }
        })
        assert.strictEqual((yield* objects()).count, 0)
        // A commit, its top folder and its file.
        yield* source.commit("main", { v: "1" })
        assert.strictEqual((yield* objects()).count, 3)
        yield* source.commit("main", { v: "2" })
        const { count, shallow } = yield* objects()
        assert.strictEqual(count, 6)
        for (const line of shallow) assert.match(line, /^[0-9a-f]{40,64}$/u)
      }))

    it.effect("lists a link as what it is, with no size and a line of its own", () =>
      Effect.gen(function*() {
        const { at, list } = yield* prepared({ same: "same\n" })
        yield* agent.symlink(at("link"), "same")
        const { additions, deletions, kind, previousPath, size, status } = fileOf(yield* list(), "link")
        assert.deepStrictEqual([kind, status, additions, deletions, size, previousPath], ["symlink", "untracked", 1, 0, null, null])
      }))

    it.effect("leaves out of a listing what is no file, and says so", () =>
      Effect.gen(function*() {
        const { at, key, trees } = yield* prepared({ b: "1" })
        yield* agent.fifo(at("pipe"))
        const { entries, partialWarnings } = yield* trees.list(key, "")
        assert.deepStrictEqual([entries.map((entry) => entry.name), partialWarnings], [["b"], ["unreadable_entries"]])
      }))

    it.effect("follows no link to a directory", () =>
      Effect.gen(function*() {
        const { at, key, trees } = yield* prepared({ "dir/x": "1" })
        yield* agent.symlink(at("link"), "dir")
        yield* agent.symlink(at("out"), "/")
        for (const directory of ["link", "out", "out/etc"]) {
          assert.strictEqual(yield* refusal(trees.list(key, directory)), "FileProtected", directory)
        }
      }))

    it.effect("streams every byte there is", () =>
      Effect.gen(function*() {
        const content = new Uint8Array(300_000).map((_, i) => i % 251)
        const { at, pieces } = yield* prepared({ empty: "" })
        yield* agent.write(at("big"), content)
        const { chunks, size } = yield* pieces("big")
        assert.strictEqual(size, content.length)
        assert.isTrue(chunks.every((chunk) => chunk.length <= 65_536))
        assert.deepStrictEqual(chunks.flatMap((chunk) => [...chunk]), [...content])
      }))

    it.effect("opens, compares and searches nothing but plain files with one name", () =>
      Effect.gen(function*() {
        const { at, key, search, trees } = yield* prepared({ "file": "12345", "dir/x": "1" })
        yield* agent.symlink(at("link"), "file")
        yield* agent.symlink(at("out"), "/etc")
        yield* agent.symlink(at("dangling"), "nowhere")
        yield* agent.hardLink(at("second"), at("dir/x"))
        yield* agent.fifo(at("pipe"))
        for (const path of ["link", "dangling", "out", "out/passwd", "out/missing", "second", "dir/x", "pipe"]) {
          assert.strictEqual(yield* refusal(trees.open(key, path, 5)), "FileProtected", path)
          assert.strictEqual(yield* refusal(trees.compare(key, path, 5)), "FileProtected", path)
        }
        assert.strictEqual(yield* refusal(trees.open(key, "file", 5)), "nothing")
        assert.deepStrictEqual((yield* search("1")).files.map(({ path }) => path), ["file"])
        for (const text of ["root:", "pipe", "link"]) assert.deepStrictEqual((yield* search(text)).files, [], text)
      }))

    it.effect("commits a link as a link, and no pipe", () =>
      Effect.gen(function*() {
        const { at, publish, source } = yield* prepared({ v: "0" })
        yield* agent.symlink(at("link"), "/etc/passwd")
        yield* agent.fifo(at("pipe"))
        assert.deepStrictEqual(yield* source.files(yield* publish()), { link: "-> /etc/passwd", v: "0" })
      }))
  })
