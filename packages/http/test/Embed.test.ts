/** The service within other servers: through a web `Request`, and through the requests and responses of Node. */
import { afterAll, assert, describe, it } from "@effect/vitest"
import { serve } from "@hono/node-server"
import { getConnInfo } from "@hono/node-server/conninfo"
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BeforeCreate, CreationDenied } from "@slipway/domain/sandbox/ports/BeforeCreate"
import { SandboxNotFound, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Embed from "@slipway/http/Embed"
import * as TestSlipway from "@slipway/worker/testing/TestSlipway"
import { Deferred, Duration, Effect, Exit, Layer, Redacted, Stream } from "effect"
import express from "express"
import fastify from "fastify"
import { Hono } from "hono"
import { createServer, request, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import * as PreviewOrigin from "../src/server/PreviewOrigin.ts"
import { creation, drive, fieldsOf, given, SANDBOXES, services, turnOf } from "../testing/Harness.ts"

interface Listening {
  readonly port: number
  stop(): Promise<unknown>
}

const listening = (server: Server) =>
  new Promise<Listening>((resolve) =>
    server.listen(0, "127.0.0.1", () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        stop: () => {
          server.closeAllConnections()
          return new Promise((stopped) => server.close(stopped))
        }
      }))
  )

/** Each also answers `/own` itself. */
const hosts: Record<string, (slipway: Embed.Embedded, prefix: string) => Promise<Listening>> = {
  "node:http": (slipway, prefix) =>
    listening(createServer((request, response) => {
      if (request.url === "/own") response.end("own")
      else if (request.url?.startsWith(`${prefix}/`) === true) slipway.node(request, response)
      else response.writeHead(404).end()
    })),
  Express: (slipway, prefix) => {
    const app = express()
    app.get("/own", (_request, response) => void response.send("own"))
    app.use(prefix === "" ? "/" : prefix, slipway.node)
    return listening(createServer(app))
  },
  Fastify: async (slipway, prefix) => {
    const app = fastify()
    app.get("/own", () => "own")
    app.register(async (mount) => {
      mount.removeAllContentTypeParsers()
      mount.addContentTypeParser("*", (_request, _payload, done) => done(null))
      mount.all("/*", (request, reply) => {
        reply.hijack()
        slipway.node(request.raw, reply.raw)
      })
    }, { prefix })
    await app.listen({ host: "127.0.0.1", port: 0 })
    return {
      port: (app.server.address() as AddressInfo).port,
      stop: () => {
        app.server.closeAllConnections()
        return app.close()
      }
    }
  },
  Hono: (slipway, prefix) => {
    const app = new Hono()
    app.get("/own", (c) => c.text("own"))
    app.all(`${prefix}/*`, (c) => slipway.fetch(c.req.raw, getConnInfo(c).remote))
    return new Promise((resolve) => {
      const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) =>
        resolve({
          port,
          stop: () => {
            if ("closeAllConnections" in server) server.closeAllConnections()
            return new Promise((stopped) => server.close(stopped))
          }
        }))
    })
  }
}

/** A service with a worker, on a virtual clock. Its key has every scope. */
const service = await TestSlipway.start({ slots: 100 })
const { key, until } = service
afterAll(service.close)

/** Closed with the scope. */
const closing = <R>(make: () => Promise<Embed.Embedded<R>>) =>
  Effect.acquireRelease(Effect.promise(make), (slipway) => Effect.promise(() => slipway.close()))

/** The HTTP side on that service. */
const embedded = (options: Partial<Embed.Options> = {}) => closing(() => Embed.make(service.services, { ...given, ...options }))

/** A sandbox whose agent works and does not end. */
const running = Effect.fnUntraced(function*(ask: Asking, prefix = "") {
  const { id } = yield* bodyOf(yield* ask(prefix + SANDBOXES, { key, json: { ...creation, prompt: "[[hang]]" } }))
  yield* Effect.promise(() => until.event(id, "turn.started"))
  return SandboxId.make(id)
})

/** Nothing more happens in the sandbox. */
const end = (id: SandboxId) => Effect.promise(() => service.terminate(service.by, id).then(() => until.idle(id)))

