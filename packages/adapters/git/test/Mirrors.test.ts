/** Mirrors in the long run: many fetches, killed processes, and unused repositories. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Context, Duration, Effect, Fiber, Layer, Scope } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, watch, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import * as Mirrors from "../src/mirror/Mirrors.ts"
import type { Limits, Options } from "../src/mirror/OpenMirrors.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const limits: Limits = { fetchTime: Duration.minutes(1), fetchBytes: 1e9, checkoutBytes: 1e9, checkoutFiles: 1e6 }
const PACKS = 60

/** A mirror of a repository, made by one fetch. */
const setUp = Effect.fnUntraced(function*(options: Partial<Options> = {}) {
  const origin = yield* source(Object.fromEntries(Array.from({ length: 3 * PACKS }, (_, i) => [`src/${i}`, `${i}\n`.repeat(2_000)])))
  const folder = yield* temporaryFolder
  const mirrors = yield* Mirrors.make({
    directory: join(folder, "mirrors"),
    depth: null,
    limits,
    keepUnused: null,
    borrowed: Effect.succeed(new Set()),
    ...options
  })
  const fetch = mirrors.fetch(app, origin.remote, undefined, "main")
  const { objects } = yield* Effect.scoped(fetch)
  return { origin, folder, mirrors, fetch, mirror: join(objects, ".."), packs: join(objects, "pack") }
})

const git = (gitDir: string, input: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["--git-dir", gitDir, ...args], { input, encoding: "utf8", maxBuffer: 2 ** 26 }).trim()
const allObjects = (gitDir: string) => git(gitDir, "", "cat-file", "--batch-all-objects", "--batch-check").split("\n").sort()
const indexes = (packs: string) => readdirSync(packs).filter((name) => name.endsWith(".idx"))

/** As many fetches leave it: small packs, objects in several of them, and some that only a tree borrows. */
const spread = (mirror: string, packs: string) => {
  const unreachable = Array.from({ length: 5 }, (_, i) => git(mirror, `unnamed ${i}\n`, "hash-object", "-w", "--stdin"))
  const ids = [...allObjects(mirror).map((entry) => entry.split(" ")[0] ?? ""), ...unreachable]
  for (let i = 0; i < PACKS; i++) {
    const some = ids.filter((_, at) => at % PACKS === i || at % PACKS === (i + 1) % PACKS)
    git(mirror, `${some.join("\n")}\n`, "pack-objects", "--quiet", join(packs, "pack"))
  }
  git(mirror, "", "prune-packed")
  assert.isAbove(indexes(packs).length, PACKS - 1)
  return allObjects(mirror)
}

/** A repository that borrows the mirror's objects, as those of trees do. */
const borrower = (folder: string, mirror: string) => {
  gitIn(folder, "init", "--quiet", "--bare", "borrower")
  const gitDir = join(folder, "borrower")
  writeFileSync(join(gitDir, "objects", "info", "alternates"), `${join(mirror, "objects")}\n`)
  return gitDir
}

/** A worker that has started, and has come to see that `marker` is to be removed. */
const worker = Effect.fnUntraced(function*(options: Trees.Options, marker: string) {
  mkdirSync(dirname(marker), { recursive: true })
  writeFileSync(marker, "")
  const trees = Context.get(yield* Layer.build(Trees.layer(options)), WorkingTrees)
  yield* Effect.promise(async () => {
    while (existsSync(marker)) await new Promise((resolve) => setImmediate(resolve))
  })
  return trees
})

