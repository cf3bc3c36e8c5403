/** Trees that come with less than all of the history, over HTTP as source hosts speak it. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Context, Effect, Layer } from "effect"
import { randomBytes } from "node:crypto"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { serve } from "../testing/GitHttpServer.ts"
import { agent, gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const author = { name: "Slipway", email: "slipway@example.com" }
const idOf = (i: number) => SandboxId.make(`c_${ID_ALPHABET.charAt(i).repeat(12)}`)

/** A repository with seven commits on `main`, and workers that make trees of it, each in a sandbox of its own. */
const setUp = Effect.gen(function*() {
  const origin = yield* source({
    v: "0\n",
    ...Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`src/${i}`, `${i}\n`.repeat(20)]))
  })
  const shas = [(yield* origin.tip("main")) ?? ""]
  for (let i = 1; i < 7; i++) shas.push(yield* origin.commit("main", { v: `${i}\n` }))
  const server = yield* serve(dirname(origin.path))
  const directory = yield* temporaryFolder
  let made = 0
  const worker = (depth: number | null) =>
    Effect.gen(function*() {
      const trees = Context.get(yield* Layer.build(Trees.layer({ directory, depth })), WorkingTrees)
      const boot = Effect.fnUntraced(function*(ref?: string, url = `${server.url}/origin.git`) {
        const remote = { url, authorization: null }
        const key = { sandboxId: idOf(made++), repo: app }
        const { baseSha } = yield* trees.prepare(key, { remote, ref, defaultBranch: "main", repos: [app] })
        const tree = join(workspacesIn(directory)(key.sandboxId), "app")
        const heads = new Map<string, string>()
        const publish = Effect.fnUntraced(function*(headRef: string) {
          const expected = heads.get(headRef) ?? null
          const { sha } = yield* trees.snapshot(key, { message: "x", author, since: { head: expected, merges: [], remote } })
          yield* trees.push(key, { sha, headRef, remote, expected })
          heads.set(headRef, sha)
          return sha
        })
        return { key, tree, baseSha, publish, log: () => gitIn(tree, "log", "--format=%H").split("\n") }
      })
      return { trees, boot }
    })
  return { origin, shas, newestFirst: shas.toReversed(), server, directory, worker }
})