interface Ask {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly key?: string
  readonly json?: unknown
  readonly body?: RequestInit["body"]
  readonly signal?: AbortSignal
}

const init = ({ body, headers, json, key, method, signal }: Ask): RequestInit => ({
  method: method ?? (json === undefined && body === undefined ? "GET" : "POST"),
  headers: {
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    ...(json === undefined ? {} : { "content-type": "application/json" }),
    ...headers
  },
  ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  ...(body === undefined ? {} : { body, duplex: "half" }),
  ...(signal === undefined ? {} : { signal }),
  redirect: "manual"
} as RequestInit)

type Asking = (path: string, ask?: Ask) => Effect.Effect<Response>

const through = (port: number): Asking => (path, ask = {}) => Effect.promise(() => fetch(`http://127.0.0.1:${port}${path}`, init(ask)))

const asking = (slipway: Embed.Embedded, address?: string): Asking => (path, ask = {}) =>
  Effect.promise(() => slipway.fetch(new Request(`https://slipway.test${path}`, init(ask)), { address }))

const bodyOf = (response: Response): Effect.Effect<any> => Effect.promise(() => response.json())

const refused = Effect.fnUntraced(function*(response: Response, status: number, code: string) {
  const text = yield* Effect.promise(() => response.text())
  assert.strictEqual(response.status, status, text)
  const { error, ...rest } = JSON.parse(text)
  assert.deepStrictEqual([error.code, typeof error.message, rest], [code, "string", {}])
  assert.strictEqual(response.headers.get("content-type"), "application/json; charset=utf-8")
})

/** The blocks of an event stream, one after the other; `null`: it ended. */
const blocksOf = (response: Response) => {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  assert(reader !== undefined)
  let text = ""
  const next = async (): Promise<string | null> => {
    for (;;) {
      const end = text.indexOf("\n\n")
      if (end >= 0) {
        const block = text.slice(0, end)
        text = text.slice(end + 2)
        return block
      }
      const { done, value } = await reader.read()
      if (done) return null
      text += value
    }
  }
  const rest = async () => {
    const blocks: Array<string> = []
    for (let block = await next(); block !== null; block = await next()) blocks.push(block)
    return blocks
  }
  return { next: Effect.promise(next), rest: Effect.promise(rest) }
}

const openStreams = Effect.fnUntraced(function*(ask: Asking, prefix: string) {
  const response = yield* ask(`${prefix}/metrics`, { key })
  const text = yield* Effect.promise(() => response.text())
  return Number(/^slipway_http_open_responses\{kind="stream"\} (\d+)$/mu.exec(text)?.[1])
})

