import { assert, it } from "@effect/vitest"
import { AgentDisconnected, RemoteTrees, CheckpointTrees, type TreeReader, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { FileNotFound, FileTooLarge, UnknownCommit, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { ClockSkew } from "@slipway/domain/sandbox/usecases/StoreClock"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { StoreHealth } from "@slipway/domain/store/StoreHealth"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Deferred, Effect, Exit, Layer, Redacted, Ref, Scope, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { request as httpRequest } from "node:http"
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net"
import * as LinkAddresses from "../src/LinkAddresses.ts"
import * as Protocol from "../src/LinkProtocol.ts"
import type { TimeLimits } from "../src/LinkRequest.ts"
import { isPrivate, parse } from "../src/PrivateAddress.ts"
import * as RemoteTreesLink from "../src/RemoteTreesLink.ts"
import * as TreeServer from "../src/TreeServer.ts"
import { addressOf, beside, client, database, lease, MACHINE, noBoxes, sandboxOf, server, WORKER } from "./Links.ts"

const id = SandboxId.make("c_aaaaaaaaaaaa")
const key = { sandboxId: id, repo: RepoName.make("acme/app") }
const MiB = 2 ** 20

/** Trees that do what the test says. */
const treesWith = (own: Partial<WorkingTrees["Service"]>) =>
  Layer.mock(WorkingTrees, {
    folder: () => "",
    has: () => Effect.succeed(true),
    isWhole: () => Effect.succeed(true),
    ...own
  })

const empty = Effect.succeed({ directory: "", entries: [], partialWarnings: [], scope: "all" as const })
const small = treesWith({ list: () => empty, open: () => Effect.succeed({ size: 1, bytes: Stream.make(new Uint8Array([7])) }) })

/** On a machine with these trees, and what it restores. */
const machineWith = (trees: Layer.Layer<WorkingTrees>, restored = CheckpointTrees.layerNone) =>
  Layer.mergeAll(LocalTrees.layer.pipe(Layer.provide([trees, restored])), beside({ checkpoint: 3 }))

const reader: TreeReader = {
  list: () => empty,
  changes: () => new FileNotFound(),
  search: () => new FileNotFound(),
  open: () => new FileNotFound(),
  compare: () => new FileNotFound(),
  diff: () => new FileNotFound()
}

/** A worker with these trees that holds the lease, until the scope ends. */
const worker = (trees: Layer.Layer<WorkingTrees>) =>
  Effect.andThen(Layer.build(server().pipe(Layer.provide(machineWith(trees)))), lease(id))

const reach = (limits?: Partial<TimeLimits>) =>
  Effect.flatMap(RemoteTrees, (trees) => trees.reach(sandboxOf(id, { checkpoint: 3 }))).pipe(Effect.provide(client(limits)))
const failure = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(self), ({ _tag }) => _tag)
const listed = (limits?: Partial<TimeLimits>) => Effect.flatMap(reach(limits), ({ list }) => list(key, ""))

/** One request as anybody could send it; the answer's status and text. */
const send = Effect.fnUntraced(function*(body: string, proof: string, method = "POST", path = Protocol.PATH) {
  const { host, port } = parse(yield* addressOf(id)) ?? { host: "", port: 0 }
  return yield* Effect.callback<readonly [number | undefined, string]>((resume) => {
    httpRequest({ host, port, method, path, headers: { authorization: proof, "content-length": Buffer.byteLength(body) } }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (chunk: string) => text += chunk).on(
        "end",
        () => resume(Effect.succeed([response.statusCode, text]))
      )
    }).on("error", (error) => resume(Effect.die(error))).end(body)
  })
})

const bodyOf = (changes: Partial<Protocol.Request> = {}) =>
  JSON.stringify({ operation: "list", worker: WORKER, ...key, path: "", maximumBytes: 0, at: Date.now(), nonce: "n", ...changes })

