import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { AgentDisconnected } from "@slipway/domain/files/ports/RemoteTrees"
import { FileNotFound, OnBehalfOf, TreesUnavailable, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileTree } from "@slipway/domain/files/schema/FileTree"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Deferred, Effect, Exit, Scope, Stream } from "effect"
import { attachment } from "../src/server/reply/ContentDisposition.ts"
import {
  ask,
  create,
  drive,
  failed,
  joined,
  json,
  layer as http,
  mintKey,
  openStream,
  refused,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

const tree: FileTree = {
  directory: "src",
  entries: [{
    name: "main.ts",
    path: "src/main.ts",
    depth: 1,
    kind: "file",
    status: "modified",
    additions: 3,
    deletions: 1,
    size: 120,
    mtimeMs: 1_700_000_000_000.5,
    previousPath: null
  }],
  partialWarnings: ["invalid_names"],
  scope: "all"
}

const CHUNK = new Uint8Array(64 * 1024).fill(97)

/** Trees in which the name of a file says how its bytes arrive. */
const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  list: (_key, directory) => Effect.succeed({ ...tree, directory }),
  open: (_key, path, maximumBytes) => {
    switch (path) {
      case "short":
        return Effect.succeed({ size: CHUNK.length * 2, bytes: Stream.concat(Stream.succeed(CHUNK), Stream.fail(new FileNotFound())) })
      case "endless":
        return Effect.succeed({ size: maximumBytes, bytes: Stream.concat(Stream.succeed(CHUNK), Stream.never) })
      default:
        return Effect.succeed({ size: 0, bytes: Stream.empty })
    }
  },
  compare: () => Effect.succeed({ working: null, head: null, base: null })
}

/** As another id has them: what was restored. */
const RESTORED = SandboxId.make("c_rrrrrrrrrrrr")
let found: Effect.Effect<SandboxId, AgentDisconnected> = Effect.succeed(RESTORED)
const ofRestored: Partial<WorkingTrees["Service"]> = {
  ...trees,
  has: () => Effect.succeed(true),
  list: ({ sandboxId }, directory) => sandboxId === RESTORED ? Effect.succeed({ ...tree, directory }) : Effect.die("its own trees"),
  changes: ({ sandboxId }) => sandboxId === RESTORED ? Effect.succeed({ files: [], partialWarnings: [] }) : Effect.die("its own trees")
}

layer(http({ trees: ofRestored, restored: { find: () => found } }), { excludeTestServices: true })(
  "the files of a failed sandbox",
  (it) => {
    it.effect("are those of its last checkpoint, and cannot be downloaded", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const id = yield* failed(key)
        const get = (path: string) => ask(`${SANDBOXES}/${id}/files/${path}`, { key })
        assert.deepStrictEqual(json(yield* get("tree?directory=src")), tree)
        assert.strictEqual((yield* get("content?path=src/main.ts")).status, 200)
        refused(yield* get("download?path=src/main.ts"), 409, "sandbox_not_running")
        assert.strictEqual((yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })).status, 200)
        refused(yield* get("tree"), 409, "sandbox_not_running")
      }))

    it.effect("are to be asked for again while no worker has them", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const id = yield* failed(key)
        found = new AgentDisconnected()
        const reply = yield* ask(`${SANDBOXES}/${id}/files/tree`, { key })
        found = Effect.succeed(RESTORED)
        refused(reply, 409, "agent_disconnected")
        assert.strictEqual(reply.headers["retry-after"], "1")
      }))

    it.effect("are not there if it ended before it had a checkpoint", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const id = yield* create(key)
        yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "It did not start.", retryable: false }])
        for (const path of ["tree", "content?path=x"]) {
          refused(yield* ask(`${SANDBOXES}/${id}/files/${path}`, { key }), 409, "sandbox_not_running")
        }
      }))
  }
)

const asked: Array<string> = []
const listing: WorkingTrees["Service"]["list"] = () => Effect.map(OnBehalfOf, (grant) => (asked.push(grant), tree))

layer(http({ trees: { ...trees, list: listing } }), { excludeTestServices: true })("a tree's host", (it) => {
  it.effect("is told for which grant it lists, whatever that is for, so that it can be fair", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      for (const path of ["tree", "content?path=src/main.ts"]) yield* ask(`${SANDBOXES}/${id}/files/${path}`, { key })
      assert.match(asked[0] ?? "", /^[0-9a-f-]{36}$/u)
      assert.deepStrictEqual(asked, [asked[0], asked[0]])
    }))
})

layer(http({ trees: { ...trees, has: () => Effect.succeed(false) } }), { excludeTestServices: true })(
  "files of a worker that is away",
  (it) => {
    it.effect("are to be asked for again in a moment", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const { id } = yield* running(key)
        for (const path of ["tree", "download?path=x", "content?path=x"]) {
          const reply = yield* ask(`${SANDBOXES}/${id}/files/${path}`, { key })
          refused(reply, 409, "agent_disconnected")
          assert.strictEqual(reply.headers["retry-after"], "1")
        }
      }))
  }
)

const refusing = () => Effect.fail(new TreesUnavailable({ detail: "The machine's disk is read-only.", retryable: false }))

