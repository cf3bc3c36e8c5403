/** The part of `WorkingTreesContract` about saving trees, and restoring them on a machine that has none or others. */
import { MAXIMUM_SAVED_BYTES, type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import { app, author, fileOf, type Fixture, freshId, lines, options, preparing, refusal, treeOf } from "./TreeFixtures.ts"

/** The next of a row of numbers that the seed decides, from 0 below `most`. */
const numbers = (seed: number) => {
  let state = seed * 2_654_435_761 + 1
  return (most: number): number => {
    state = Math.imul(state ^ state >>> 15, 2_246_822_519) + 374_761_393 | 0
    return (state >>> 8) % most
  }
}

/** Text that cannot be packed to much less than its half. */
const noise = (bytes: number): string => {
  const next = numbers(bytes)
  return Array.from({ length: bytes }, () => "0123456789abcdef".charAt(next(16))).join("")
}

/** The patch without ids. */
const patchOf = Effect.fnUntraced(function*(trees: WorkingTrees["Service"], key: TreeKey, from: string, to: string, path?: string) {
  const bytes = yield* trees.diff(key, { from, to, maximumBytes: 1e6, ...path === undefined ? {} : { path } })
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replaceAll(/^index .*\n/gmu, "")
})

/** Shared by the rules below. */
const helpersOf = <R>(fixture: Fixture<R>) => {
  const { agent } = fixture
  /** A prepared tree, and how it is saved and restored. */
  const prepared = Effect.fnUntraced(function*(files: Readonly<Record<string, string | Uint8Array>>) {
    const tree = yield* preparing(fixture)(files)
    const { key, source, trees } = tree
    const sources = [{ repo: app, remote: source.remote }]
    const save = (maximumBytes = MAXIMUM_SAVED_BYTES) =>
      Effect.scoped(Effect.gen(function*() {
        const saved = yield* trees.save(key.sandboxId, [{ repo: app }], { maximumBytes })
        const chunks = yield* Stream.runCollect(saved.content)
        return { sha: saved.repos[0]?.sha ?? "", bytes: Uint8Array.from(Buffer.concat(chunks)) }
      }))
    /** On another machine: nothing of the sandbox is here. */
    const move = Effect.fnUntraced(function*() {
      const { bytes, sha } = yield* save()
      yield* trees.remove(key.sandboxId)
      yield* trees.restore(key.sandboxId, Stream.make(bytes), sources)
      return sha
    })
    /** All that the port says of the tree. Times of files are those of the machine. */
    const told = Effect.fnUntraced(function*(of: TreeKey = key) {
      const changes = yield* trees.changes(of)
      const lists = yield* Effect.forEach(["", "dir", "dir/sub"], (directory) =>
        trees.list(of, directory).pipe(
          Effect.map(({ entries, ...rest }) => ({ ...rest, entries: entries.map((entry) => ({ ...entry, mtimeMs: null })) })),
          Effect.catchTag("FileNotFound", () => Effect.succeed("none"))
        ))
      const compared = yield* Effect.forEach(
        changes.files.filter(({ path }) => !path.split("/").some((part) => part.startsWith(".env"))),
        ({ path }) => trees.compare(of, path, 1e6)
      )
      const snapshot = yield* trees.snapshot(of, { message: "Title", author }).pipe(
        Effect.catchTag("NoChanges", () => Effect.succeed("nothing to publish"))
      )
      return { changes, lists, compared, snapshot }
    })
    return { ...tree, sources, save, move, told }
  })
  return { agent, prepared }
}

const roundTrips = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("a restored tree says all that it said before it was saved, whatever was done to it", () =>
    Effect.gen(function*() {
      for (let seed = 1; seed <= 8; seed++) {
        const next = numbers(seed)
        const { at, move, publish, save, told } = yield* prepared({
          ".gitignore": "ignored\n",
          ".env": "TRACKED=1\n",
          "a": lines(30, "a"),
          "b": "b\n",
          "dir/c": lines(9, "c"),
          "dir/sub/d": "d\n",
          // No folder becomes empty: git knows of none.
          "dir/sub/kept": "",
          "tool": "#!\n"
        })
        const paths = [".env", "a", "b", "dir/c", "dir/sub/d", "tool", "new", "dir/new", "dir/sub/new", ".env.local", "odd \u00e9\"\n"]
        const there = new Set(paths.slice(0, 6))
        const pick = () => paths[next(paths.length)] ?? "a"
        for (let step = next(12); step >= 0; step--) {
          const path = pick()
          const action = next(8)
          if (action === 0 && there.has(path)) {
            yield* agent.remove(at(path))
            there.delete(path)
          } else if (action === 1 && there.has(path)) yield* agent.makeExecutable(at(path))
          else if (action === 2) yield* publish().pipe(Effect.catchTag("NoChanges", () => Effect.void))
          else if (action === 3 && there.has(path)) yield* agent.append(at(path), `more ${step}\n`)
          else {
            yield* agent.write(at(path), action === 4 ? "" : lines(next(20), `${seed} ${step}`))
            there.add(path)
          }
        }
        const before = yield* told()
        const sha = yield* move()
        assert.deepStrictEqual(yield* told(), before, `seed ${seed}`)
        assert.strictEqual((yield* save()).sha, sha, `seed ${seed}`)
      }
    }), { timeout: 300_000 })

  it.effect("says how many lines and files differ from where the tree started, whatever was published since", () =>
    Effect.gen(function*() {
      const { at, key, publish, trees } = yield* prepared({
        "a": lines(9, "a"),
        "gone": "x\ny\n",
        "kept": lines(30, "kept"),
        "same": "s\n"
      })
      const changes = Effect.scoped(Effect.map(trees.save(key.sandboxId, [{ repo: app }]), (saved) => saved.changes))
      assert.deepStrictEqual(yield* changes, [{ repo: app, additions: 0, deletions: 0, changedFiles: 0 }])
      yield* agent.append(at("a"), "one more\n")
      yield* publish()
      yield* agent.write(at("new"), "1\n2\n3\n")
      yield* agent.remove(at("gone"))
      assert.deepStrictEqual(yield* changes, [{ repo: app, additions: 4, deletions: 2, changedFiles: 3 }])
      yield* agent.remove(at("kept"))
      yield* agent.write(at("moved"), lines(30, "kept"))
      assert.deepStrictEqual(yield* changes, [{ repo: app, additions: 4, deletions: 2, changedFiles: 4 }])
    }))

  it.effect("holds new files and those of the environment, and nothing that is ignored", () =>
    Effect.gen(function*() {
      const { at, list, move, read } = yield* prepared({ ".gitignore": "dist\n", "v": "0", "gone": "x", "tool": "#!\n" })
      yield* agent.write(at("v"), "1")
      yield* agent.remove(at("gone"))
      yield* agent.makeExecutable(at("tool"))
      yield* agent.write(at("new/x"), "new")
      yield* agent.write(at(".env.local"), "SECRET=1")
      yield* agent.write(at("dist/out"), "built")
      yield* move()
      const listed = () => Effect.map(list(), (entries) => entries.map(({ name, size, status }) => [name, status, size]))
      assert.deepStrictEqual(yield* listed(), [
        ["new", "untracked", null],
        [".env.local", "untracked", null],
        [".gitignore", null, 5],
        ["gone", "deleted", null],
        ["tool", "modified", 3],
        ["v", "modified", 1]
      ])
      assert.strictEqual(yield* read("new/x"), "new")
      // A protected file is not read. It still exists: the next tree differs without it.
      yield* agent.remove(at(".env.local"))
      assert.notInclude((yield* listed()).map(([name]) => name), ".env.local")
    }))
}

