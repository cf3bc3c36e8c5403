import { assert, it } from "@effect/vitest"
import { LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type ByteConnection, ConnectionBroken, PortClosed } from "@slipway/domain/sandbox/ports/BoxConnection"
import { BoxPorts, LocalBoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import * as SocketConnection from "@slipway/machine/network/SocketConnection"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Deferred, Effect, Exit, Layer, Redacted, Scope, Stream } from "effect"
import { request as httpRequest } from "node:http"
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import * as BoxPortsLink from "../src/channel/BoxPortsLink.ts"
import * as ChannelProtocol from "../src/channel/ChannelProtocol.ts"
import * as LinkAddresses from "../src/LinkAddresses.ts"
import * as Protocol from "../src/LinkProtocol.ts"
import { parse } from "../src/PrivateAddress.ts"
import { addressOf, beside, database, lease, MACHINE, server, WORKER } from "./Links.ts"

const id = SandboxId.make("c_aaaaaaaaaaaa")
const MiB = 2 ** 20

/** A server of the box. */
const listening = (accept: (socket: Socket) => void) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const made = createServer({ allowHalfOpen: true }, (socket) => {
          socket.on("error", () => {})
          accept(socket)
        }).listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) => Effect.sync(() => made.close())
    ),
    (made) => (made.address() as AddressInfo).port
  )

/** Boxes whose ports are those of this machine. */
const boxes = (connected: () => void = () => {}) =>
  Layer.succeed(LocalBoxPorts, {
    connect: (_, port) =>
      Effect.acquireRelease(
        Effect.callback<Socket, PortClosed>((resume) => {
          const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
          socket.once("connect", () => resume(Effect.succeed(socket)))
          socket.once("error", () => resume(Effect.fail(new PortClosed({ port }))))
        }),
        (socket) => Effect.sync(() => socket.resetAndDestroy())
      ).pipe(Effect.tap(() => Effect.sync(connected)), Effect.map(SocketConnection.of))
  })

const trees = Layer.mock(LocalTrees, {})
const worker = (connected?: () => void) =>
  Effect.andThen(
    Layer.build(server(WORKER, MACHINE, boxes(connected)).pipe(Layer.provide([trees, beside()]))),
    lease(id)
  )

const ports = (limits = {}) => Effect.provide(BoxPorts, BoxPortsLink.layer({ own: null, limits }))
const reached = (port: number, limits = {}) => Effect.flatMap(ports(limits), ({ connect }) => connect(id, port))

const textOf = ({ received }: ByteConnection) => Effect.map(Stream.runCollect(received), (chunks) => Buffer.concat([...chunks]).toString())
const bytes = (text: string) => new TextEncoder().encode(text)

/** One `CONNECT` as any client could send it; the status of its answer. */
const knock = Effect.fnUntraced(function*(body: string, proof: string, path = ChannelProtocol.AUTHORITY) {
  const { host, port } = parse(yield* addressOf(id)) ?? { host: "", port: 0 }
  return yield* Effect.callback<number | undefined>((resume) => {
    const headers = { host: "x", authorization: proof, [ChannelProtocol.REQUEST_HEADER]: Buffer.from(body).toString("base64url") }
    httpRequest({ host, port, method: "CONNECT", path, headers, agent: false }).on("connect", ({ statusCode }, socket) => {
      socket.destroy()
      resume(Effect.succeed(statusCode))
    }).on("error", (error) => resume(Effect.die(error))).end()
  })
})

