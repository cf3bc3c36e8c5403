/** Rules of Git LFS (docs/decisions/20), with real git, a real disk and a server that speaks the batch API. Each kind of box runs them. */
import { type SnapshotOptions, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { app, author, freshId } from "@slipway/testing/contracts/files/TreeFixtures"
import { assert } from "@slipway/testing/suite/Assert"
import { defineLive, type Writer } from "@slipway/testing/suite/Suite"
import { Effect, type Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import type { Options } from "../src/working-trees/WorkingTreesGit.ts"
import * as LfsServer from "./LfsServer.ts"
import { agent, gitIn, source } from "./Repositories.ts"
import { historyOf } from "./RepositorySuite.ts"

/** Where the trees of a sandbox are, for the agent's hands. */
export type Workspace<R> = (sandboxId: ReturnType<typeof freshId>) => Effect.Effect<string, never, R>

export const ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"

/** A repository at a server of LFS that has these contents; `.bin` files are LFS's. */
export const hosted = Effect.fnUntraced(function*(
  files: Readonly<Record<string, string>>,
  contents: ReadonlyArray<string | Buffer>,
  options: LfsServer.Options = {}
) {
  const origin = yield* source({ ".gitattributes": ATTRIBUTES, ...files })
  const server = yield* LfsServer.serve(origin.path, options)
  for (const content of contents) server.add(content)
  return { origin, server }
})

type Hosted = Effect.Success<ReturnType<typeof hosted>>

/** A prepared tree of it. */
export const prepared = Effect.fnUntraced(function*<R>(workspace: Workspace<R>, { server }: Pick<Hosted, "server">) {
  const trees = yield* WorkingTrees
  const key = { sandboxId: freshId(), repo: app }
  const from = { remote: server.remote, ref: undefined, defaultBranch: "main", repos: [app] }
  const base = yield* Effect.acquireRelease(trees.prepare(key, from), () => Effect.orDie(trees.remove(key.sandboxId)))
  const root = `${yield* workspace(key.sandboxId)}/app`
  const at = (name: string) => `${root}/${name}`
  const changed = Effect.map(trees.changes(key), ({ files, partialWarnings }) => {
    assert.deepStrictEqual(partialWarnings, [])
    return files.map(({ path, status }) => `${status} ${path}`)
  })
  const snapshot = (options: Partial<SnapshotOptions> = {}) =>
    trees.snapshot(key, { message: "Title", author, since: { head: null, merges: [], remote: server.remote }, ...options })
  const publish = Effect.fnUntraced(function*(options: Partial<SnapshotOptions> = {}) {
    const made = yield* snapshot(options)
    yield* trees.push(key, { sha: made.sha, headRef: `slipway/${made.sha}`, remote: server.remote })
    return made
  })
  const patch = Effect.map(
    trees.diff(key, { from: "base", to: "working", maximumBytes: 100_000 }),
    (bytes) => Buffer.from(bytes).toString()
  )
  return { trees, key, from, base, at, changed, snapshot, publish, patch }
})

const ONE = "content one\n".repeat(1_000)
const TWO = Buffer.from([0, 1, 2, 3, 255])

const reading = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("files have their contents, and count as unchanged for us and for the agent's own git", () =>
    Effect.gen(function*() {
      const files = { "a.bin": LfsServer.pointerOf(ONE), "deep/b.bin": LfsServer.pointerOf(TWO), "c.bin": LfsServer.pointerOf(ONE), v: "0" }
      const { origin, server } = yield* hosted(files, [ONE, TWO])
      gitIn(origin.path, "update-ref", "refs/heads/x", "main")
      const { at, base, changed, key, patch, snapshot, trees } = yield* prepared(workspace, { server })
      assert.deepStrictEqual(base, { baseSha: (yield* origin.tip("main")) ?? "", baseRef: "main" })
      assert.deepStrictEqual([readFileSync(at("a.bin"), "utf8"), readFileSync(at("deep/b.bin"))], [ONE, TWO])
      assert.deepStrictEqual(server.asked.map(({ objects }) => objects.length), [2])
      assert.strictEqual(gitIn(at("."), "status", "--porcelain"), "")
      for (let look = 0; look < 2; look++) {
        assert.deepStrictEqual(yield* changed, [])
        assert.strictEqual(yield* patch, "")
      }
      const { entries } = yield* trees.list(key, "")
      assert.isTrue(entries.every(({ status }) => status === null))
      assert.strictEqual((yield* Effect.flip(snapshot()))._tag, "NoChanges")
      const { base: before, working } = yield* trees.compare(key, "a.bin", 1e6)
      assert.deepStrictEqual([before?.hash, before?.content], [working?.hash, ONE])
      writeFileSync(at("a.bin"), "changed")
      const changing = yield* trees.compare(key, "a.bin", 1e6)
      assert.deepStrictEqual([changing.base?.content, changing.working?.content], [ONE, "changed"])
      assert.strictEqual((yield* Effect.flip(trees.compare(key, "a.bin", 100)))._tag, "FileTooLarge")
      writeFileSync(at("a.bin"), ONE)
      // Others are shown as before.
      yield* agent.write(at("v"), "1")
      assert.deepStrictEqual(yield* changed, ["modified v"])
      assert.match(yield* patch, /^diff --git a\/v b\/v\n[^]*-0\n[^]*\+1\n/u)
      assert.notInclude(yield* patch, ".bin")
    }))

  it.effect("a content is fetched once for all trees of the repository, and no other one is asked for", () =>
    Effect.gen(function*() {
      const { server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), plain: LfsServer.pointerOf(TWO) }, [ONE, TWO])
      yield* prepared(workspace, { server })
      const { at, base } = yield* prepared(workspace, { server })
      assert.strictEqual(readFileSync(at("a.bin"), "utf8"), ONE)
      assert.isUndefined(base.lfsPointers)
      assert.deepStrictEqual(server.asked.map(({ objects, operation }) => [operation, objects.map(({ oid }) => oid)]), [
        ["download", [LfsServer.oidOf(ONE)]]
      ])
      // Written by the agent, it is not that of others.
      writeFileSync(at("a.bin"), "mine")
      const other = yield* prepared(workspace, { server })
      assert.strictEqual(readFileSync(other.at("a.bin"), "utf8"), ONE)
    }))

  it.effect("a mode is kept, and changed and deleted files are shown with their pointers in patches", () =>
    Effect.gen(function*() {
      const { origin, server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), "b.bin": LfsServer.pointerOf(TWO) }, [ONE, TWO])
      const index = gitIn(origin.path, "rev-parse", "main:a.bin")
      const tree = execFileSync("git", ["-C", origin.path, "mktree"], {
        input: gitIn(origin.path, "ls-tree", "main").replace(`100644 blob ${index}\ta.bin`, `100755 blob ${index}\ta.bin`) + "\n",
        encoding: "utf8"
      }).trim()
      yield* origin.setBranch("main", gitIn(origin.path, "commit-tree", "-p", "main", "-m", "mode", tree))
      const { at, changed, patch } = yield* prepared(workspace, { server })
      assert.strictEqual(statSync(at("a.bin")).mode & 0o111, 0o111)
      assert.deepStrictEqual(yield* changed, [])
      rmSync(at("b.bin"))
      writeFileSync(at("a.bin"), "changed")
      writeFileSync(at("new.bin"), "new")
      assert.deepStrictEqual(yield* changed, ["modified a.bin", "deleted b.bin", "untracked new.bin"])
      const said = yield* patch
      assert.include(said, `-oid sha256:${LfsServer.oidOf(ONE)}\n-size 12000\n+oid sha256:${LfsServer.oidOf("changed")}\n+size 7\n`)
      assert.include(said, `-oid sha256:${LfsServer.oidOf(TWO)}`)
      assert.include(said, `+oid sha256:${LfsServer.oidOf("new")}\n+size 3\n`)
    }))

  it.effect("what cannot be had stays a pointer, is named with its reason, and is unchanged", () =>
    Effect.gen(function*() {
      const files = { "a.bin": LfsServer.pointerOf(ONE), "gone.bin": LfsServer.pointerOf("gone") }
      const { server } = yield* hosted(files, [ONE])
      const { at, base, changed, from, key, trees } = yield* prepared(workspace, { server })
      assert.strictEqual(base.lfsPointers, 1)
      assert.deepStrictEqual(base.lfsMissing, [{ path: "gone.bin", reason: "The Git LFS server does not have it." }])
      assert.strictEqual(readFileSync(at("gone.bin"), "utf8"), files["gone.bin"])
      assert.strictEqual(readFileSync(at("a.bin"), "utf8"), ONE)
      assert.deepStrictEqual([yield* changed, gitIn(at("."), "status", "--porcelain")], [[], ""])
      assert.deepStrictEqual(yield* trees.prepare(key, from), base)

      server.failing.status = 503
      server.contents.set(LfsServer.oidOf("gone"), Buffer.from("gone"))
      const during = yield* prepared(workspace, { server })
      assert.deepStrictEqual(during.base.lfsMissing, [{ path: "gone.bin", reason: "The Git LFS server answers with status 503." }])
      assert.strictEqual(readFileSync(during.at("a.bin"), "utf8"), ONE)
      server.failing.status = null
      assert.isUndefined((yield* prepared(workspace, { server })).base.lfsPointers)
    }))

  it.effect("a saved tree has contents again: its own, and those of the repository", () =>
    Effect.gen(function*() {
      const { server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), "b.bin": LfsServer.pointerOf(TWO), v: "0" }, [ONE, TWO])
      const { at, changed, key, patch, trees } = yield* prepared(workspace, { server })
      writeFileSync(at("b.bin"), "changed")
      writeFileSync(at("new.bin"), "new content")
      gitIn(at("."), "add", "new.bin")
      gitIn(at("."), "commit", "--quiet", "--message", "new")
      const before = [yield* changed, yield* patch]
      const saved = yield* trees.save(key.sandboxId, [{ repo: app, history: historyOf(at(".")) }])
      const content = Buffer.concat(yield* Stream.runCollect(saved.content))
      for (const name of ["a.bin", "b.bin", "new.bin"]) rmSync(at(name))
      yield* trees.restore(key.sandboxId, Stream.make<ReadonlyArray<Uint8Array>>(content), [{ repo: app, remote: server.remote }])
      const names = ["a.bin", "b.bin", "new.bin"]
      assert.deepStrictEqual(names.map((name) => readFileSync(at(name), "utf8")), [ONE, "changed", "new content"])
      assert.deepStrictEqual([yield* changed, yield* patch], before)
      assert.strictEqual(gitIn(at("."), "status", "--porcelain"), "M b.bin")
      const again = yield* trees.save(key.sandboxId, [{ repo: app, history: historyOf(at(".")) }])
      assert.deepStrictEqual(again.repos, saved.repos)
      assert.isBelow(content.length, ONE.length)
    }).pipe(Effect.scoped))
}