/** Listens where a worker said it was. */
const impostor = (answer: (socket: Socket) => void) =>
  Effect.gen(function*() {
    const received: Array<string> = []
    const listening = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const made = createServer((socket) => {
          socket.on("error", () => {})
          socket.on("data", (chunk) => {
            received.push(chunk.toString())
            if (chunk.toString().endsWith("}")) answer(socket)
          })
        }).listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) => Effect.sync(() => made.close())
    )
    const { port } = listening.address() as AddressInfo
    yield* Effect.flatMap(LinkAddresses.make, (links) => links.publish(WORKER, MACHINE, `127.0.0.1:${port}`))
    yield* lease(id)
    return received
  })

it.layer(database, { excludeTestServices: true })("the link to a worker", (it) => {
  it.effect("refuses a client that does not know the secret, and a message that was changed on the way or is old", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      yield* worker(treesWith({ list: () => Effect.andThen(Effect.sync(() => asked.push("list")), empty) }))
      const secret = yield* SharedSecret.load(Protocol.SECRET)
      const body = bodyOf()
      const proof = Protocol.proofOfRequest(secret, body)
      for (const wrong of ["", "x", `${proof}0`, proof.toUpperCase(), Protocol.proofOfRequest(Redacted.make("another"), body)]) {
        assert.deepStrictEqual(yield* send(body, wrong), [401, ""])
      }
      assert.deepStrictEqual(yield* send(bodyOf({ path: "src" }), proof), [401, ""])
      const old = bodyOf({ at: Date.now() - 2 * Protocol.MAX_AGE_MILLIS })
      assert.deepStrictEqual(yield* send(old, Protocol.proofOfRequest(secret, old)), [401, ""])
      assert.deepStrictEqual(yield* send("{}", Protocol.proofOfRequest(secret, "{}")), [400, ""])
      const large = " ".repeat(Protocol.MAX_REQUEST_BYTES + 1)
      assert.deepStrictEqual(yield* send(large, Protocol.proofOfRequest(secret, large)), [413, ""])
      assert.strictEqual((yield* send(body, proof, "GET"))[0], 404)
      assert.deepStrictEqual(asked, [])
      assert.strictEqual((yield* send(body, proof))[0], 200)
      assert.deepStrictEqual(asked, ["list"])
    }))

  it.effect("tells every caller whether the worker lives and can do its part, and why not", () =>
    Effect.gen(function*() {
      const trouble = Ref.makeUnsafe<string | null>(null)
      const of = Ref.makeUnsafe<string | null>(null)
      const skew = Ref.makeUnsafe(0)
      yield* worker(small).pipe(
        Effect.provideService(StoreHealth, Ref.get(trouble)),
        Effect.provideService(ClockSkew, Ref.get(skew)),
        Effect.provideService(WorkerReadiness, { problem: Ref.get(of), report: () => Effect.void })
      )
      const ok = [200, `{"status":"ok"}`] as const
      const refusal = (message: string) => [503, JSON.stringify({ error: { code: "unavailable", message } })] as const
      const ready = send("", "", "GET", "/readyz")
      assert.deepStrictEqual(yield* ready, ok)
      yield* Ref.set(of, "Its boots fail.")
      assert.deepStrictEqual(yield* ready, refusal("Its boots fail."))
      yield* Ref.set(trouble, "The disk of the database is full.")
      assert.deepStrictEqual(yield* ready, refusal("The disk of the database is full."))
      yield* Ref.set(skew, 31_000)
      assert.deepStrictEqual(yield* ready, refusal("The clock of this machine is 31 seconds ahead of the database's."))
      assert.deepStrictEqual(yield* send("", "", "GET", "/healthz"), ok)
      assert.strictEqual((yield* send("", "", "POST", "/readyz"))[0], 404)
      for (const quiet of [of, trouble]) yield* Ref.set(quiet, null)
      yield* Ref.set(skew, 0)
      assert.deepStrictEqual(yield* ready, ok)
    }))

  it.effect("trusts only a peer that knows the secret, and does not tell it", () =>
    Effect.gen(function*() {
      const said = JSON.stringify(yield* empty)
      const head = "HTTP/1.1 200 OK\r\nslipway-proof: 00\r\ncontent-length: "
      const received = yield* impostor((socket) => socket.end(`${head}${said.length}\r\n\r\n${said}`))
      assert.strictEqual(yield* failure(listed()), "AgentDisconnected")
      assert.strictEqual(yield* failure(Effect.scoped(Effect.flatMap(reach(), ({ open }) => open(key, "a", 10)))), "AgentDisconnected")
      assert.include(received.join(""), Protocol.PATH)
      assert.notInclude(received.join(""), Redacted.value(yield* SharedSecret.load(Protocol.SECRET)))
    }))

  it.effect("there is none without a worker that holds the lease, knows the sandbox and has told its address", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE sandboxes SET lease_until = now() WHERE id = ${id}`
      yield* sql`DELETE FROM worker_links`
      const nobody = yield* failure(reach())
      const scope = yield* Scope.make()
      yield* Scope.provide(worker(small), scope)
      assert.deepStrictEqual((yield* listed()).entries, [])

      yield* lease(id, "another")
      const untold = yield* failure(reach())
      // The present owner of its address is another worker.
      yield* Effect.flatMap(
        LinkAddresses.make,
        ({ publish }) => Effect.flatMap(addressOfWorker, (address) => publish("another", MACHINE, address))
      )
      const moved = yield* failure(listed())
      yield* lease(id)

      const reader = yield* reach()
      yield* Scope.close(scope, Exit.void)
      const gone = yield* failure(reader.list(key, ""))
      assert.deepStrictEqual({ nobody, untold, moved, gone }, {
        nobody: "AgentDisconnected",
        untold: "AgentDisconnected",
        moved: "AgentDisconnected",
        gone: "AgentDisconnected"
      })
      yield* worker(treesWith({ has: () => Effect.succeed(false), list: () => empty }))
      assert.strictEqual(yield* failure(listed()), "AgentDisconnected")
    }))

  it.effect("the worker of the same process needs none", () =>
    Effect.gen(function*() {
      yield* lease(id, "own")
      const own = { ...reader }
      const here = { own: () => Effect.succeed(own), restored: () => new AgentDisconnected() }
      const tree = yield* Effect.flatMap(RemoteTrees, (trees) => trees.reach(sandboxOf(id))).pipe(
        Effect.provide(RemoteTreesLink.layer({ own: { worker: "own", here } }))
      )
      assert.strictEqual(tree, own)
    }))

  it.effect("an unleased sandbox is read at its machine, and from its checkpoint at any other machine once that is gone", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM worker_links`
      yield* lease(id)
      yield* sql`UPDATE sandboxes SET worker = NULL, lease_until = NULL WHERE id = ${id}`
      const asked: Array<readonly [string, string]> = []
      /** `alias`: under which id the machine has what it restored. */
      const start = Effect.fnUntraced(function*(name: string, machine: string, has: boolean) {
        const alias = SandboxId.make(`c_${name.padEnd(12, "z")}`)
        const trees = treesWith({
          has: () => Effect.succeed(has),
          list: ({ sandboxId }) => Effect.andThen(Effect.sync(() => asked.push([name, sandboxId === alias ? "restored" : "own"])), empty)
        })
        const restored = Layer.succeed(CheckpointTrees, {
          find: () => Effect.succeed(alias),
          learn: () => new AgentDisconnected(),
          has: () => false
        })
        const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
        yield* Scope.provide(Layer.build(server(name, machine).pipe(Layer.provide(machineWith(trees, restored)))), scope)
        return scope
      })
      const readBy = (sandbox: Partial<Sandbox> = {}) =>
        Effect.gen(function*() {
          asked.length = 0
          const { list } = yield* Effect.flatMap(RemoteTrees, (trees) => trees.reach(sandboxOf(id, { checkpoint: 3, ...sandbox })))
          yield* list(key, "")
          return asked.flat()
        }).pipe(Effect.provide(client()))

      const its = yield* start("its", MACHINE, true)
      const other = yield* start("other", "machine-2", true)
      assert.deepStrictEqual(yield* readBy(), ["its", "own"])
      // It was killed: its address is known for a while.
      const { address } = (yield* sql<{ readonly address: string }>`SELECT address FROM worker_links WHERE worker = 'its'`)[0] ??
        { address: "" }
      yield* Scope.close(its, Exit.void)
      yield* Effect.flatMap(LinkAddresses.make, ({ publish }) => publish("its", MACHINE, address))
      // The files on another machine are from an earlier stay.
      assert.deepStrictEqual(yield* readBy(), ["other", "restored"])
      yield* sql`UPDATE worker_links SET seen_at = now() - interval '61 seconds' WHERE worker = 'its'`
      assert.deepStrictEqual(yield* readBy(), ["other", "restored"])
      yield* start("again", MACHINE, false)
      assert.deepStrictEqual(yield* readBy(), ["again", "restored"])
      yield* start("back", MACHINE, true)
      yield* sql`DELETE FROM worker_links WHERE worker = 'again'`
      assert.deepStrictEqual(yield* readBy(), ["back", "own"])
      // No worker works for a sandbox that is over, whatever its machine still has.
      for (const status of ["succeeded", "failed"] as const) assert.strictEqual((yield* readBy({ status }))[1], "restored")

      // Its worker may be away for a moment, and no other worker knows the state of its files.
      yield* lease(id, "its")
      yield* sql`DELETE FROM worker_links WHERE worker = 'its'`
      assert.strictEqual(yield* failure(readBy()), "AgentDisconnected")
      yield* sql`UPDATE sandboxes SET worker = NULL, lease_until = NULL WHERE id = ${id}`
      yield* Scope.close(other, Exit.void)
      yield* sql`UPDATE worker_links SET seen_at = now() - interval '61 seconds'`
      assert.strictEqual(yield* failure(readBy()), "AgentDisconnected")
    }))

  it.effect("what is restored in the same process needs none, unless its machine is there", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM worker_links`
      yield* lease(id)
      yield* sql`UPDATE sandboxes SET worker = NULL, lease_until = NULL WHERE id = ${id}`
      const here = {
        own: () => Effect.succeed(null),
        restored: () => Effect.succeed({ ...reader, diff: () => new UnknownCommit({ commits: ["x"] }) })
      }
      const reached = Effect.flatMap(RemoteTrees, (trees) => trees.reach(sandboxOf(id, { checkpoint: 3 }))).pipe(
        Effect.flatMap(({ diff }) => failure(diff(key, { from: "base", to: "working", maximumBytes: 1 }))),
        Effect.provide(RemoteTreesLink.layer({ own: { worker: "own", here } }))
      )
      assert.strictEqual(yield* reached, "UnknownCommit")
      yield* worker(treesWith({ diff: () => new FileTooLarge({ maximumBytes: 1 }) }))
      yield* sql`UPDATE sandboxes SET worker = NULL, lease_until = NULL WHERE id = ${id}`
      assert.strictEqual(yield* reached, "FileTooLarge")
    }))

  it.effect("a difference of several mebibytes comes whole, of the versions that were asked for", () =>
    Effect.gen(function*() {
      const patch = new Uint8Array(3 * MiB).map((_, i) => i % 251)
      const asked: Array<unknown> = []
      yield* worker(treesWith({
        diff: (tree, query) =>
          query.from === "base"
            ? Effect.sync(() => {
              asked.push([tree, query])
              return patch
            })
            : new UnknownCommit({ commits: [query.from] })
      }))
      const { diff } = yield* reach()
      const query = { from: "base", to: "0".repeat(40), path: "dir", maximumBytes: 10 * MiB, isWhole: true }
      assert.isTrue(Buffer.from(yield* diff(key, query)).equals(patch))
      assert.deepStrictEqual(asked, [[key, query]])
      assert.strictEqual(yield* failure(diff(key, { ...query, from: "working" })), "UnknownCommit")
      assert.strictEqual((yield* diff(key, { ...query, maximumBytes: 3 * MiB })).length, 3 * MiB)
    }))

  it.effect("what a worker's trees do not know it learns from the sandbox's checkpoints, and says which of them cannot be read", () =>
    Effect.gen(function*() {
      const [known, damaged] = ["1".repeat(40), "2".repeat(40)]
      const learned = new Array<unknown>()
      const trees = treesWith({
        diff: Effect.fnUntraced(function*(_, { from }) {
          return learned.length > 0 && from === known ? new Uint8Array([1]) : yield* new UnknownCommit({ commits: [from] })
        })
      })
      const restored = Layer.succeed(CheckpointTrees, {
        find: () => new AgentDisconnected(),
        learn: (...asked) => asked[2].includes(damaged) ? new CheckpointNotFound() : Effect.sync(() => void learned.push(asked)),
        has: () => false
      })
      yield* Effect.andThen(Layer.build(server().pipe(Layer.provide(machineWith(trees, restored)))), lease(id))
      const { diff } = yield* reach()
      const query = { to: "working", maximumBytes: 10 }
      assert.deepStrictEqual(yield* diff(key, { ...query, from: known }), new Uint8Array([1]))
      assert.deepStrictEqual(learned, [[id, key, [known]]])
      assert.strictEqual(yield* failure(diff(key, { ...query, from: damaged })), "CheckpointNotFound")
      const unknown = yield* Effect.flip(diff(key, { ...query, from: "3".repeat(40) }))
      assert.deepInclude(unknown, { _tag: "UnknownCommit", commits: ["3".repeat(40)] })
    }))

  it.effect("refusals come through with what they say", () =>
    Effect.gen(function*() {
      yield* worker(treesWith({ open: () => new FileTooLarge({ maximumBytes: 5 }) }))
      const refused = yield* Effect.flip(Effect.scoped(Effect.flatMap(reach(), ({ open }) => open(key, "a", 5))))
      assert.instanceOf(refused, FileTooLarge)
      assert.strictEqual(refused.message, "The file is larger than 5 bytes.")
    }))

  it.effect("100 MiB pass in little memory, no faster than they are read", () =>
    Effect.gen(function*() {
      const size = 100 * MiB
      let produced = 0
      const bytes = Stream.unfold(0, (position) =>
        Effect.sync(() => {
          if (position === size) return undefined
          produced += 65_536
          return [new Uint8Array(65_536).fill(position / 65_536 % 251), position + 65_536] as const
        }))
      yield* worker(treesWith({ open: () => Effect.succeed({ size, bytes }), list: () => empty }))
      yield* Effect.scoped(Effect.gen(function*() {
        const opened = yield* Effect.flatMap(reach(), ({ open }) => open(key, "big", size))
        assert.strictEqual(opened.size, size)
        let received = 0
        let ahead = 0
        let isRight = true
        yield* Stream.runForEach(opened.bytes, (chunk) =>
          Effect.gen(function*() {
            // Others are served while the reader rests: what can be sent ahead has been sent.
            if (received === 0) yield* Effect.forEach(Array.from({ length: 20 }), () => listed())
            for (const at of [0, chunk.length - 1]) isRight &&= chunk[at] === Math.floor((received + at) / 65_536) % 251
            received += chunk.length
            ahead = Math.max(ahead, produced - received)
          }))
        assert.isTrue(isRight)
        assert.strictEqual(received, size)
        // Bytes in the two processes and between them, most of them in the kernel.
        assert.isBelow(ahead, 16 * MiB)
      }))
    }))

  it.effect("a reader that goes away closes the file", () =>
    Effect.gen(function*() {
      const closed = yield* Deferred.make<void>()
      const open = () =>
        Effect.acquireRelease(
          Effect.succeed({ size: 100 * MiB, bytes: Stream.concat(Stream.make(new Uint8Array(10)), Stream.never) }),
          () => Deferred.succeed(closed, undefined)
        )
      yield* worker(treesWith({ open }))
      yield* Effect.scoped(Effect.gen(function*() {
        const { bytes } = yield* Effect.flatMap(reach(), (tree) => tree.open(key, "big", 100 * MiB))
        yield* Stream.runDrain(Stream.take(bytes, 1))
        assert.isFalse(yield* Deferred.isDone(closed))
      }))
      yield* Deferred.await(closed)
    }))

  it.effect(
    "a file that breaks off, and a worker that ends or stands still in the middle of one, fail its bytes",
    () =>
      Effect.gen(function*() {
        const breaksOff = (
          rest: (seen: Effect.Effect<void>) => Effect.Effect<never, FileNotFound>,
          end: boolean,
          limits?: Partial<TimeLimits>
        ) =>
          Effect.gen(function*() {
            const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
            const seen = yield* Deferred.make<void>()
            const bytes = Stream.concat(Stream.make(new Uint8Array(10)), Stream.fromEffect(rest(Deferred.await(seen))))
            yield* Scope.provide(worker(treesWith({ open: () => Effect.succeed({ size: 20, bytes }) })), scope)
            const file = yield* Effect.flatMap(reach(limits), ({ open }) => open(key, "a", 100))
            const read = Stream.runForEach(
              file.bytes,
              () => Effect.andThen(Deferred.succeed(seen, undefined), end ? Scope.close(scope, Exit.void) : Effect.void)
            )
            return yield* failure(read)
          }).pipe(Effect.scoped)
        assert.strictEqual(
          yield* breaksOff((seen) => Effect.andThen(seen, new FileNotFound()), false),
          "FileNotFound"
        )
        assert.strictEqual(yield* breaksOff(() => Effect.never, true), "FileNotFound")
        assert.strictEqual(yield* breaksOff(() => Effect.never, false, { idleMillis: 50 }), "FileNotFound")
      })
  )

  it.effect("a worker that does not answer in time is not reached", () =>
    Effect.gen(function*() {
      yield* impostor(() => {})
      assert.strictEqual(yield* failure(listed({ answerMillis: 50 })), "AgentDisconnected")
      yield* impostor((socket) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"))
      assert.strictEqual(yield* failure(listed({ idleMillis: 50 })), "AgentDisconnected")
    }))

  it.effect("half a request is cut off when the worker ends", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Scope.provide(worker(small), scope)
      const { host, port } = parse(yield* addressOf(id)) ?? { host: "", port: 0 }
      const socket = yield* Effect.callback<Socket>((resume) => {
        const made = connect(port, host, () => made.write("POST /trees HTTP/1.1\r\n", () => resume(Effect.succeed(made)))).on(
          "error",
          () => {}
        )
      })
      const closed = new Promise((end) => socket.resume().once("close", end))
      yield* listed()
      yield* Scope.close(scope, Exit.void)
      yield* Effect.promise(() => closed)
    }))

  it.effect("is on loopback or a private network", () =>
    Effect.gen(function*() {
      const serve = (text: string) =>
        Effect.flip(
          Effect.scoped(
            Layer.build(
              TreeServer.layer({ worker: WORKER, machine: MACHINE, listen: parse(text) ?? { host: "", port: 0 } }).pipe(
                Layer.provide([machineWith(small), noBoxes])
              )
            )
          )
        )
      for (const address of ["8.8.8.8:0", "0.0.0.0:0", "[::]:0", "[2001:db8::1]:0"]) {
        assert.match((yield* serve(address)).message, /neither on loopback nor on a private network/u, address)
      }
      yield* worker(small)
      assert.match((yield* serve(yield* addressOf(id))).message, /EADDRINUSE/u)
    }))
})

const addressOfWorker = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly address: string }>`SELECT address FROM worker_links WHERE worker = ${WORKER}`
  return row?.address ?? ""
})

it("knows private addresses, in both families, and how they are written", () => {
  for (const ip of ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.0.9", "100.64.0.1", "::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1"]) {
    assert.isTrue(isPrivate(ip), ip)
  }
  for (const ip of ["8.8.8.8", "172.32.0.1", "100.128.0.1", "0.0.0.0", "::", "2001:db8::1", "::ffff:8.8.8.8"]) {
    assert.isFalse(isPrivate(ip), ip)
  }
  assert.deepStrictEqual(["10.0.0.5:4001", "[fd00::1]:0", "worker-1:80"].map(parse), [
    { host: "10.0.0.5", port: 4001 },
    { host: "fd00::1", port: 0 },
    { host: "worker-1", port: 80 }
  ])
  for (const text of ["", "4001", "host", "host:", "host:65536", "fd00::1:80", "a b:1", "http://a:1"]) assert.isNull(parse(text), text)
})