const savedCommits = <R>(it: Writer<WorkingTrees | R>, fixture: Fixture<R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("equal trees are the same commit, and one without changes is that which it started from", () =>
    Effect.gen(function*() {
      const { at, base, save } = yield* prepared({ v: "0" })
      assert.strictEqual((yield* save()).sha, base.baseSha)
      yield* agent.write(at("new"), "x")
      const { sha } = yield* save()
      assert.strictEqual((yield* save()).sha, sha)
      yield* agent.write(at("new"), "y")
      assert.notStrictEqual((yield* save()).sha, sha)
      yield* agent.write(at("new"), "x")
      assert.strictEqual((yield* save()).sha, sha)
      yield* agent.write(at(".env"), "SECRET=1")
      assert.notStrictEqual((yield* save()).sha, sha)
      yield* agent.remove(at(".env"))
      yield* agent.remove(at("new"))
      assert.strictEqual((yield* save()).sha, base.baseSha)
    }))

  it.effect("goes back to what was saved where there is a tree, as often as asked", () =>
    Effect.gen(function*() {
      const { at, base, key, list, read, save, sources, trees } = yield* prepared({ v: "0", w: "0" })
      yield* agent.write(at("v"), "é")
      const { bytes, sha } = yield* save()
      for (let round = 0; round < 2; round++) {
        yield* agent.write(at("v"), "2")
        yield* agent.write(at("later"), "2")
        yield* agent.remove(at("w"))
        const restored = yield* trees.restore(key.sandboxId, Stream.make(bytes), sources)
        assert.deepStrictEqual(restored, [{ repo: app, sha, bytes: 3, ...base }])
        assert.deepStrictEqual((yield* list()).map(({ name, status }) => [name, status]), [["v", "modified"], ["w", null]])
        assert.strictEqual(yield* read("v"), "é")
      }
    }))

  it.effect("saves several repositories, and none when one of them is not there", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const sandboxId = freshId()
      const repos = ["acme/app", "other/App"].map((repo) => RepoName.make(repo))
      const sources = yield* Effect.forEach(
        repos,
        Effect.fnUntraced(function*(repo) {
          const source = yield* fixture.source({ v: `of ${repo}` })
          yield* trees.prepare({ sandboxId, repo }, { ...options(source), repos })
          yield* agent.write(`${yield* fixture.workspace(sandboxId)}/${trees.folder(repo, repos)}/new`, `new in ${repo}`)
          return { repo, remote: source.remote }
        })
      )
      const { content, repos: saved } = yield* trees.save(sandboxId, repos.map((repo) => ({ repo })))
      const bytes = Buffer.concat(yield* Stream.runCollect(content))
      // It can be read again.
      assert.isTrue(bytes.equals(Buffer.concat(yield* Stream.runCollect(content))))
      assert.deepStrictEqual(saved.map(({ repo }) => repo), repos)
      const missing = trees.save(sandboxId, [...repos, RepoName.make("acme/none")].map((repo) => ({ repo })))
      assert.strictEqual(yield* refusal(missing), "FileNotFound")
      yield* trees.remove(sandboxId)
      // In any order, in any case of letters.
      const asked = [...sources].reverse().map((source) => ({ ...source, repo: RepoName.make(source.repo.toUpperCase()) }))
      yield* trees.restore(sandboxId, Stream.make(bytes), asked)
      for (const repo of repos) {
        const { working } = yield* trees.compare({ sandboxId, repo }, "new", 100)
        assert.strictEqual(working?.content, `new in ${repo}`)
      }
      for (
        const wrong of [sources.slice(1), [], [...sources, { repo: RepoName.make("a/b"), remote: sources[0]?.remote ?? assert.fail() }]]
      ) {
        assert.strictEqual(yield* refusal(trees.restore(sandboxId, Stream.make(bytes), wrong)), "CheckpointDamaged")
      }
      yield* trees.remove(sandboxId)
    }).pipe(Effect.scoped))
}