describe("a mirror of many packs", () => {
  it.live("comes to have few, with every object, while borrowers go on reading", () =>
    Effect.gen(function*() {
      const { folder, mirror, mirrors, packs } = yield* setUp()
      const before = spread(mirror, packs)
      const gitDir = borrower(folder, mirror)
      const ids = before.map((entry) => entry.split(" ")[0] ?? "")

      // A reader that looked at the old packs, and a reader that begins anew for each object.
      const reader = spawn("git", ["--git-dir", gitDir, "cat-file", "--batch-check"], { stdio: ["pipe", "pipe", "inherit"] })
      const answers = createInterface(reader.stdout)[Symbol.asyncIterator]()
      const read = async (id: string) => {
        reader.stdin.write(`${id}\n`)
        return (await answers.next()).value
      }
      assert.strictEqual(yield* Effect.promise(() => read(ids[0] ?? "")), before[0])
      let [reads, isDone] = [0, false]
      const reading = Effect.promise(async () => {
        for (let i = 0; !isDone || i < ids.length; i++) {
          assert.strictEqual(await read(ids[i % ids.length] ?? ""), before[i % ids.length])
          if (i % 20 === 0) execFileSync("git", ["--git-dir", gitDir, "cat-file", "-p", ids[i % ids.length] ?? ""])
          reads++
        }
      })
      yield* Effect.all([reading, Effect.ensuring(mirrors.maintain, Effect.sync(() => isDone = true))], { concurrency: 2 })
      assert.isAbove(reads, ids.length - 1)
      const closed = once(reader, "close")
      reader.stdin.end()
      yield* Effect.promise(() => closed)

      assert.isBelow(indexes(packs).length, 10)
      assert.deepStrictEqual(allObjects(gitDir), before)
      gitIn(mirror, "fsck")
    }))

  it.live.each([
    { when: "the new pack is begun", is: (name: string) => /^\.?tmp/u.test(name) },
    {
      when: "the new pack is there",
      is: (name: string, old: ReadonlySet<string>) => name.endsWith(".idx") && !name.startsWith(".") && !old.has(name)
    },
    { when: "an old pack is gone", is: (name: string, old: ReadonlySet<string>) => old.has(name) }
  ])("loses nothing when all is killed at the moment $when", ({ is }) =>
    Effect.gen(function*() {
      const { mirror, mirrors, packs } = yield* setUp()
      const before = spread(mirror, packs)
      const old = new Set(readdirSync(packs).filter((name) => /\.(?:idx|pack)$/u.test(name)))
      // The kernel tells of what is there for a millisecond only.
      const watcher = watch(packs)
      yield* Effect.addFinalizer(() => Effect.sync(() => watcher.close()))
      const moment = new Promise<void>((resolve) => watcher.on("change", (_, name) => is(String(name), old) ? resolve() : undefined))
      const running = yield* Effect.forkChild(mirrors.maintain)
      yield* Effect.promise(() => moment)
      yield* Fiber.interrupt(running)
      assert.deepStrictEqual(allObjects(mirror), before)
      yield* mirrors.maintain
      assert.deepStrictEqual(allObjects(mirror), before)
      assert.isBelow(indexes(packs).length, PACKS)
      assert.isTrue(readdirSync(packs).every((name) => /^pack-\w+\.(?:idx|pack|rev)$/u.test(name)), readdirSync(packs).join(" "))
    }))

  it.live("is brought together after a boot that made it grow, and boots are served meanwhile", () =>
    Effect.gen(function*() {
      const { folder, mirror, origin, packs } = yield* setUp()
      // Its first look is over: what it finds later it was told of.
      const trees = yield* worker({ directory: folder }, join(packs, "tmp_pack_x"))
      const before = spread(mirror, packs)
      const boot = (id: string, ref: string) =>
        trees.prepare({ sandboxId: SandboxId.make(id), repo: app }, { remote: origin.remote, ref, defaultBranch: "main", repos: [app] })
      yield* boot("c_aaaaaaaaaaaa", "main")
      yield* origin.commit("side", { v: "1" })
      yield* boot("c_bbbbbbbbbbbb", "side")
      yield* origin.commit("other", { v: "2" })
      yield* boot("c_cccccccccccc", "other")
      yield* Effect.promise(async () => {
        while (indexes(packs).length > 10) await new Promise((resolve) => setImmediate(resolve))
      })
      assert.includeMembers(allObjects(mirror), before)
      for (const id of ["c_aaaaaaaaaaaa", "c_bbbbbbbbbbbb", "c_cccccccccccc"]) {
        gitIn(join(folder, "sandboxes", id, "workspace", "app"), "fsck", "--connectivity-only")
      }
    }))

  it.live("works shallow as well", () =>
    Effect.gen(function*() {
      const { fetch, mirror, mirrors, origin, packs } = yield* setUp({ depth: 1 })
      for (const i of [1, 2, 3]) {
        yield* origin.commit("main", { v: `${i}` })
        yield* Effect.scoped(fetch)
      }
      const before = spread(mirror, packs)
      yield* mirrors.maintain
      assert.isBelow(indexes(packs).length, 10)
      assert.deepStrictEqual(allObjects(mirror), before)
      yield* origin.commit("main", { v: "4" })
      assert.isTrue((yield* Effect.scoped(fetch)).isNew)
    }))
})