const publishing = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("changed and new contents are uploaded before their pointers are pushed, and only those that the server lacks", () =>
    Effect.gen(function*() {
      const { origin, server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), "b.bin": LfsServer.pointerOf(TWO), v: "0" }, [ONE, TWO])
      const { at, key, publish, snapshot, trees } = yield* prepared(workspace, { server })
      writeFileSync(at("a.bin"), "changed")
      writeFileSync(at("new.bin"), "new")
      writeFileSync(at("copy.bin"), TWO)
      writeFileSync(at("empty.bin"), "")
      const first = yield* publish()
      assert.isUndefined(first.lfs)
      const files = yield* origin.files(first.sha)
      assert.deepStrictEqual(files, {
        ".gitattributes": ATTRIBUTES,
        "a.bin": LfsServer.pointerOf("changed"),
        "b.bin": LfsServer.pointerOf(TWO),
        "copy.bin": LfsServer.pointerOf(TWO),
        "empty.bin": "",
        "new.bin": LfsServer.pointerOf("new"),
        v: "0"
      })
      assert.strictEqual(server.contents.get(LfsServer.oidOf("changed"))?.toString(), "changed")
      assert.strictEqual(server.contents.get(LfsServer.oidOf("new"))?.toString(), "new")
      const { base, head, working } = yield* trees.compare(key, "a.bin", 1e6)
      assert.deepStrictEqual([base, head, working].map((version) => version?.content), [ONE, "changed", "changed"])
      const sent = () => server.seen.map(({ path }) => path).filter((path) => !path.startsWith("GET") && !path.endsWith("batch")).sort()
      const put = (content: string) => `PUT /objects/${LfsServer.oidOf(content)}`
      assert.deepStrictEqual(sent(), ["POST /verify", "POST /verify", put("changed"), put("new")].sort())
      assert.strictEqual((yield* snapshot()).sha, first.sha)
      assert.strictEqual(sent().length, 4)
    }))

  it.effect("the agent's commits that have pointers are kept, with the contents of all of them", () =>
    Effect.gen(function*() {
      const { origin, server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), v: "0" }, [ONE])
      const { at, publish } = yield* prepared(workspace, { server })
      const commit = (subject: string) => {
        gitIn(at("."), "add", "--all")
        gitIn(at("."), "commit", "--quiet", "--message", subject)
      }
      writeFileSync(at("new.bin"), "first")
      commit("one")
      assert.strictEqual(gitIn(at("."), "show", "HEAD:new.bin"), LfsServer.pointerOf("first").trimEnd())
      writeFileSync(at("new.bin"), "second")
      commit("two")
      assert.strictEqual(gitIn(at("."), "status", "--porcelain"), "")
      const { sha } = yield* publish({ history: historyOf(at(".")) })
      assert.strictEqual(sha, gitIn(at("."), "rev-parse", "HEAD"))
      for (const content of ["first", "second"]) assert.isTrue(server.contents.has(LfsServer.oidOf(content)), content)
      // Switching back gives the content back.
      gitIn(at("."), "checkout", "--quiet", "HEAD~1")
      assert.deepStrictEqual([readFileSync(at("new.bin"), "utf8"), readFileSync(at("a.bin"), "utf8")], ["first", ONE])

      // A commit whose content is nowhere is not kept.
      gitIn(at("."), "checkout", "--quiet", sha)
      writeFileSync(at("new.bin"), "third")
      commit("three")
      rmSync(at(".git/lfs/objects"), { recursive: true })
      writeFileSync(at("new.bin"), "fourth")
      const next = yield* publish({ history: historyOf(at(".")) })
      assert.deepStrictEqual((yield* origin.files(next.sha))["new.bin"], LfsServer.pointerOf("fourth"))
      assert.strictEqual(gitIn(origin.path, "rev-list", "--count", `main..${next.sha}`), "1")
      assert.isFalse(server.contents.has(LfsServer.oidOf("third")))
    }))

  it.effect("commits of the agent with a content in place of a pointer are replaced by one of ours with the pointer", () =>
    Effect.gen(function*() {
      const { origin, server } = yield* hosted({ v: "0" }, [])
      const { at, publish } = yield* prepared(workspace, { server })
      writeFileSync(at("new.bin"), "plain")
      gitIn(at("."), "-c", "filter.lfs.clean=cat", "add", "--all")
      gitIn(at("."), "commit", "--quiet", "--message", "plain")
      const { sha } = yield* publish({ history: historyOf(at(".")) })
      assert.notStrictEqual(sha, gitIn(at("."), "rev-parse", "HEAD"))
      assert.strictEqual((yield* origin.files(sha))["new.bin"], LfsServer.pointerOf("plain"))
      assert.strictEqual(server.contents.get(LfsServer.oidOf("plain"))?.toString(), "plain")
    }))

  it.effect("what the server refuses is left out with its reason, and an outage fails so that a retry helps", () =>
    Effect.gen(function*() {
      const refused = LfsServer.oidOf("too large")
      const { origin, server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), v: "0" }, [ONE], {
        actions: (operation, oid) =>
          operation === "upload" && oid === refused ? { actions: undefined, error: { code: 422, message: "over\u0007quota" } } : {}
      })
      const { at, publish, snapshot } = yield* prepared(workspace, { server })
      writeFileSync(at("v"), "1")
      writeFileSync(at("a.bin"), "too large")
      writeFileSync(at("ok.bin"), "ok")
      const first = yield* publish()
      assert.deepStrictEqual([first.lfs, first.lfsReason], [["a.bin"], "The Git LFS server refuses it: over⟨BEL⟩quota"])
      const files = yield* origin.files(first.sha)
      assert.deepStrictEqual([files["a.bin"], files["ok.bin"], files["v"]], [LfsServer.pointerOf(ONE), LfsServer.pointerOf("ok"), "1"])
      server.failing.status = 503
      const error = yield* Effect.flip(snapshot())
      if (error._tag !== "PushFailed") return assert.fail(error._tag)
      assert.deepStrictEqual([error.retryable, error.detail], [
        true,
        "Files could not be brought to Git LFS. The Git LFS server answers with status 503."
      ])
      server.failing.status = 404
      const without = yield* snapshot()
      assert.deepStrictEqual([without.lfs, without.lfsReason], [["a.bin", "ok.bin"], "The source host has no Git LFS for the repository."])
      assert.isTrue(existsSync(at("a.bin")))
    }))
}