const publishingAfterRestore = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("another sandbox goes on from what was saved, and cannot touch what the first one published", () =>
    Effect.gen(function*() {
      const { at, key, publish, save, source, sources, told, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      yield* agent.write(at("new"), "x")
      const before = yield* told()
      const published = yield* publish("slipway/x")
      const { bytes } = yield* save()
      const fork: TreeKey = { sandboxId: freshId(), repo: app }
      yield* trees.restore(fork.sandboxId, Stream.make(bytes), sources, { forget: "publication" })
      assert.deepStrictEqual(yield* told(fork), before)
      const { sha } = yield* trees.snapshot(fork, { message: "Other", author })
      const push = trees.push(fork, { sha, headRef: "slipway/x", remote: source.remote })
      assert.strictEqual(yield* refusal(push), "BranchMoved")
      assert.strictEqual(yield* source.tip("slipway/x"), published)
      yield* trees.push(fork, { sha, headRef: "slipway/y", remote: source.remote })
      assert.strictEqual((yield* trees.compare(key, "v", 10)).working?.content, "1")
      yield* trees.remove(fork.sandboxId)
    }))

  it.effect("after it was restored a sandbox adds to what it published before, and nothing to what others pushed", () =>
    Effect.gen(function*() {
      const { at, branch, list, move, publish, source } = yield* prepared({ v: "0" })
      yield* agent.write(at("new"), "1")
      const first = yield* publish("slipway/x")
      yield* move()
      assert.strictEqual(fileOf(yield* list(), "new").status, "added")
      yield* agent.write(at("new"), "2")
      const second = yield* publish("slipway/x")
      assert.deepStrictEqual((yield* source.history("slipway/x")).slice(0, 2), [second, first])
      yield* move()
      const theirs = yield* source.commit("slipway/x", { theirs: "x" })
      yield* agent.write(at("new"), "3")
      assert.strictEqual(yield* refusal(publish("slipway/x")), "BranchMoved")
      assert.strictEqual(yield* source.tip("slipway/x"), theirs)
      yield* source.deleteBranch("slipway/x")
      assert.deepInclude(yield* branch(), { head: null, isGone: true })
    }))

  it.effect("a sandbox that goes back to before its last push publishes what it is then on top of that", () =>
    Effect.gen(function*() {
      const { at, base, key, publish, save, source, sources, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      const first = yield* publish("slipway/x")
      const { bytes } = yield* save()
      yield* agent.write(at("v"), "2")
      yield* agent.write(at("late"), "2")
      const second = yield* publish("slipway/x", { pushed: first })
      // Here it is remembered, and on another machine recorded.
      for (const isElsewhere of [false, true]) {
        if (isElsewhere) yield* trees.remove(key.sandboxId)
        yield* trees.restore(key.sandboxId, Stream.make(bytes), sources)
        assert.deepInclude(
          yield* trees.branches(key, {
            remote: source.remote,
            headRef: "slipway/x",
            pushed: isElsewhere ? second : first,
            branches: [],
            author
          }),
          { head: second }
        )
      }
      const third = yield* publish("slipway/x", { pushed: second })
      assert.deepStrictEqual(yield* source.history("slipway/x"), [third, second, first, base.baseSha])
      assert.deepStrictEqual(yield* source.files(third), { v: "1" })
      assert.strictEqual(yield* publish("slipway/x", { pushed: third }), third)
    }))

  it.effect("needs the repository no more where the machine has the commit that the tree started from", () =>
    Effect.gen(function*() {
      const { at, base, key, move, read, save, source, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "1")
      // Another history takes its place.
      yield* source.setBranch("main", yield* source.commit("other", { other: "x" }))
      yield* move()
      assert.strictEqual(yield* read("v"), "1")
      assert.strictEqual((yield* trees.compare(key, "v", 10)).base?.ref, base.baseSha)
      const { bytes } = yield* save()
      const gone = [{ repo: app, remote: { ...source.remote, url: `${source.remote.url}-gone` } }]
      const failed = yield* Effect.flip(trees.restore(key.sandboxId, Stream.make(bytes), gone))
      assert.strictEqual(failed._tag, "CloneFailed")
      // Nothing has changed.
      assert.strictEqual(yield* read("v"), "1")
    }))
}

const damagedCheckpoints = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("what was cut, changed or never saved restores nothing, and leaves what is there", () =>
    Effect.gen(function*() {
      const { at, key, read, save, sources, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "saved")
      const { bytes } = yield* save()
      yield* agent.write(at("v"), "later")
      const flipped = (position: number) => bytes.map((byte, i) => i === position ? byte ^ 1 << position % 8 : byte)
      const positions = Array.from({ length: 24 }, (_, i) => Math.floor(i * bytes.length / 24))
      const damaged = [
        new Uint8Array(0),
        new TextEncoder().encode(noise(500)),
        Uint8Array.from([...bytes, 0]),
        bytes.subarray(0, -1),
        ...positions.map((position) => bytes.subarray(0, position)),
        ...[...positions, bytes.length - 1].map(flipped)
      ]
      const other = freshId()
      for (const [i, content] of damaged.entries()) {
        for (const id of [key.sandboxId, other]) {
          assert.strictEqual(yield* refusal(trees.restore(id, Stream.make(content), sources)), "CheckpointDamaged", `${i}`)
        }
      }
      assert.strictEqual(yield* read("v"), "later")
      assert.isFalse(yield* trees.has(other))
      // In pieces it is whole.
      const pieces = Stream.fromIterable(Array.from(bytes, (byte) => Uint8Array.of(byte)))
      yield* trees.restore(key.sandboxId, pieces, sources)
      assert.strictEqual(yield* read("v"), "saved")
    }), { timeout: 300_000 })

  it.effect("there are no trees while they are restored, and what breaks off leaves those that were there", () =>
    Effect.gen(function*() {
      const { at, key, read, save, sources, trees } = yield* prepared({ v: "0" })
      yield* agent.write(at("v"), "saved")
      const { bytes } = yield* save()
      yield* agent.write(at("v"), "later")
      const other = freshId()
      for (const id of [key.sandboxId, other]) {
        const content = Stream.concat(
          Stream.make(bytes.subarray(0, 100)),
          Stream.fromEffect(Effect.flatMap(trees.has(id), (has) => Effect.fail({ _tag: "Broken" as const, has })))
        )
        assert.deepStrictEqual(yield* Effect.flip(trees.restore(id, content, sources)), { _tag: "Broken", has: false })
        yield* trees.restore(id, Stream.concat(Stream.make(bytes.subarray(0, 100)), Stream.never), sources).pipe(
          Effect.timeoutOption("50 millis")
        )
      }
      assert.deepStrictEqual([yield* trees.has(key.sandboxId), yield* trees.has(other)], [true, false])
      assert.strictEqual(yield* read("v"), "later")
    }))

  it.effect("saves no more than it may", () =>
    Effect.gen(function*() {
      const { at, save } = yield* prepared({ v: "0" })
      yield* agent.write(at("large"), noise(100_000))
      const failed = yield* Effect.flip(save(10_000))
      assert.deepInclude(failed, { _tag: "CannotSave", retryable: false })
      assert.isBelow((yield* save(1_000_000)).bytes.length, 1_000_000)
    }))
}