layer(http({ trees: { has: () => Effect.succeed(true), list: refusing, open: refusing, compare: refusing } }), {
  excludeTestServices: true
})("files on a disk that refuses", (it) => {
  it.effect("are unavailable, and to be asked for again later", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      for (const path of ["tree", "download?path=x", "content?path=x"]) {
        const reply = yield* ask(`${SANDBOXES}/${id}/files/${path}`, { key })
        refused(reply, 503, "unavailable")
        assert.match(reply.headers["retry-after"] ?? "", /^\d+$/u)
      }
    }))
})

layer(http({ trees, settings: { downloadsPerKey: 1 } }), { excludeTestServices: true })("a download", (it) => {
  const of = (id: string, path: string) => `${SANDBOXES}/${id}/files/download?path=${encodeURIComponent(path)}`

  it.effect("that falls short breaks off, so that it is not taken for whole", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const reader = yield* openStream(of(id, "short"), { key })
      yield* reader.rest
      assert.ok(reader.broken())
    }))

  it.effect("is one of a limited number, and breaks off when its key is revoked", () =>
    Effect.gen(function*() {
      const { key, record } = yield* mintKey()
      const { id } = yield* running(key)
      const reader = yield* openStream(of(id, "endless"), { key })
      refused(yield* ask(of(id, "a"), { key }), 429, "rate_limited")
      yield* (yield* Access).revokeKey(record.id)
      yield* Effect.timeout(reader.rest, "1 second")
      assert.ok(reader.broken())
    }))
})

layer(http({ trees, settings: { downloadsPerUser: 3, downloadsPerGrant: 4 } }), { excludeTestServices: true })(
  "downloads of many keys",
  (it) => {
    it.effect("are counted by user and by grant too: more keys do not give more of them; the end of one makes room", () =>
      Effect.gen(function*() {
        const begin = Effect.fnUntraced(function*(about: { readonly grant: string; readonly userId: string }) {
          const { key } = yield* mintKey(about)
          const { id } = yield* running(key)
          const path = `${SANDBOXES}/${id}/files/download?path=`
          const reader = yield* openStream(`${path}endless`, { key })
          return {
            reader,
            again: Effect.map(
              ask(`${path}empty`, { key }),
              (reply) => reply.status === 200 ? "200" : `${reply.status} ${json(reply).error.message}`
            )
          }
        })
        const [ada, bob, eve] = [yield* joined("ada"), yield* joined("bob"), yield* joined("eve")]
        for (const grant of ["one", "two", "one"]) assert.strictEqual((yield* begin({ grant, userId: ada })).reader.status, 200)
        const fourth = yield* begin({ grant: "three", userId: ada })
        assert.deepStrictEqual([fourth.reader.status, yield* fourth.again], [429, "429 This user has 3 open downloads already."])
        // Two of the grant's four are Ada's.
        const scope = yield* Scope.make()
        assert.strictEqual((yield* Effect.provideService(begin({ grant: "one", userId: bob }), Scope.Scope, scope)).reader.status, 200)
        assert.strictEqual((yield* begin({ grant: "one", userId: bob })).reader.status, 200)
        const full = yield* begin({ grant: "one", userId: eve })
        assert.deepStrictEqual([full.reader.status, yield* full.again], [429, "429 This grant has 4 open downloads already."])
        assert.strictEqual((yield* begin({ grant: "two", userId: eve })).reader.status, 200)
        yield* Scope.close(scope, Exit.void)
        yield* full.again.pipe(Effect.repeat({ until: (said) => said === "200" }), Effect.timeout("5 seconds"))
      }).pipe(Effect.scoped))
  }
)

const released = Deferred.makeUnsafe<void>()

layer(
  http({
    trees: {
      ...trees,
      open: () =>
        Effect.as(Effect.addFinalizer(() => Deferred.succeed(released, undefined)), {
          size: CHUNK.length * 2,
          bytes: Stream.concat(Stream.succeed(CHUNK), Stream.never)
        })
    }
  }),
  { excludeTestServices: true }
)("a download whose client leaves", (it) => {
  it.effect("gives its file back", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      yield* Effect.scoped(openStream(`${SANDBOXES}/${id}/files/download?path=x`, { key }))
      yield* Effect.timeout(Deferred.await(released), "2 seconds")
    }))
})

layer(http({ trees }), { excludeTestServices: true })("the name of a download", (it) => {
  const names = ["a.txt", "-rf", "a b", "a\"b;c\\d", "100%", "it's (1)*", "\u65e5\u672c.txt", "\u202egnp.exe", "a\r\nSet-Cookie: x",
    "x".repeat(255), "\u{1F680}"]

  it.effect("is safe in a header and comes back exactly", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      for (const name of names) {
        const reply = yield* ask(`${SANDBOXES}/${id}/files/download?path=${encodeURIComponent(`dir/${name}`)}`, { key })
        assert.strictEqual(reply.status, 200, name)
        const parts = /^attachment; filename="([A-Za-z0-9._ -]*)"; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*)$/u.exec(
          String(reply.headers["content-disposition"])
        )
        assert(parts !== null, reply.headers["content-disposition"])
        assert.strictEqual(decodeURIComponent(parts[2] ?? ""), name)
        assert.strictEqual(parts[1]?.length, Buffer.byteLength(name))
        assert.strictEqual(reply.headers["set-cookie"], undefined)
      }
      assert.strictEqual(attachment("a/b/c d.txt"), "attachment; filename=\"c d.txt\"; filename*=UTF-8''c%20d.txt")
    }))
})