for (const [name, host] of Object.entries(hosts)) {
  for (const prefix of ["", "/api"]) {
    describe(`within ${name}${prefix === "" ? "" : `, beneath ${prefix}`}`, () => {
      const served = Effect.gen(function*() {
        const slipway = yield* embedded({ publicUrl: `https://host.test${prefix}` })
        const { port } = yield* Effect.acquireRelease(
          Effect.promise(() => host(slipway, prefix)),
          (server) => Effect.promise(() => server.stop())
        )
        return { slipway, ask: through(port) }
      })

      it.live("sandboxes are created and read, and what is refused is refused in the words of the service", () =>
        Effect.scoped(Effect.gen(function*() {
          const { ask } = yield* served
          const made = yield* ask(prefix + SANDBOXES, { key, json: creation })
          assert.strictEqual(made.status, 201)
          const { id, links } = yield* bodyOf(made)
          assert.strictEqual(links.self, `https://host.test${prefix}${SANDBOXES}/${id}`)
          assert.strictEqual((yield* bodyOf(yield* ask(`${prefix}${SANDBOXES}/${id}`, { key }))).id, id)
          yield* refused(yield* ask(prefix + SANDBOXES), 401, "unauthorized")
          yield* refused(yield* ask(`${prefix}/nothing/here`), 404, "not_found")
          yield* refused(yield* ask(prefix + SANDBOXES, { key, method: "DELETE" }), 405, "method_not_allowed")
          yield* refused(
            yield* ask(prefix + SANDBOXES, { key, body: "{", headers: { "content-type": "application/json" } }),
            400,
            "invalid_request"
          )
          assert.strictEqual(yield* Effect.flatMap(ask("/own"), (own) => Effect.promise(() => own.text())), "own")
        })))

      it.live("an event stream arrives as it happens, up to its end; one whose reader leaves is closed", () =>
        Effect.scoped(Effect.gen(function*() {
          const { ask } = yield* served
          const id = yield* running(ask, prefix)
          const stream = `${prefix}${SANDBOXES}/${id}/events/stream`
          const response = yield* ask(stream, { key })
          assert.strictEqual(response.headers.get("content-type"), "text/event-stream; charset=utf-8")
          const { next, rest } = blocksOf(response)
          assert.strictEqual(yield* next, "retry: 2000")
          assert.strictEqual(fieldsOf(yield* next).data.type, "snapshot")
          const leaving = new AbortController()
          const left = yield* ask(stream, { key, signal: leaving.signal })
          yield* blocksOf(left).next
          assert.strictEqual(yield* openStreams(ask, prefix), 2)
          leaving.abort()
          yield* openStreams(ask, prefix).pipe(Effect.repeat({ until: (open) => open === 1 }), Effect.timeout("5 seconds"))
          yield* end(id)
          const types = (yield* rest).map((block) => fieldsOf(block).data?.type)
          assert.deepStrictEqual(types.slice(-3), ["turn.completed", "sandbox.checkpoint", "sandbox.status"])
        })))

      it.live("closing it tells open streams where to resume and ends them; later requests are refused", () =>
        Effect.scoped(Effect.gen(function*() {
          const { ask, slipway } = yield* served
          const { id } = yield* bodyOf(yield* ask(prefix + SANDBOXES, { key, json: creation }))
          const { next, rest } = blocksOf(yield* ask(`${prefix}${SANDBOXES}/${id}/events/stream`, { key }))
          yield* next
          yield* Effect.promise(() => slipway.close())
          const last = (yield* rest).at(-1) ?? null
          assert.deepStrictEqual([fieldsOf(last).data.type, fieldsOf(last).data.data.reason], ["stream.resync", "shutdown"])
          yield* refused(yield* ask(prefix + SANDBOXES, { key }), 503, "unavailable")
        })))
    })
  }
}

it.live("has no terminals, whatever the services have, and says so also to a WebSocket", () =>
  Effect.scoped(Effect.gen(function*() {
    const terminals = Layer.succeed(Terminals, { attach: () => Effect.die("attached") })
    const slipway = yield* closing(() => Embed.make(Layer.merge(service.services, terminals), given))
    const { port } = yield* Effect.acquireRelease(
      Effect.promise(() => listening(createServer(slipway.node))),
      (server) => Effect.promise(() => server.stop())
    )
    const { id } = yield* bodyOf(yield* asking(slipway)(SANDBOXES, { key, json: creation }))
    const path = `${SANDBOXES}/${id}/terminal`
    yield* refused(yield* asking(slipway)(path, { key }), 403, "terminal_off")
    yield* refused(yield* through(port)(path, { key }), 403, "terminal_off")
    const headers = {
      authorization: `Bearer ${key}`,
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="
    }
    const answered = yield* Effect.callback<number | undefined>((resume) => {
      const asked = request({ host: "127.0.0.1", port, path, headers })
      asked.on("response", ({ statusCode }) => resume(Effect.succeed(statusCode)))
      asked.on("upgrade", (_response, socket) => {
        socket.destroy()
        resume(Effect.succeed(101))
      })
      asked.end()
    })
    assert.strictEqual(answered, 403)
  })))

it.live("has no previews: their hosts are answered as any other host", () =>
  Effect.scoped(Effect.gen(function*() {
    const origins = PreviewOrigin.parse("https://*.preview.test") ?? assert.fail("no origins")
    const slipway = yield* embedded({ previews: { origins, key: Redacted.make("k".repeat(32)) } })
    const ask = (path: string) =>
      Effect.promise(() =>
        slipway.fetch(new Request(`https://3000-aaaaaaaaaaaa.preview.test${path}`, { headers: { authorization: `Bearer ${key}` } }))
      )
    yield* refused(yield* ask("/"), 404, "not_found")
    assert.strictEqual((yield* ask(SANDBOXES)).status, 200)
  })))