const comparisons = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("tells what differs between where it started, what was saved, and the tree as it is", () =>
    Effect.gen(function*() {
      const { at, base, key, save, trees } = yield* prepared({
        ".gitignore": "ignored\n",
        "gone": "gone\n",
        "text": lines(20),
        "image": new Uint8Array([0, 1]),
        "tool": "#!\n"
      })
      assert.strictEqual(yield* patchOf(trees, key, "base", "working"), "")
      yield* agent.write(at("text"), lines(20).replace("line 9\n", "changed\n"))
      yield* agent.write(at("new"), "no end")
      yield* agent.write(at("ignored"), "x")
      const { sha } = yield* save()
      const changed = [
        "diff --git a/text b/text\n--- a/text\n+++ b/text\n@@ -7,7 +7,7 @@ line 5\n",
        " line 6\n line 7\n line 8\n-line 9\n+changed\n line 10\n line 11\n line 12\n"
      ].join("")
      const added =
        "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n"
      // Context that git adds to hunk headers is not compared.
      const plain = (patch: string) => patch.replaceAll(/^(@@ .* @@).*$/gmu, "$1")
      for (const [from, to] of [["base", "working"], ["base", sha], [base.baseSha, sha.toUpperCase().toLowerCase()]] as const) {
        assert.strictEqual(plain(yield* patchOf(trees, key, from, to)), plain(added + changed))
      }
      assert.strictEqual(yield* patchOf(trees, key, sha, "working"), "")
      assert.strictEqual(yield* patchOf(trees, key, "base", "working", "new"), added)
      assert.strictEqual(yield* patchOf(trees, key, "base", "working", "ne*"), "")
      yield* agent.remove(at("gone"))
      yield* agent.makeExecutable(at("tool"))
      yield* agent.write(at("image"), new Uint8Array([0, 2, 3]))
      const later = [
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
        "diff --git a/image b/image\nBinary files a/image and b/image differ\n",
        "diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n"
      ].join("")
      assert.strictEqual(yield* patchOf(trees, key, sha, "working"), later)
      const whole = yield* trees.diff(key, { from: sha, to: "working", maximumBytes: 1e6, isWhole: true })
      // Both ways: forwards and back.
      assert.match(new TextDecoder().decode(whole), /\nGIT binary patch\nliteral 3\n[A-Za-z]\S+\n\nliteral \d+\n[A-Za-z]\S+\n\n/u)
    }))

  it.effect("tells of a path the file, or what is below the folder, and nothing whose name begins so", () =>
    Effect.gen(function*() {
      const { at, key, trees } = yield* prepared({ "src/a": "0\n", "src/b/c": "0\n", "src-2/a": "0\n", src2: "0\n" })
      for (const path of ["src/a", "src/b/c", "src-2/a", "src2"]) yield* agent.write(at(path), "1\n")
      const told = (path: string) =>
        Effect.map(
          patchOf(trees, key, "base", "working", path),
          (patch) => Array.from(patch.matchAll(/^\+\+\+ b\/(.*)$/gmu), ([, name]) => name)
        )
      assert.deepStrictEqual(yield* told("src"), ["src/a", "src/b/c"])
      assert.deepStrictEqual(yield* told("src/b"), ["src/b/c"])
      assert.deepStrictEqual(yield* told("src2"), ["src2"])
    }))

  it.effect("names protected files that differ, and shows nothing of them under any name", () =>
    Effect.gen(function*() {
      const { at, key, list, save, trees } = yield* prepared({
        ".env": `SECRET=1\n${lines(20, "secret")}`,
        "v": "0\n",
        "dir/.npmrc": "token\n"
      })
      yield* agent.rename(at(".env"), at("dir/.env.local"))
      yield* agent.write(at("dir/.npmrc"), "token 2\n")
      yield* agent.write(at("v"), "1\n")
      const expected = [
        "diff --git a/v b/v\n--- a/v\n+++ b/v\n@@ -1 +1 @@\n-0\n+1\n",
        "# Protected file deleted: .env\n",
        "# Protected file added: dir/.env.local\n",
        "# Protected file modified: dir/.npmrc\n"
      ]
      assert.strictEqual(yield* patchOf(trees, key, "base", "working"), expected.join(""))
      const { sha } = yield* save()
      assert.strictEqual(yield* patchOf(trees, key, "base", sha), expected.join(""))
      assert.strictEqual(yield* patchOf(trees, key, "base", sha, "dir/.npmrc"), expected[3])
      assert.strictEqual((yield* list()).length, 2)
    }))
}

