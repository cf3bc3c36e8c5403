/** Connections to servers of the sandbox, through a runner that is a process of its own. */
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Stream } from "effect"
import { once } from "node:events"
import { createServer, type Socket } from "node:net"
import * as Fixture from "../testing/Fixture.ts"

const uid = process.getuid?.() ?? 0
const gid = process.getgid?.() ?? 0

/** A server of this process's user. */
const listening = (accept: (socket: Socket) => void) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createServer({ allowHalfOpen: true }, (socket) => accept(socket.on("error", () => {})))
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      return { server, port: typeof address === "object" && address !== null ? address.port : 0 }
    }),
    ({ server }) => Effect.sync(() => server.close())
  )

/** Answers once its client has ended. */
const echo = listening((socket) => socket.pipe(socket))

const runnerOf = (user: { readonly uid: number; readonly gid: number } | undefined) =>
  Effect.gen(function*() {
    const made = yield* Fixture.folders
    const settings = { ...made.settings, ...user === undefined ? {} : { user } }
    const launched = yield* Fixture.launch({ ...made, settings })
    const connection = yield* Fixture.dial({ ...made, ...launched.told })
    return { ...launched, connection }
  })

it.live("carries bytes both ways, and each half ends by itself", () =>
  Effect.scoped(Effect.gen(function*() {
    const { port } = yield* echo
    const { connection } = yield* runnerOf({ uid, gid })
    const line = yield* connection.connect(port)
    const sent = new Uint8Array(1_000_000).fill(7)
    const sending = Effect.andThen(line.send(sent), line.endInput)
    const [got] = yield* Effect.all([Stream.runCollect(line.received), sending], { concurrency: "unbounded" })
    assert.strictEqual(Buffer.concat([...got]).compare(sent), 0)
  })))

it.live("breaks the connection when the runner dies", () =>
  Effect.scoped(Effect.gen(function*() {
    const { port } = yield* echo
    const { child, connection } = yield* runnerOf({ uid, gid })
    const line = yield* connection.connect(port)
    child.kill("SIGKILL")
    assert.strictEqual((yield* Effect.flip(Stream.runDrain(line.received)))._tag, "ConnectionBroken")
  })))

it.live("breaks the connection when the server resets it, and in the machine when the client leaves", () =>
  Effect.scoped(Effect.gen(function*() {
    const reset = yield* listening((socket) => socket.once("data", () => socket.write("half", () => socket.resetAndDestroy())))
    const left = yield* Deferred.make<boolean>()
    const { port } = yield* listening((socket) => {
      socket.resume().write("hello")
      socket.once("close", () => Effect.runSync(Deferred.succeed(left, socket.readableEnded)))
    })
    const { connection } = yield* runnerOf({ uid, gid })
    const broken = yield* connection.connect(reset.port)
    yield* broken.send(new Uint8Array([1]))
    assert.strictEqual((yield* Effect.flip(Stream.runDrain(broken.received)))._tag, "ConnectionBroken")
    yield* Effect.scoped(Effect.flatMap(connection.connect(port), ({ received }) => Stream.runDrain(Stream.take(received, 1))))
    assert.isFalse(yield* Deferred.await(left), "the server took it for the end")
  })))

it.live("carries 32 connections at most, and further ones after one has ended", () =>
  Effect.scoped(Effect.gen(function*() {
    const { port } = yield* echo
    const { connection } = yield* runnerOf({ uid, gid })
    yield* Effect.scoped(Effect.gen(function*() {
      yield* Effect.forEach(Array.from({ length: 32 }), () => connection.connect(port))
      assert.strictEqual((yield* Effect.flip(connection.connect(port)))._tag, "TooManyConnections")
    }))
    yield* Effect.retry(connection.connect(port), { while: ({ _tag }) => _tag === "TooManyConnections" })
  })))

it.live("refuses the runner's own port, even to its own user", () =>
  Effect.scoped(Effect.gen(function*() {
    const { connection, told } = yield* runnerOf({ uid, gid })
    assert.strictEqual((yield* Effect.flip(connection.connect(told.port)))._tag, "PortClosed")
  })))

it.live("refuses a closed port, and a socket of another user", () =>
  Effect.scoped(Effect.gen(function*() {
    const { port } = yield* echo
    const { connection } = yield* runnerOf({ uid, gid })
    assert.strictEqual((yield* Effect.flip(connection.connect(1)))._tag, "PortClosed")
    const stranger = yield* runnerOf(uid === 0 ? { uid: 65_533, gid: 65_533 } : undefined)
    assert.strictEqual((yield* Effect.flip(stranger.connection.connect(port)))._tag, "PortClosed")
  })))

it.live("refuses every port where the runner has no user of the sandbox", () =>
  Effect.scoped(Effect.gen(function*() {
    const { port } = yield* echo
    const { connection } = yield* runnerOf(undefined)
    assert.strictEqual((yield* Effect.flip(connection.connect(port)))._tag, "PortClosed")
  })))