describe("a shallow clone", () => {
  it.live("has as much history as it is told, and git and we work in it as in any other", () =>
    Effect.gen(function*() {
      const { newestFirst, origin, worker } = yield* setUp
      const { boot, trees } = yield* worker(3)
      const { key, log, publish, tree } = yield* boot()
      assert.deepStrictEqual(log(), newestFirst.slice(0, 3))
      assert.strictEqual(gitIn(tree, "rev-parse", "--is-shallow-repository"), "true")
      assert.strictEqual(gitIn(tree, "status", "--porcelain", "--branch"), "## main")
      gitIn(tree, "fsck")
      gitIn(tree, "blame", "v")
      yield* agent.write(join(tree, "v"), "mine\n")
      gitIn(tree, "commit", "--quiet", "--all", "--message", "mine")
      gitIn(tree, "gc", "--quiet", "--prune=now")
      assert.deepStrictEqual(log().slice(1), newestFirst.slice(0, 3))

      const { entries } = yield* trees.list(key, "")
      assert.deepStrictEqual(entries.map(({ name, status }) => [name, status]), [["src", null], ["v", "modified"]])
      assert.strictEqual((yield* trees.compare(key, "v", 100)).base?.content, "6\n")
      const first = yield* publish("slipway/x")
      assert.deepStrictEqual(gitIn(origin.path, "log", "--format=%H", "slipway/x").split("\n"), [first, ...newestFirst])
      // The branch it came from moves on; what was pushed stays.
      yield* origin.commit("main", { other: "1\n" })
      yield* agent.write(join(tree, "w"), "mine\n")
      const second = yield* publish("slipway/x")
      const other = yield* publish("slipway/y")
      assert.strictEqual(gitIn(origin.path, "rev-parse", `${second}^{tree}`), gitIn(origin.path, "rev-parse", `${other}^{tree}`))
      assert.deepStrictEqual(gitIn(origin.path, "log", "--format=%H", "slipway/x").split("\n"), [second, first, ...newestFirst])
      assert.deepStrictEqual(gitIn(origin.path, "log", "--format=%H", "slipway/y").split("\n"), [other, ...newestFirst])
      gitIn(origin.path, "fsck")
    }))

  it.live("starts from any commit, tag or branch, and what is fetched for one changes no other", () =>
    Effect.gen(function*() {
      const { newestFirst, origin, shas, worker } = yield* setUp
      const { boot } = yield* worker(2)
      yield* origin.tag("v1", shas[3] ?? "")
      const old = yield* boot(shas[1])
      const tagged = yield* boot("v1")
      const latest = yield* boot()
      const first = yield* boot(shas[0])
      const again = yield* boot(shas[1])
      const next = yield* origin.commit("main", { v: "7\n" })
      const moved = yield* boot()
      for (
        const [of, expected] of [
          [old, [shas[1], shas[0]]],
          [tagged, [shas[3], shas[2]]],
          [latest, newestFirst.slice(0, 2)],
          [first, [shas[0]]],
          [again, [shas[1], shas[0]]],
          [moved, [next, newestFirst[0]]]
        ] as const
      ) {
        assert.deepStrictEqual(of.log(), expected)
        gitIn(of.tree, "fsck")
      }
      assert.strictEqual(gitIn(first.tree, "rev-parse", "--is-shallow-repository"), "false")
    }))

  it.live("many of one repository are fetched at once, and again only in part", () =>
    Effect.gen(function*() {
      const { directory, newestFirst, origin, shas, worker } = yield* setUp
      const { boot } = yield* worker(2)
      for (const i of [0, 1, 2]) yield* origin.commit(`side/${i}`, { v: `side ${i}\n` })
      const booted = yield* Effect.forEach(["main", "side/0", "side/1", "side/2", shas[2] ?? ""], (ref) => boot(ref), {
        concurrency: "unbounded"
      })
      for (const { baseSha, log } of booted) assert.deepStrictEqual([log()[0], log().length], [baseSha, 2])
      assert.deepStrictEqual(booted[1]?.log()[1], newestFirst[0])
      const mirrors = readdirSync(join(directory, "mirrors")).filter((name) => name.endsWith(".git"))
      assert.strictEqual(mirrors.length, 1)
      const packs = join(directory, "mirrors", mirrors[0] ?? "", "objects", "pack")
      const sizes = readdirSync(packs).filter((name) => name.endsWith(".pack")).map((name) => statSync(join(packs, name)).size).sort((
        a,
        b
      ) => b - a)
      assert.strictEqual(sizes.length, 5)
      assert.isTrue(sizes.slice(1).every((size) => size < (sizes[0] ?? 0) / 5), JSON.stringify(sizes))
      assert.deepStrictEqual(readdirSync(join(directory, "mirrors", "incoming")), [])
    }))

  it.live("the depth may be changed at any time: new trees have the new one, those that are there keep theirs", () =>
    Effect.gen(function*() {
      const { newestFirst, origin, worker } = yield* setUp
      const depths = [2, null, 4, 2]
      const booted = yield* Effect.forEach(depths, (depth) => Effect.scoped(Effect.flatMap(worker(depth), ({ boot }) => boot())))
      for (const [i, { log, tree }] of booted.entries()) {
        assert.deepStrictEqual(log(), newestFirst.slice(0, depths[i] ?? undefined))
        gitIn(tree, "fsck")
      }
      const { trees } = yield* worker(null)
      for (const [i, { key, tree }] of booted.entries()) {
        yield* agent.write(join(tree, "v"), `of ${i}\n`)
        const { sha } = yield* trees.snapshot(key, { message: "x", author })
        yield* trees.push(key, { sha, headRef: `slipway/${i}`, remote: origin.remote })
        assert.strictEqual(gitIn(origin.path, "rev-list", "--count", sha), "8")
      }
    }))
})