const comparisonsAfterRestore = <R>(it: Writer<WorkingTrees | R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("tells the same after it was restored, and knows no commit that is not here", () =>
    Effect.gen(function*() {
      const { at, key, move, save, sources, trees } = yield* prepared({ v: "0\n" })
      yield* agent.write(at("v"), "1\n")
      const first = yield* save()
      yield* agent.write(at("v"), "2\n")
      const between = yield* patchOf(trees, key, first.sha, "working")
      const base = yield* patchOf(trees, key, "base", "working")
      const second = yield* move()
      assert.strictEqual(yield* patchOf(trees, key, "base", second), base)
      assert.strictEqual(yield* patchOf(trees, key, second, "working"), "")
      const diff = (from: string, maximumBytes = 1e6) => trees.diff(key, { from, to: "working", maximumBytes })
      for (const from of [first.sha, "HEAD", "main", "--output=/tmp/x", "0123456789abcdef0123456789abcdef01234567"]) {
        assert.strictEqual(yield* refusal(diff(from)), "UnknownCommit", from)
      }
      yield* trees.restore(key.sandboxId, Stream.make(first.bytes), sources)
      yield* agent.write(at("v"), "2\n")
      assert.strictEqual(yield* patchOf(trees, key, first.sha, "working"), between)
      const { length } = yield* diff("base")
      assert.strictEqual((yield* diff("base", length)).length, length)
      assert.strictEqual(yield* refusal(diff("base", length - 1)), "FileTooLarge")
      assert.strictEqual(
        yield* refusal(trees.diff({ ...key, sandboxId: freshId() }, { from: "base", to: "working", maximumBytes: 1 })),
        "FileNotFound"
      )
    }))

  it.effect("compares with what was saved earlier once it has learned it, and leaves the trees as they are", () =>
    Effect.gen(function*() {
      const { at, key, move, save, told, trees } = yield* prepared({ ".env": "SECRET=1\n", "v": "0\n", "same": "same\n" })
      yield* agent.write(at("v"), "1\n")
      yield* agent.write(at(".env"), "SECRET=2\n")
      yield* agent.write(at("gone"), "gone\n")
      const first = yield* save()
      yield* agent.write(at("v"), "2\n")
      const second = yield* save()
      yield* agent.write(at("v"), "3\n")
      yield* agent.write(at(".env"), "SECRET=3\n")
      yield* agent.remove(at("gone"))
      const pairs = [["base", first.sha], [first.sha, second.sha], [first.sha, "working"], [second.sha, first.sha]] as const
      const patches = Effect.forEach(pairs, ([from, to]) => patchOf(trees, key, from, to))
      const before = yield* patches
      assert.include(before[2], "-1\n+3\n")
      assert.notInclude(before.join(""), "SECRET")
      yield* move()
      const unknown = yield* Effect.flip(trees.diff(key, { from: first.sha, to: second.sha, maximumBytes: 1e6 }))
      assert.deepInclude(unknown, { _tag: "UnknownCommit", commits: [first.sha, second.sha] })
      const was = yield* told()
      for (const { bytes } of [first, second, first]) yield* trees.learn(key.sandboxId, Stream.make(bytes))
      assert.deepStrictEqual(yield* patches, before)
      assert.deepStrictEqual(yield* told(), was)
      // One side alone.
      const half = yield* Effect.flip(trees.diff(key, { from: first.sha, to: "0".repeat(40), maximumBytes: 1e6 }))
      assert.deepInclude(half, { _tag: "UnknownCommit", commits: ["0".repeat(40)] })
    }))
}

