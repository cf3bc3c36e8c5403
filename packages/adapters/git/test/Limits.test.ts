/** The share of this machine that a repository may take, and the rest of a repository that takes more: nothing. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { type Seen, serve } from "../testing/GitHttpServer.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const MiB = 2 ** 20

const isFetch = ({ body }: Seen) => body.includes("command=fetch")

/** The mirrors of a repository, seen through a server that may stall. */
const setUp = Effect.fnUntraced(function*(files: Readonly<Record<string, string | Uint8Array>>) {
  const origin = yield* source(files)
  const directory = yield* temporaryFolder
  const state: { stallsAfter: number | undefined } = { stallsAfter: undefined }
  const server = yield* serve(dirname(origin.path), undefined, (request) => isFetch(request) ? state.stallsAfter : undefined)
  const remote = { url: `${server.url}/${basename(origin.path)}`, authorization: null }
  const prepare = (options: Omit<Trees.Options, "directory">, ref?: string, sandboxId = key.sandboxId) =>
    Effect.gen(function*() {
      const trees = Context.get(yield* Layer.build(Trees.layer({ directory, ...options })), WorkingTrees)
      return yield* trees.prepare({ ...key, sandboxId }, { remote, ref, defaultBranch: "main", repos: [app] })
    }).pipe(Effect.scoped)
  /** The leftovers of all downloads. */
  const downloaded = () => {
    const mirrors = join(directory, "mirrors")
    const packs = readdirSync(mirrors).filter((name) => name.endsWith(".git")).flatMap((name) =>
      readdirSync(join(mirrors, name, "objects", "pack"))
    )
    return [...packs, ...existsSync(join(mirrors, "incoming")) ? readdirSync(join(mirrors, "incoming")) : []]
  }
  return { origin, state, server, prepare, downloaded }
})

const processesWith = (text: string) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(text)
    } catch {
      return false
    }
  })

describe("a download", () => {
  it.live("that is too large is ended while it runs, says which setting allows more, and leaves nothing", () =>
    Effect.gen(function*() {
      const { downloaded, prepare, server, state } = yield* setUp({ large: randomBytes(3 * MiB) })
      // It never ends by itself.
      state.stallsAfter = 2 * MiB
      const refused = yield* Effect.flip(prepare({ maximumFetchBytes: MiB }))
      assert.deepInclude(refused, {
        _tag: "CloneFailed",
        repo: app,
        retryable: false,
        detail: "Fetching it takes more than 1 MiB. This limit is raised with the option maximumFetchBytes."
      })
      assert.deepStrictEqual(downloaded(), [])
      assert.deepStrictEqual(processesWith(server.url), [])
      state.stallsAfter = undefined
      assert.strictEqual(
        (yield* Effect.flip(prepare({ maximumFetchBytes: 2 * MiB }))).detail,
        "Fetching it takes more than 2 MiB. This limit is raised with the option maximumFetchBytes."
      )
      assert.deepStrictEqual(downloaded(), [])
      yield* prepare({ maximumFetchBytes: 4 * MiB })
    }))

  // Its clock stands still, so no check happens while it runs.
  it.effect("that is too large is refused also when it was too quick to be seen", () =>
    Effect.gen(function*() {
      const { downloaded, prepare } = yield* setUp({ large: randomBytes(20_000) })
      assert.match((yield* Effect.flip(prepare({ maximumFetchBytes: 10_000 }))).detail, /more than 10000 bytes/u)
      assert.deepStrictEqual(downloaded(), [])
    }))

  it.live("that takes too long is ended, says which setting allows more, and leaves nothing", () =>
    Effect.gen(function*() {
      const { downloaded, prepare, server, state } = yield* setUp({ large: randomBytes(MiB) })
      state.stallsAfter = 100_000
      assert.deepInclude(yield* Effect.flip(prepare({ fetchTime: "3 seconds" })), {
        retryable: false,
        detail: "It could not be fetched within 0.05 minutes. This limit is raised with the option fetchTime."
      })
      assert.deepStrictEqual(downloaded(), [])
      assert.deepStrictEqual(processesWith(server.url), [])
      state.stallsAfter = undefined
      yield* prepare({})
    }))
})

describe("a checkout", () => {
  it.live("with too many bytes or files is refused before it is made, and its download is not kept", () =>
    Effect.gen(function*() {
      const { downloaded, origin, prepare } = yield* setUp({ "a": "12345", "b/c": "123456" })
      const refused = (options: Parameters<typeof prepare>[0]) =>
        Effect.map(Effect.flip(prepare(options)), ({ detail, retryable }) => [detail, retryable])
      assert.deepStrictEqual(yield* refused({ maximumCheckoutBytes: 10 }), [
        "The files of the commit have more than 10 bytes together. This limit is raised with the option maximumCheckoutBytes.",
        false
      ])
      assert.deepStrictEqual(yield* refused({ maximumCheckoutFiles: 1 }), [
        "The commit has more than 1 files. This limit is raised with the option maximumCheckoutFiles.",
        false
      ])
      assert.deepStrictEqual(downloaded(), [])

      assert.deepStrictEqual(yield* prepare({ maximumCheckoutBytes: 11, maximumCheckoutFiles: 2 }), {
        baseSha: (yield* origin.tip("main")) ?? "",
        baseRef: "main"
      })
    }))

  it.live("is held to the limits of today, whatever they were when its commit was fetched", () =>
    Effect.gen(function*() {
      const { prepare, server } = yield* setUp({ "a": "12345", "b/c": "123456" })
      const another = SandboxId.make("c_bbbbbbbbbbbb")
      yield* prepare({})
      assert.match((yield* Effect.flip(prepare({ maximumCheckoutBytes: 10 }, undefined, another))).detail, /maximumCheckoutBytes/u)
      assert.match((yield* Effect.flip(prepare({ maximumCheckoutFiles: 1 }, undefined, another))).detail, /maximumCheckoutFiles/u)
      assert.strictEqual(server.seen.filter(isFetch).length, 1)
    }))

  it.live("of a few objects that stand for billions of files is refused at once", () =>
    Effect.gen(function*() {
      const { origin, prepare } = yield* setUp({ v: "0" })
      const mktree = (entries: string) =>
        execFileSync("git", ["--git-dir", origin.path, "mktree"], { input: entries, encoding: "utf8" }).trim()
      let tree = mktree(`100644 blob ${gitIn(origin.path, "rev-parse", "main:v")}\tf\n`)
      for (let depth = 0; depth < 10; depth++) tree = mktree(Array.from({ length: 10 }, (_, i) => `040000 tree ${tree}\td${i}\n`).join(""))
      const bomb = gitIn(origin.path, "commit-tree", "-m", "bomb", tree)
      yield* origin.setBranch("bomb", bomb)
      assert.strictEqual(
        (yield* Effect.flip(prepare({}, "bomb"))).detail,
        "The commit has more than 500000 files. This limit is raised with the option maximumCheckoutFiles."
      )
    }))
})