it.live("what a framework puts in the way of a response is given all of an event stream", () =>
  Effect.scoped(Effect.gen(function*() {
    const slipway = yield* embedded()
    let written = ""
    const app = express()
    app.use((_request, response, next) => {
      const write = response.write.bind(response)
      response.write = (chunk: string | Uint8Array) => {
        written += Buffer.from(chunk).toString()
        return write(chunk)
      }
      next()
    })
    app.use(slipway.node)
    const { port } = yield* Effect.acquireRelease(
      Effect.promise(() => listening(createServer(app))),
      (server) => Effect.promise(() => server.stop())
    )
    const ask = through(port)
    const id = yield* running(ask)
    const { next, rest } = blocksOf(yield* ask(`${SANDBOXES}/${id}/events/stream`, { key }))
    assert.strictEqual(yield* next, "retry: 2000")
    written = ""
    yield* next
    yield* end(id)
    const blocks = yield* rest
    assert.isAbove(blocks.length, 2)
    for (const block of blocks.slice(-3)) assert.include(written, block)
  })))

const CHUNK = new Uint8Array(64 * 1024).fill(97)

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  open: (_key, path) =>
    Effect.succeed({
      size: CHUNK.length * 40,
      bytes: path === "endless"
        ? Stream.concat(Stream.succeed(CHUNK), Stream.never)
        : Stream.range(1, 40).pipe(Stream.map(() => CHUNK))
    })
}

/** The HTTP side on these trees, whose clock is that of the machine, and the downloads of a running sandbox. */
const downloads = Effect.fnUntraced(function*(options: Partial<Embed.Options>) {
  const slipway = yield* closing(() => Embed.make(services({ trees }), { ...given, ...options }))
  const { key } = yield* Effect.promise(() =>
    slipway.access.createKey({ grant: "acme", label: "test", scopes: ["sandboxes"], kind: "live" })
  )
  const { id } = yield* bodyOf(yield* asking(slipway)(SANDBOXES, { key, json: creation }))
  const turn = yield* Effect.promise(() => slipway.run(turnOf(id)))
  const begun = drive(id, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turn }, { _tag: "StartTurn", turnId: turn }])
  yield* Effect.promise(() => slipway.run(begun))
  const download = (path: string, more: Ask = {}) => asking(slipway)(`${SANDBOXES}/${id}/files/download?path=${path}`, { key, ...more })
  return { slipway, download }
})