const damagedHistory = <R>(it: Writer<WorkingTrees | R>, fixture: Fixture<R>, { agent, prepared }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("learns nothing of what was cut, changed or is of other trees, and forgets with the trees", () =>
    Effect.gen(function*() {
      const { at, key, save, source, sources, trees } = yield* prepared({ v: "0\n" })
      yield* agent.write(at("v"), "1\n")
      const { bytes, sha } = yield* save()
      yield* agent.write(at("v"), "2\n")
      const second = yield* save()
      const restored = Effect.andThen(trees.remove(key.sandboxId), trees.restore(key.sandboxId, Stream.make(second.bytes), sources))
      yield* restored
      const other = yield* prepared({ v: "another\n" })
      yield* agent.write(other.at("v"), "1\n")
      const foreign = yield* other.save()
      // A commit of the same repository.
      yield* source.commit("main", { later: "x\n" })
      const { at: atLater, key: { sandboxId } } = yield* treeOf(fixture, source)
      yield* agent.write(atLater("v"), "1\n")
      const later = Buffer.concat(
        yield* Effect.scoped(Effect.flatMap(trees.save(sandboxId, [{ repo: app }]), ({ content }) => Stream.runCollect(content)))
      )
      const learn = (content: Uint8Array, id = key.sandboxId) => refusal(trees.learn(id, Stream.make(content)))
      const middle = bytes.map((byte, i) => i === bytes.length >> 1 ? byte ^ 1 : byte)
      for (const damaged of [new Uint8Array(0), bytes.subarray(0, -1), middle, foreign.bytes, later]) {
        assert.strictEqual(yield* learn(damaged), "CheckpointDamaged")
      }
      assert.strictEqual(yield* learn(bytes, freshId()), "FileNotFound")
      const broken = Stream.concat(Stream.make(bytes.subarray(0, 100)), Stream.fail({ _tag: "Broken" as const }))
      assert.strictEqual(yield* refusal(trees.learn(key.sandboxId, broken)), "Broken")
      const diff = Effect.map(Effect.result(patchOf(trees, key, sha, "working")), ({ _tag }) => _tag)
      assert.strictEqual(yield* diff, "Failure")
      assert.strictEqual(yield* learn(bytes), "nothing")
      assert.strictEqual(yield* diff, "Success")
      yield* restored
      assert.strictEqual(yield* diff, "Failure")
    }), { timeout: 300_000 })
}

export const suite = <R>(name: string, layer: Layer.Layer<WorkingTrees | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`WorkingTrees saved and restored (${name})`, layer, (it) => {
    const helpers = helpersOf(fixture)
    roundTrips(it, helpers)
    savedCommits(it, fixture, helpers)
    publishingAfterRestore(it, helpers)
    damagedCheckpoints(it, helpers)
    comparisons(it, helpers)
    comparisonsAfterRestore(it, helpers)
    damagedHistory(it, fixture, helpers)
  })