it.live.each([{ depth: null }, { depth: 2 }])(
  "a push from depth $depth sends only what is new, also when its branch has moved on",
  ({ depth }) =>
    Effect.gen(function*() {
      const { origin, server, worker } = yield* setUp
      const sha = yield* origin.commit("main", { large: randomBytes(300_000) })
      yield* origin.tag("v1", sha)
      const { boot } = yield* worker(depth)
      const booted = yield* Effect.forEach(["main", "v1", sha], (ref) => boot(ref))
      yield* origin.commit("main", { large: "gone" })
      gitIn(origin.path, "tag", "--delete", "v1")
      server.seen.length = 0
      for (const [i, { publish, tree }] of booted.entries()) {
        for (const change of ["once", "again"]) {
          yield* agent.write(join(tree, "new"), `${i} ${change}\n`)
          const pushed = yield* publish(`slipway/${i}`)
          assert.deepStrictEqual(gitIn(origin.path, "diff", "--name-status", sha, pushed), "A\tnew")
        }
      }
      const sent = server.seen.filter(({ url }) => url.endsWith("/git-receive-pack")).map(({ body }) => body.length)
      assert.isAtLeast(sent.length, 6)
      assert.isTrue(sent.every((bytes) => bytes < 5_000), JSON.stringify(sent))
    })
)

it.live.each([{ depth: null }, { depth: 2 }])(
  "a push from depth $depth arrives also where the remote is too old to agree on anything",
  ({ depth }) =>
    Effect.gen(function*() {
      const { newestFirst, origin, worker } = yield* setUp
      const old = yield* serve(dirname(origin.path), (request) => {
        delete request.headers["git-protocol"]
        return false
      })
      const { boot } = yield* worker(depth)
      const { publish, tree } = yield* boot("main", `${old.url}/origin.git`)
      yield* origin.commit("main", { v: "gone on\n" })
      yield* agent.write(join(tree, "new"), "new\n")
      const sha = yield* publish("slipway/x")
      assert.deepStrictEqual(gitIn(origin.path, "log", "--format=%H", "slipway/x").split("\n"), [sha, ...newestFirst])
    })
)

it.live("a full clone has all of the history, and fetches again only what is new", () =>
  Effect.gen(function*() {
    const { newestFirst, origin, server, worker } = yield* setUp
    const { boot } = yield* worker(null)
    assert.deepStrictEqual((yield* boot()).log(), newestFirst)
    const next = yield* origin.commit("main", { v: "7\n" })
    server.seen.length = 0
    assert.deepStrictEqual((yield* boot()).log(), [next, ...newestFirst])
    const asked = server.seen.map(({ body }) => body.toString()).find((body) => body.includes("command=fetch")) ?? ""
    assert.include(asked, `have ${newestFirst[0]}`)
    // A clone that has it asks only for the commit of the branch.
    server.seen.length = 0
    yield* boot()
    assert.isTrue(server.seen.every(({ body, method }) => method === "GET" || body.includes("command=ls-refs")))
  }))

it.live("what is known of a commit is written when all of it is there", () =>
  Effect.gen(function*() {
    const { directory, newestFirst, worker } = yield* setUp
    const { boot } = yield* worker(2)
    yield* boot()
    const mirrors = join(directory, "mirrors")
    const mirror = join(mirrors, readdirSync(mirrors).find((name) => name.endsWith("-depth-2.git")) ?? "")
    assert.deepStrictEqual(JSON.parse(readFileSync(join(mirror, "commits", newestFirst[0] ?? ""), "utf8")), {
      commit: newestFirst[0],
      files: 201,
      bytes: 10 * 40 + 90 * 60 + 100 * 80 + 2,
      shallow: [newestFirst[1]]
    })
  }))