/** The agent's own git in its box. */
const inBox = <R>(it: Writer<WorkingTrees | SandboxHost | R>, workspace: Workspace<R>) => {
  it.effect("the agent's git makes pointers of contents, gives contents back, and can change none that others share", () =>
    Effect.gen(function*() {
      const { server } = yield* hosted({ "a.bin": LfsServer.pointerOf(ONE), v: "0" }, [ONE])
      const { at, key, publish } = yield* prepared(workspace, { server })
      const box = yield* (yield* SandboxHost).visit({ sandboxId: key.sandboxId })
      const sh = Effect.fnUntraced(function*(script: string) {
        const process = yield* box.spawn({ command: "sh", args: ["-ec", `cd app\n${script}`], env: {} })
        yield* process.endInput
        const said = yield* Stream.mkString(Stream.decodeText(process.stdout))
        const { code } = yield* process.exited
        return code === 0 ? said : `${said}${code} ${yield* process.stderrTail}`
      }, Effect.scoped)
      assert.strictEqual(yield* sh("git status --porcelain"), "")
      assert.strictEqual(yield* sh("rm a.bin; git checkout --quiet a.bin; cat a.bin"), ONE)
      assert.strictEqual(yield* sh("echo mine > a.bin; git add a.bin; git show :a.bin"), LfsServer.pointerOf("mine\n"))
      const store = "$(cat .git/objects/info/alternates)/lfs/*/*"
      assert.include(
        yield* sh(`for file in ${store}; do test -f "$file"; echo evil 2> /dev/null > "$file" || echo refused; done`),
        "refused"
      )
      yield* sh(
        "git config user.name A; git config user.email a@b; git commit --quiet --message mine; cd ..; git -C app worktree add -q ../second"
      )
      assert.strictEqual(yield* sh("cat ../second/a.bin"), "mine\n")
      const { sha } = yield* publish({ history: historyOf(at(".")) })
      assert.strictEqual(`${sha}\n`, yield* sh("git rev-parse HEAD"))
      assert.strictEqual(server.contents.get(LfsServer.oidOf("mine\n"))?.toString(), "mine\n")
    }))
}

/** All rules. `hasBoxes`: boxes keep something in. */
export const suite = <R>(
  name: string,
  layerOf: (options: Pick<Options, "lfs">) => Layer.Layer<WorkingTrees | SandboxHost | R, unknown>,
  workspace: Workspace<R>,
  { hasBoxes = true } = {}
) => [
  defineLive(`Git LFS (${name})`, layerOf({}), (it) => {
    reading(it, workspace)
    publishing(it, workspace)
    if (hasBoxes) inBox(it, workspace)
  })
]