describe("a web request", () => {
  it.live("with an Idempotency-Key makes one sandbox, however often it comes", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded()
      const ask = asking(slipway)
      const headers = { "idempotency-key": "once" }
      const [first, second] = [
        yield* ask(SANDBOXES, { key, headers, json: creation }),
        yield* ask(SANDBOXES, { key, headers, json: creation })
      ]
      assert.deepStrictEqual([first.status, second.status], [201, 200])
      assert.strictEqual((yield* bodyOf(first)).id, (yield* bodyOf(second)).id)
      yield* refused(yield* ask(SANDBOXES, { key, headers, json: { ...creation, prompt: "Another." } }), 409, "idempotency_conflict")
    })))

  it.live("is held to the size of a body that says none, and of its headers", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded()
      const ask = asking(slipway)
      const body = new ReadableStream({ pull: (controller) => controller.enqueue(CHUNK) })
      yield* refused(yield* ask(SANDBOXES, { key, body, headers: { "content-type": "application/json" } }), 413, "payload_too_large")
      yield* refused(yield* ask(SANDBOXES, { key, headers: { "x-long": "a".repeat(17_000) } }), 431, "headers_too_large")
      yield* refused(yield* ask(`${SANDBOXES}?limit=${"1".repeat(17_000)}`, { key }), 431, "headers_too_large")
    })))

  it.live("with two credentials has none", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded()
      const headers = new Headers([["authorization", `Bearer ${key}`], ["authorization", `Bearer ${key}`]])
      const request = new Request(`https://slipway.test${SANDBOXES}`, { headers })
      yield* refused(yield* Effect.promise(() => slipway.fetch(request)), 401, "unauthorized")
    })))

  it.live("counts for the address that its host names, or that a trusted proxy does", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded({ refusedKeysPerMinute: 1, trustedProxies: (address) => address === "10.0.0.1" })
      const statusFrom = (address: string, headers: Record<string, string> = {}) =>
        Effect.map(asking(slipway, address)(SANDBOXES, { key: "slp_live_nothing", headers }), ({ status }) => status)
      const from = (client: string) => ({ "x-forwarded-for": client })
      assert.deepStrictEqual(
        [
          yield* statusFrom("192.0.2.1"),
          yield* statusFrom("192.0.2.1", from("192.0.2.9")),
          yield* statusFrom("192.0.2.2"),
          yield* statusFrom("10.0.0.1", from("192.0.2.2")),
          yield* statusFrom("10.0.0.1", from("192.0.2.3"))
        ],
        [401, 429, 401, 429, 401]
      )
    })))

  it.live("counts against the limit of its address; from an unknown address it does not", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded({ connectionsPerAddress: 1 })
      const ask = asking(slipway, "192.0.2.1")
      const id = yield* running(ask)
      const stream = yield* ask(`${SANDBOXES}/${id}/events/stream`, { key })
      yield* refused(yield* ask("/healthz"), 429, "rate_limited")
      assert.strictEqual((yield* asking(slipway, "192.0.2.2")("/healthz")).status, 200)
      yield* Effect.promise(async () => stream.body?.cancel())
      assert.strictEqual((yield* ask("/healthz")).status, 200)
      const unknown = asking(slipway)
      yield* unknown(`${SANDBOXES}/${id}/events/stream`, { key })
      assert.strictEqual((yield* unknown("/healthz")).status, 200)
    })))

  it.live("for a stream resumes after the event that it names", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded()
      const ask = asking(slipway)
      const id = yield* running(ask)
      yield* end(id)
      const { data } = yield* bodyOf(yield* ask(`${SANDBOXES}/${id}/events`, { key }))
      const ids: ReadonlyArray<string> = data.map((event: { readonly id: string }) => event.id)
      const response = yield* ask(`${SANDBOXES}/${id}/events/stream`, { key, headers: { "last-event-id": ids[0] ?? "" } })
      const blocks = (yield* blocksOf(response).rest).map(fieldsOf)
      assert.isAbove(ids.length, 2)
      assert.deepStrictEqual(blocks.flatMap((block) => block.id ?? []), ids.slice(1))
    })))

  it.live("for a file is answered with its bytes as they are read; who takes none for too long loses the rest", () =>
    Effect.scoped(Effect.gen(function*() {
      const { download } = yield* downloads({ patience: Duration.millis(200) })
      const whole = yield* download("a")
      assert.strictEqual(whole.headers.get("content-length"), String(CHUNK.length * 40))
      assert.strictEqual((yield* Effect.promise(() => whole.arrayBuffer())).byteLength, CHUNK.length * 40)
      const left = yield* download("a")
      const reader = left.body?.getReader()
      assert(reader !== undefined)
      const broken = yield* Deferred.make<void>()
      reader.closed.catch(() => Deferred.doneUnsafe(broken, Exit.void))
      yield* Effect.timeout(Deferred.await(broken), "5 seconds")
    })))

  it.live("that is broken off ends what was done for it", () =>
    Effect.scoped(Effect.gen(function*() {
      const { download, slipway } = yield* downloads({ downloadsPerKey: 1 })
      const leaving = new AbortController()
      assert.strictEqual((yield* download("endless", { signal: leaving.signal })).status, 200)
      yield* refused(yield* download("endless"), 429, "rate_limited")
      leaving.abort()
      const again = yield* download("endless").pipe(
        Effect.repeat({ until: ({ status }) => status === 200 }),
        Effect.timeout("5 seconds")
      )
      yield* Effect.promise(async () => again.body?.cancel())
      // It would wait 8 s for what is still under way.
      yield* Effect.timeout(Effect.promise(() => slipway.close()), "4 seconds")
    })))

  it.live("may come beneath another path than that of the links, where a proxy changes it", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded({ publicUrl: "https://slipway.test/tools", prefix: "/inner" })
      const made = yield* asking(slipway)(`/inner${SANDBOXES}`, { key, json: creation })
      assert.strictEqual(made.status, 201)
      assert.match((yield* bodyOf(made)).links.self, /^https:\/\/slipway\.test\/tools\/api\//u)
    })))
})

