/** The other end of a sandbox's socket, spoken to as a box does. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { execFile } from "node:child_process"
import { mkdirSync, statSync } from "node:fs"
import { createServer as createHttpServer } from "node:http"
import { connect, createServer, type Server, type Socket } from "node:net"
import { join } from "node:path"
import { duplexPair } from "node:stream"
import { text } from "node:stream/consumers"
import { promisify } from "node:util"
import * as Egress from "../../src/egress/Egress.ts"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

const served = <S extends Server>(make: () => S) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: S; readonly port: number }>((resume) => {
      const server = make()
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({ server, port: address !== null && typeof address === "object" ? address.port : 0 }))
      })
    }),
    ({ server }) => Effect.sync(() => server.close())
  )

/** Greets every client, and echoes its input. */
const site = served(() =>
  createServer((socket) => {
    socket.on("error", () => {})
    socket.write("hello\n")
    socket.pipe(socket)
  })
)

/** All that comes back until `until` is in it or the other side ends. */
const speak = (socket: string, text: string, until = "\u0000") =>
  Effect.callback<string>((resume) => {
    const client = connect(socket)
    let heard = ""
    client.on("data", (bytes) => {
      heard += bytes.toString()
      if (heard.includes(until)) client.destroy()
    })
    client.on("error", () => {})
    client.once("close", () => resume(Effect.succeed(heard)))
    client.write(text)
  })

const opened = Effect.fnUntraced(
  function*(allow: string, addresses: Record<string, ReadonlyArray<string>> = {}, bounds: Partial<Egress.Options> = {}) {
    const folder = yield* temporaryFolder
    const asked: Array<string> = []
    const services = yield* Layer.build(Egress.layer({
      ...bounds,
      allow: new Set(allow === "" ? [] : allow.split(",")),
      lookup: async (name) => {
        asked.push(name)
        return addresses[name] ?? []
      },
      // Loopback stands for the internet.
      mayConnect: (address) => address === "127.0.0.1"
    }))
    const egress = Context.get(services, Egress.Egress)
    const socket = join(folder, "egress.sock")
    yield* egress.listen({ sandboxId, socket, owner: null })
    return { asked, egress, socket, folder }
  }
)