it.layer(database, { excludeTestServices: true })("a channel to the worker of a sandbox", (it) => {
  it.effect("passes bytes both ways, and each half ends by itself", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* worker()
      const port = yield* listening((socket) => {
        let said = ""
        // Answers after the end of what it was sent.
        socket.on("data", (chunk) => said += chunk).on("end", () => socket.end(`you said ${said}`))
      })
      const connection = yield* reached(port)
      yield* connection.send(bytes("hello "))
      yield* connection.send(bytes("box"))
      yield* connection.endInput
      assert.strictEqual(yield* textOf(connection), "you said hello box")
    })))

  it.effect("passes no more than is read", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* worker()
      const size = 100 * MiB
      let sent = 0
      const port = yield* listening((socket) => {
        const chunk = Buffer.alloc(65_536)
        const more = () => {
          while (sent < size) {
            sent += chunk.length
            if (!socket.write(chunk)) return
          }
          socket.end()
        }
        socket.on("drain", more)
        more()
      })
      const connection = yield* reached(port)
      let received = 0
      let ahead = 0
      yield* Stream.runForEach(connection.received, (chunk) =>
        Effect.gen(function*() {
          // Time for what can be sent ahead.
          if (received === 0) yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.scoped(Effect.ignore(reached(1))))
          received += chunk.length
          ahead = Math.max(ahead, sent - received)
        }))
      assert.strictEqual(received, size)
      assert.isBelow(ahead, 32 * MiB)
    })))

  it.effect("says that no server listens, and that the sandbox does not run", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* worker()
      const closed = yield* Effect.flip(reached(1))
      assert.deepInclude(closed, { _tag: "PortClosed", port: 1 })
      const { connect } = yield* ports()
      assert.strictEqual((yield* Effect.flip(connect(SandboxId.make("c_bbbbbbbbbbbb"), 1)))._tag, "BoxNotRunning")
    })))

  it.effect("breaks in the box when its client leaves, and for the client when the server resets it or the worker ends", () =>
    Effect.scoped(Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Scope.provide(worker(), scope)
      const left = yield* Deferred.make<void>()
      const port = yield* listening((socket) => {
        socket.resume().write("hello")
        socket.once("close", () => Effect.runSync(Deferred.succeed(left, undefined)))
      })
      yield* Effect.scoped(Effect.flatMap(reached(port), ({ received }) => Stream.runDrain(Stream.take(received, 1))))
      yield* Deferred.await(left)

      const reset = yield* reached(yield* listening((socket) => socket.once("data", () => socket.resetAndDestroy())))
      yield* reset.send(bytes("hello"))
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(reset.received)), ConnectionBroken)

      const connection = yield* reached(port)
      const broken = yield* Effect.flip(Stream.runForEach(connection.received, () => Scope.close(scope, Exit.void)))
      assert.instanceOf(broken, ConnectionBroken)
    })))

  it.effect("is opened once by a client that knows the secret, for the worker that it names", () =>
    Effect.scoped(Effect.gen(function*() {
      let opened = 0
      yield* worker(() => opened++)
      const port = yield* listening((socket) => socket.end())
      const key = yield* SharedSecret.load(Protocol.SECRET)
      const bodyOf = (changes: object = {}) =>
        JSON.stringify({ worker: WORKER, sandboxId: id, wanted: { operation: "port", port }, at: Date.now(), nonce: "n", ...changes })
      const proofOf = (body: string) => Protocol.proofOfRequest(key, ChannelProtocol.LABEL + body)
      const body = bodyOf()
      for (const wrong of ["", `${proofOf(body)}0`, proofOf(bodyOf({ nonce: "m" })), Protocol.proofOfRequest(key, body)]) {
        assert.strictEqual(yield* knock(body, wrong), 401)
      }
      assert.strictEqual(yield* knock(body, Protocol.proofOfRequest(Redacted.make("another"), ChannelProtocol.LABEL + body)), 401)
      const old = bodyOf({ at: Date.now() - 2 * Protocol.MAX_AGE_MILLIS, nonce: "old" })
      assert.strictEqual(yield* knock(old, proofOf(old)), 401)
      const unknown = bodyOf({ wanted: { operation: "shell" }, nonce: "shell" })
      assert.strictEqual(yield* knock(unknown, proofOf(unknown)), 400)
      const elsewhere = bodyOf({ worker: "worker-2", nonce: "elsewhere" })
      assert.strictEqual(yield* knock(elsewhere, proofOf(elsewhere)), Protocol.REFUSED)
      assert.strictEqual(yield* knock(body, proofOf(body), "example.com:443"), 404)
      assert.strictEqual(opened, 0)
      assert.strictEqual(yield* knock(body, proofOf(body)), 200)
      assert.strictEqual(yield* knock(body, proofOf(body)), 401)
      assert.strictEqual(opened, 1)
    })))

  it.effect("is not trusted if the other side cannot prove that it is a worker, or says nothing", () =>
    Effect.scoped(Effect.gen(function*() {
      for (const answer of ["HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.1 200 OK\r\nslipway-proof: 0\r\n\r\nhello", ""]) {
        const port = yield* listening((socket) => socket.once("data", () => answer !== "" && socket.write(answer)))
        yield* Effect.flatMap(LinkAddresses.make, (links) => links.publish(WORKER, MACHINE, `127.0.0.1:${port}`))
        yield* lease(id)
        assert.strictEqual((yield* Effect.flip(reached(1, { answerMillis: 100 })))._tag, "WorkerUnreachable")
      }
    })))

  it.effect("is not needed for a box of the same process", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* lease(id)
      const here = LocalBoxPorts.of({ connect: (_, port) => new PortClosed({ port }) })
      const { connect } = yield* Effect.provide(BoxPorts, BoxPortsLink.layer({ own: { worker: WORKER, here } }))
      assert.strictEqual((yield* Effect.flip(connect(id, 7)))._tag, "PortClosed")
    })))
})