it.live("what killed processes left in a mirror is removed, and nothing else", () =>
  Effect.gen(function*() {
    const { folder, mirrors, packs } = yield* setUp()
    const whole = readdirSync(packs)
    const half = ["tmp_pack_x", "tmp_idx_x", ".tmp-1-pack-ab.pack", `pack-${"a".repeat(40)}.pack`, `pack-${"b".repeat(40)}.idx`,
      `pack-${"c".repeat(40)}.rev`]
    for (const name of half) writeFileSync(join(packs, name), "")
    const [incoming, removed] = [join(folder, "mirrors", "incoming", "x"), join(folder, "mirrors", "removed", "x")]
    for (const left of [incoming, removed]) {
      mkdirSync(left, { recursive: true })
      writeFileSync(join(left, "tmp_pack_x"), "")
    }
    yield* mirrors.maintain
    assert.deepStrictEqual(readdirSync(packs), whole)
    assert.isFalse(existsSync(incoming) || existsSync(removed))
  }))

describe("a long unused mirror", () => {
  const DAY_MILLIS = 86_400_000
  const age = (mirror: string, days: number) => {
    const then = new Date(Date.now() - days * DAY_MILLIS)
    utimesSync(mirror, then, then)
  }
  const keepUnused = Duration.days(30)

  it.live("is removed, unless a sandbox borrows from it", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const directory = yield* temporaryFolder
      const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
      const prepare = { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] }
      const mirrorsLeft = () => readdirSync(join(directory, "mirrors")).filter((name) => name.endsWith(".git"))
      const inWorker = <A>(use: (trees: WorkingTrees["Service"]) => Effect.Effect<A>) =>
        Effect.scoped(Effect.flatMap(worker({ directory, keepUnused }, join(directory, "mirrors", "removed", "x")), use))

      yield* inWorker((trees) => Effect.orDie(trees.prepare(key, prepare)))
      const mirror = join(directory, "mirrors", mirrorsLeft()[0] ?? "")
      age(mirror, 31)
      yield* inWorker((trees) => Effect.orDie(trees.remove(key.sandboxId)))
      assert.isTrue(existsSync(mirror))
      age(mirror, 29)
      yield* inWorker(() => Effect.void)
      assert.isTrue(existsSync(mirror))
      age(mirror, 31)
      yield* inWorker(() => Effect.void)
      assert.deepStrictEqual(mirrorsLeft(), [])
      yield* inWorker((trees) => Effect.orDie(trees.prepare(key, prepare)))
      assert.strictEqual(mirrorsLeft().length, 1)
    }))

  it.live("stays for ever where that is wanted", () =>
    Effect.gen(function*() {
      const { mirror, mirrors } = yield* setUp()
      age(mirror, 10_000)
      yield* mirrors.maintain
      assert.isTrue(existsSync(mirror))
    }))

  it.live("stays when it is asked for again: before, at the very moment, or by a tree that has not borrowed yet", () =>
    Effect.gen(function*() {
      let meanwhile: Effect.Effect<unknown> = Effect.void
      const { fetch, mirror, mirrors } = yield* setUp({
        keepUnused,
        // A tree that borrows after this look is not in it.
        borrowed: Effect.suspend(() => Effect.as(meanwhile, new Set<string>()))
      })
      age(mirror, 31)
      yield* Effect.scoped(fetch)
      yield* mirrors.maintain
      assert.isAbove(statSync(mirror).mtimeMs, Date.now() - DAY_MILLIS)

      age(mirror, 31)
      meanwhile = Effect.orDie(Effect.scoped(fetch))
      yield* mirrors.maintain
      assert.isTrue(existsSync(mirror))

      age(mirror, 31)
      const scope = yield* Scope.make()
      meanwhile = Effect.andThen(Effect.orDie(Scope.provide(fetch, scope)), Effect.sync(() => age(mirror, 31)))
      yield* mirrors.maintain
      assert.isTrue(existsSync(mirror))
      yield* Scope.close(scope, yield* Effect.exit(Effect.void))
      meanwhile = Effect.void
      age(mirror, 31)
      yield* mirrors.maintain
      assert.isFalse(existsSync(mirror))
    }))
})