describe("the operator of an embedding", () => {
  it.live("issues keys, revokes them, and runs effects on the services", () =>
    Effect.scoped(Effect.gen(function*() {
      const slipway = yield* embedded()
      const ask = asking(slipway)
      const { grant, key, record } = yield* Effect.promise(() =>
        slipway.access.createKey({ grant: "shop", label: "embedder", scopes: ["sandboxes"], kind: "live" })
      )
      const made = yield* ask(SANDBOXES, { key, json: creation })
      assert.strictEqual(made.status, 201)
      const id = SandboxId.make((yield* bodyOf(made)).id)
      assert.include((yield* Effect.promise(() => slipway.access.listGrants())).map(({ name }) => name), "shop")
      const found = yield* Effect.promise(() => slipway.run(SandboxStore.use((store) => store.find({ grantId: grant.id, id }))))
      assert.strictEqual(found.id, id)
      const missing = slipway.run(SandboxStore.use((store) => store.find({ grantId: "another", id })))
      assert.instanceOf(yield* Effect.promise(() => missing.catch((error: unknown) => error)), SandboxNotFound)
      yield* Effect.promise(() => slipway.access.revokeKey(record.id))
      yield* refused(yield* ask(SANDBOXES, { key }), 401, "unauthorized")
    })))

  it.live("refuses creations by a code of its own, which is 403 and leaves the Idempotency-Key free", () =>
    Effect.scoped(Effect.gen(function*() {
      let isExpired = true
      const check = Layer.succeed(
        BeforeCreate,
        () => isExpired ? Effect.fail(new CreationDenied({ code: "plan_expired", reason: "The plan has expired." })) : Effect.void
      )
      const slipway = yield* closing(() => Embed.make(services().pipe(Layer.provide(check)), given))
      const { key } = yield* Effect.promise(() =>
        slipway.access.createKey({ grant: "shop", label: "embedder", scopes: ["sandboxes"], kind: "live" })
      )
      const create = asking(slipway)(SANDBOXES, { key, headers: { "idempotency-key": "once" }, json: creation })
      const denied = yield* create
      assert.deepStrictEqual([denied.status, (yield* bodyOf(denied)).error], [403, {
        code: "plan_expired",
        message: "The plan has expired."
      }])
      isExpired = false
      assert.strictEqual((yield* create).status, 201)
      isExpired = true
      assert.strictEqual((yield* create).status, 200)
    })))
})

describe("the services of an embedding", () => {
  it.live("are there until it is closed", () =>
    Effect.gen(function*() {
      let released = 0
      const marked = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => released++)))
      const slipway = yield* Effect.promise(() => Embed.make(Layer.merge(services(), marked), given))
      assert.strictEqual((yield* asking(slipway)("/readyz")).status, 200)
      assert.strictEqual(released, 0)
      yield* Effect.promise(() => slipway.close())
      yield* Effect.promise(() => slipway.close())
      assert.strictEqual(released, 1)
    }))

  it.live("that cannot be built are named, and those that could are released", () =>
    Effect.gen(function*() {
      let released = 0
      const marked = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => released++)))
      const broken = Layer.effectDiscard(Effect.fail(new StoreUnavailable({ cause: "no database" })))
      const failed = yield* Effect.promise(() =>
        Embed.make(Layer.provideMerge(Layer.merge(services(), broken), marked), given).then(() => null, (error: unknown) => error)
      )
      assert.deepStrictEqual([failed instanceof StoreUnavailable, released], [true, 1])
    }))
})