const CONNECT = (target: string) => `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/u.exec(answer)?.[1])

describe("Proxy", () => {
  it.live("connects to a name that is allowed, and carries bytes both ways", () =>
    Effect.gen(function*() {
      const { port } = yield* site
      const { egress, socket } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] })
      const answer = yield* speak(socket, `${CONNECT(`Allowed.TEST:${port}`)}again\n`, "again")
      assert.match(answer, /^HTTP\/1\.1 200 .*\r\n\r\nhello\nagain\n$/su)
      assert.strictEqual(yield* egress.refusals(sandboxId), 0)
    }))

  it.live.each(
    [
      ["a name that is not on the list", "other.test:443"],
      ["another port of a name on the list", "allowed.test:22"],
      ["an address", "127.0.0.1:443"],
      ["an address of IPv6", "[::1]:443"],
      ["an address as one number", "2130706433:443"],
      ["the metadata service", "169.254.169.254:80"],
      ["a name below one on the list", "a.allowed.test:443"],
      ["a name with a dot at its end", "allowed.test.:443"],
      ["nonsense", "//allowed.test:443"]
    ] as const
  )("refuses %s, without asking for its address", ([, target]) =>
    Effect.gen(function*() {
      const { asked, egress, socket } = yield* opened("allowed.test:443", { "allowed.test.": ["127.0.0.1"] })
      const answer = yield* speak(socket, CONNECT(target))
      assert.include([400, 403], statusOf(answer))
      assert.deepStrictEqual(asked, [])
      assert.strictEqual(yield* egress.refusals(sandboxId), 1)
    }))

  it.live.each(
    [
      ["only", ["10.0.0.1"]],
      ["first", ["10.0.0.1", "127.0.0.1"]],
      ["last", ["127.0.0.1", "169.254.169.254"]],
      ["mapped", ["::ffff:127.0.0.1"]]
    ] as const
  )("refuses an allowed name with a private address: %s", ([, addresses]) =>
    Effect.gen(function*() {
      const { port } = yield* site
      const { egress, socket } = yield* opened(`allowed.test:${port}`, { "allowed.test.": addresses })
      assert.strictEqual(statusOf(yield* speak(socket, CONNECT(`allowed.test:${port}`))), 403)
      assert.strictEqual(yield* egress.refusals(sandboxId), 1)
    }))

  it.live("looks a name up once for each connection, and goes to the address it has checked", () =>
    Effect.gen(function*() {
      const { port } = yield* site
      const { asked, socket } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] })
      yield* speak(socket, CONNECT(`allowed.test:${port}`), "hello")
      assert.deepStrictEqual(asked, ["allowed.test."])
    }))

  it.live("passes a plain request on to a name that is allowed with its port, over a connection of its own", () =>
    Effect.gen(function*() {
      const { port } = yield* served(() =>
        createHttpServer((request, response) => {
          response.setHeader("connection", "keep-alive")
          response.write(`${request.method} ${request.url} ${request.headers.host} ${request.headers["proxy-authorization"]} `)
          request.pipe(response)
        })
      )
      const { egress, socket } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] })
      const answer = yield* speak(
        socket,
        `PUT http://Allowed.test:${port}/a/../b?c#d HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: x\r\nContent-Length: 4\r\n` +
          "Connection: close\r\n\r\nbody"
      )
      assert.strictEqual(statusOf(answer), 200)
      assert.include(answer, `PUT /b?c allowed.test:${port} undefined `)
      assert.include(answer, "body")
      assert.strictEqual(yield* egress.refusals(sandboxId), 0)
    }))

  it.live.each(
    [
      ["a name that is not on the list", "http://other.test:443/", 403],
      ["a name on the list without its port", "http://allowed.test/", 403],
      ["another scheme", "https://allowed.test:443/", 403],
      ["a name with a password", "http://me:secret@allowed.test:443/", 403],
      ["an address", "http://127.0.0.1:443/", 403],
      ["an allowed name with a private address", "http://private.test:443/", 403],
      ["an allowed name without an address", "http://none.test:443/", 502]
    ] as const
  )("refuses a plain request for %s, and does not lead it to the model gateway", ([, url, status]) =>
    Effect.gen(function*() {
      const { egress, socket } = yield* opened("allowed.test:443,private.test:443,none.test:443", {
        "allowed.test.": ["127.0.0.1"],
        "private.test.": ["10.0.0.1"]
      })
      const gateway = yield* served(() => createHttpServer((_, response) => response.end()))
      yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${gateway.port}`))
      const answer = yield* speak(socket, `GET ${url} HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n`)
      assert.strictEqual(statusOf(answer), status)
      assert.strictEqual(yield* egress.refusals(sandboxId), 1)
    }))

  it.live("says in the first line of an answer why it refuses, since programs show nothing else of it", () =>
    Effect.gen(function*() {
      const { socket } = yield* opened("allowed.test:443")
      const why = "Slipway: other.test:443 is not on the list of what sandboxes may reach, which its operator keeps."
      for (const request of [CONNECT("other.test:443"), "GET http://other.test:443/ HTTP/1.1\r\nHost: other.test\r\n\r\n"]) {
        assert.strictEqual((yield* speak(socket, request)).split("\r\n")[0], `HTTP/1.1 403 ${why}`)
      }
    }))

  it.live("is what Node's fetch and http go through in an environment of a box", () =>
    Effect.gen(function*() {
      const { port } = yield* served(() => createHttpServer((request, response) => response.end(`${request.headers.host} `)))
      const { egress } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] })
      const serve = yield* egress.serve(SandboxId.make("c_bbbbbbbbbbbb"))
      const box = yield* served(() => createServer({ allowHalfOpen: true }, serve))
      const program = `const http = require("node:http")
        fetch(process.argv[1]).then((reply) => reply.text()).then(console.log).then(() =>
          http.get(process.argv[1], (reply) => reply.pipe(process.stdout)))`
      const env = Object.entries({ ...Egress.runtimes, ...Egress.environment }).map((
        [name, value]
      ) => [name, value.replaceAll(`:${Egress.PORT}`, `:${box.port}`)])
      const { stderr, stdout } = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, ["-e", program, `http://allowed.test:${port}/`], { env: Object.fromEntries(env) })
      )
      assert.deepStrictEqual([stdout, stderr], [`allowed.test:${port} \nallowed.test:${port} `, ""])
    }))

  it.live("answers 502 for what has no address and for what does not answer", () =>
    Effect.gen(function*() {
      const { port, server } = yield* site
      const { egress, socket } = yield* opened(`allowed.test:${port},none.test:443`, { "allowed.test.": ["127.0.0.1"] })
      yield* Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
      })
      assert.strictEqual(statusOf(yield* speak(socket, CONNECT(`allowed.test:${port}`))), 502)
      assert.strictEqual(statusOf(yield* speak(socket, CONNECT("none.test:443"))), 502)
      assert.strictEqual(yield* egress.refusals(sandboxId), 2)
    }))

  it.live("leads to the model gateway while there is a session, and nowhere else", () =>
    Effect.gen(function*() {
      const gateway = yield* served(() =>
        createHttpServer((request, response) => {
          response.setHeader("content-type", "text/event-stream")
          response.write(`${request.method} ${request.url} ${request.headers.host?.split(":")[0]} ${request.headers.authorization} `)
          request.pipe(response)
        })
      )
      const { egress, socket } = yield* opened("")
      const ask = speak(
        socket,
        "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nAuthorization: Bearer token\r\n" +
          "Connection: close\r\nContent-Length: 4\r\n\r\nbody"
      )
      assert.strictEqual(statusOf(yield* ask), 403)
      assert.isFalse(yield* egress.isOpen(sandboxId))
      yield* Effect.scoped(Effect.gen(function*() {
        yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${gateway.port}`))
        assert.isTrue(yield* egress.isOpen(sandboxId))
        assert.isFalse(yield* egress.isOpen(SandboxId.make("c_bbbbbbbbbbbb")))
        const answer = yield* ask
        assert.strictEqual(statusOf(answer), 200)
        assert.match(answer, /POST \/v1\/messages 127\.0\.0\.1 Bearer token[\s\S]*body/u)
      }))
      assert.strictEqual(statusOf(yield* ask), 403)
    }))

  it.live("leads a path to the gateway with the longest prefix, as long as that is open", () =>
    Effect.gen(function*() {
      const { egress, socket } = yield* opened("")
      const gatewayOf = (name: string) => served(() => createHttpServer((_, response) => response.end(name)))
      const [model, mcp] = [yield* gatewayOf("the model"), yield* gatewayOf("the servers")]
      const ask = (path: string) => speak(socket, `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nConnection: close\r\n\r\n`)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${mcp.port}`), "/mcp/")
        assert.match(yield* ask("/mcp/wiki"), /the servers/u)
        assert.strictEqual(statusOf(yield* ask("/v1/models")), 403)
        yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${model.port}`))
        assert.match(yield* ask("/mcp/wiki"), /the servers/u)
        for (const path of ["/v1/models", "/mcp", "/MCP/wiki"]) assert.match(yield* ask(path), /the model/u)
      }))
      assert.strictEqual(statusOf(yield* ask("/mcp/wiki")), 403)
    }))

  /** The part of a box's output that arrives at the gateway, and the number of connections for it. */
  const written = (text: string) =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      let connections = 0
      const gateway = yield* served(() =>
        createHttpServer((request, response) => {
          let body = ""
          request.on("data", (chunk: Buffer) => {
            body += chunk.toString()
          })
          request.on("end", () => {
            asked.push(`${request.method} ${request.url} ${body}`)
            response.end("answer")
          })
        }).on("connection", () => {
          connections++
        })
      )
      const { egress, socket } = yield* opened("")
      yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${gateway.port}`))
      return { heard: yield* speak(socket, text), asked, connections }
    })

  const SECOND = "GET /v1/second HTTP/1.1\r\nHost: x\r\n\r\n"
  const chunked = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

  it.live.each(
    [
      ["a chunked body of a GET", `GET /v1/models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(SECOND)}`],
      ["a body of a GET with its length", `GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: ${SECOND.length}\r\n\r\n${SECOND}`],
      ["a chunked body of a DELETE", `DELETE /v1/models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(SECOND)}`],
      ["a length beside chunks",
        `POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(SECOND)}`],
      ["two lengths", `POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nHello!`],
      ["another encoding", `POST /v1/models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n${chunked(SECOND)}`]
    ] as const
  )("makes no request out of %s", ([, text]) =>
    Effect.gen(function*() {
      const { asked, heard } = yield* written(text)
      assert.deepStrictEqual(asked, [])
      assert.strictEqual(statusOf(heard), 400)
      // And the connection is over.
      assert.strictEqual(heard.split("HTTP/1.1 ").length, 2)
    }))

  it.live("passes a chunked body of a POST on as a body, each request over a connection of its own", () =>
    Effect.gen(function*() {
      const POST = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(SECOND)}`
      const { asked, connections } = yield* written(`${POST}GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
      assert.deepStrictEqual(asked, [`POST /v1/messages ${SECOND}`, "GET /v1/models "])
      assert.strictEqual(connections, 2)
    }))

  it.live("takes so many connections of a box, and drops those that say nothing", () =>
    Effect.gen(function*() {
      const { egress, socket } = yield* opened("", {}, { maxConnections: 3, headMillis: 200 })
      const silent = [1, 2, 3].map(() => connect(socket))
      const ended = silent.map((client) => new Promise<void>((resolve) => client.on("error", () => {}).once("close", () => resolve())))
      yield* Effect.promise(() => Promise.all(silent.map((client) => new Promise((resolve) => client.once("connect", resolve)))))
      assert.strictEqual(yield* speak(socket, CONNECT("allowed.test:443")), "")
      assert.strictEqual(yield* egress.refusals(sandboxId), 1)
      for (const client of silent) client.resume()
      yield* Effect.promise(() => Promise.all(ended))
      assert.strictEqual(statusOf(yield* speak(socket, CONNECT("allowed.test:443"))), 403)
    }))

  it.live("passes each piece of an answer on as it comes", () =>
    Effect.gen(function*() {
      let more = () => {}
      const gateway = yield* served(() =>
        createHttpServer((_, response) => {
          response.write("first")
          more = () => response.end("second")
        })
      )
      const { egress, socket } = yield* opened("")
      yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${gateway.port}`))
      const heard = yield* Effect.callback<string>((resume) => {
        const client = connect(socket)
        let text = ""
        client.on("data", (bytes) => {
          text += bytes.toString()
          if (text.includes("first")) more()
        })
        client.once("close", () => resume(Effect.succeed(text)))
        client.write("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      })
      assert.include(heard, "second")
    }))

  it.live("is closed, with the connections it made, when its sandbox ends", () =>
    Effect.gen(function*() {
      const { port } = yield* site
      const folder = yield* temporaryFolder
      const socket = join(folder, "egress.sock")
      const heard = yield* Effect.gen(function*() {
        const egress = yield* Egress.Egress
        const client = yield* Effect.scoped(Effect.gen(function*() {
          yield* egress.listen({ sandboxId, socket, owner: null })
          const client = connect(socket)
          const closed = new Promise<string>((resolve) => client.once("close", () => resolve("closed")))
          client.on("error", () => {})
          yield* Effect.callback<void>((resume) => {
            client.once("data", () => resume(Effect.void))
            client.write(CONNECT(`allowed.test:${port}`))
          })
          return { closed }
        }))
        return yield* Effect.promise(() => client.closed)
      }).pipe(
        Effect.provide(
          Egress.layer({ allow: new Set([`allowed.test:${port}`]), lookup: async () => ["127.0.0.1"], mayConnect: () => true })
        )
      )
      assert.strictEqual(heard, "closed")
      assert.throws(() => statSync(socket))
    }))

  it.live("serves connections that came without a socket as those that came by one, as many at once, and none once it is closed", () =>
    Effect.gen(function*() {
      const { port } = yield* site
      const { egress } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] }, { maxConnections: 2 })
      const other = SandboxId.make("c_bbbbbbbbbbbb")
      const scope = yield* Scope.make()
      const serve = yield* Scope.provide(egress.serve(other), scope)
      /** The box's end of a connection, and all that it hears until that is over. */
      const connected = () => {
        const [box, proxy] = duplexPair()
        const heard = new Promise<string>((resolve) => {
          let text = ""
          box.on("data", (bytes: Buffer) => {
            text += bytes.toString()
            if (text.includes("hello")) box.destroy()
          })
          box.once("close", () => resolve(text))
          box.once("end", () => box.destroy())
        })
        proxy.once("close", () => box.destroy())
        serve(proxy)
        return { box, heard: Effect.promise(() => heard) }
      }
      const [first, second, third] = [connected(), connected(), connected()]
      assert.strictEqual(yield* third.heard, "")
      assert.strictEqual(yield* egress.refusals(other), 1)
      first.box.write(CONNECT(`allowed.test:${port}`))
      assert.match(yield* first.heard, /^HTTP\/1\.1 200 .*hello/su)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* second.heard, "")
      assert.strictEqual(yield* connected().heard, "")
    }))

  /** A tunnel through the proxy that came without a socket, so that only the proxy keeps what its reader has not read. */
  const tunnelTo = (target: (socket: Socket) => void) =>
    Effect.gen(function*() {
      const { port } = yield* served(() => createServer({ allowHalfOpen: true }, (socket) => target(socket.on("error", () => {}))))
      const { egress } = yield* opened(`allowed.test:${port}`, { "allowed.test.": ["127.0.0.1"] })
      const serve = yield* egress.serve(SandboxId.make("c_bbbbbbbbbbbb"))
      const [box, proxy] = duplexPair({ readableHighWaterMark: 1, writableHighWaterMark: 65_536 })
      serve(proxy)
      box.write(CONNECT(`allowed.test:${port}`))
      return { box, proxy }
    })

  it.live.each(
    [["has ended its half", ""], ["goes on writing without a reader", "more"]] as const
  )("carries all that a site said before it left to a box that reads later and %s", ([, more]) =>
    Effect.gen(function*() {
      const { box, proxy } = yield* tunnelTo((socket) => socket.end("x".repeat(20_000), () => socket.destroy()))
      const turn = () => new Promise(setImmediate)
      if (more === "") box.end()
      yield* Effect.promise(async () => {
        while (!proxy.writableEnded) await turn()
        for (let i = 0; i < 20; i++) {
          if (more !== "") box.write(more)
          await turn()
        }
      })
      const heard = yield* Effect.promise(() => text(box))
      assert.strictEqual(heard.replace(/^HTTP[\s\S]*?\r\n\r\n/u, "").length, 20_000)
      yield* Effect.promise(() => new Promise<void>((resolve) => proxy.destroyed ? resolve() : proxy.once("close", resolve)))
    }))

  it.live("carries what a box says after the site ended its half", () =>
    Effect.gen(function*() {
      const heard = Promise.withResolvers<string>()
      const { box } = yield* tunnelTo((socket) => {
        socket.end("enough")
        heard.resolve(text(socket))
      })
      assert.match(yield* Effect.promise(() => text(box)), /enough$/u)
      box.end("the rest")
      assert.strictEqual(yield* Effect.promise(() => heard.promise), "the rest")
    }))

  it.live("listens for its owner alone, however long the path, and takes the place of what a killed worker left", () =>
    Effect.gen(function*() {
      const folder = join(yield* temporaryFolder, "a-folder-with-a-long-name".repeat(6))
      mkdirSync(folder)
      const socket = join(folder, "egress.sock")
      yield* Effect.gen(function*() {
        const egress = yield* Egress.Egress
        for (let i = 0; i < 2; i++) yield* egress.listen({ sandboxId, socket, owner: null })
        assert.strictEqual(statSync(socket).mode & 0o777, 0o600)
      }).pipe(Effect.scoped, Effect.provide(Egress.layer({ allow: new Set() })))
    }))
})
