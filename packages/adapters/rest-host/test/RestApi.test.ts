import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import * as RestApi from "../src/RestApi.ts"

type Serve = (request: IncomingMessage, response: ServerResponse) => void

/** A server, and how many requests it got. */
const started = Effect.fnUntraced(function*(serve: Serve) {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    serve(request, response)
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return once(server.close(), "close")
      })
  )
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const host: RestApi.Host = {
    name: "host.test",
    apiUrl: `${origin}/api`,
    said: (data) => typeof data === "string" ? data : String((data as { readonly message?: string } | undefined)?.message ?? ""),
    secrets: /\bsecret-\w+/gu
  }
  return { host, origin, requests: () => requests, server }
})

const token = Redacted.make("token-0123456789")
const get: RestApi.Request = { method: "GET", path: "/one", token }

/** The failure of one request that is answered so. */
const failure = (serve: Serve, request: RestApi.Request = get) =>
  Effect.flatMap(started(serve), ({ host }) => Effect.flip(RestApi.send(host, request)))

const answering = (status: number, headers: Readonly<Record<string, string>> = {}, body = ""): Serve => (_, response) => {
  response.sendDate = false
  response.writeHead(status, headers).end(body)
}

it.effect("sends the token as Bearer, lists as repeated parameters, and bodies as JSON", () =>
  Effect.gen(function*() {
    const { host } = yield* started((request, response) => {
      void text(request).then((body) => {
        const { authorization, "content-type": type } = request.headers
        response.end(JSON.stringify({ url: request.url, authorization, type, body }))
      })
    })
    const { data } = yield* RestApi.send(host, { ...get, method: "POST", query: { a: ["x", "y&"], b: 1, c: true }, body: { d: null } })
    assert.deepStrictEqual(data, {
      url: "/api/one?a=x&a=y%26&b=1&c=true",
      authorization: "Bearer token-0123456789",
      type: "application/json",
      body: "{\"d\":null}"
    })
    const without = yield* RestApi.send(host, { ...get, token: null })
    assert.deepStrictEqual(without.data, { url: "/api/one", body: "" })
  }))

it.effect("reads JSON, other texts, and empty bodies", () =>
  Effect.gen(function*() {
    for (const [body, data] of [["{\"a\":1}", { a: 1 }], ["text", "text"], ["", undefined]] as const) {
      const { host } = yield* started(answering(200, {}, body))
      assert.deepStrictEqual((yield* RestApi.send(host, get)).data, data)
    }
  }))

it.effect("reads no more than the bound of an answer, however long it is", () =>
  Effect.gen(function*() {
    let isClosed: () => void = () => {}
    const closed = new Promise<void>((resolve) => void (isClosed = resolve))
    const { host } = yield* started((_, response) => {
      response.once("close", () => isClosed())
      const more = () => {
        while (response.writable && response.write("x".repeat(65_536))) { /* until the client is full */ }
      }
      response.on("drain", more)
      more()
    })
    const failed = yield* Effect.flip(RestApi.send(host, { ...get, answerBytes: 100_000 }))
    assert.deepInclude(failed, { status: 200, detail: "The answer of host.test is too large.", retryable: false })
    yield* Effect.promise(() => closed)
    const exact = yield* started(answering(200, {}, "x".repeat(100)))
    assert.strictEqual((yield* RestApi.send(exact.host, { ...get, answerBytes: 100 })).data, "x".repeat(100))
    assert.strictEqual((yield* Effect.flip(RestApi.send(exact.host, { ...get, answerBytes: 99 }))).retryable, false)
  }))

it.effect("an answer to a read has ten seconds, one to a write thirty", () =>
  Effect.gen(function*() {
    for (const [method, seconds] of [["GET", 10], ["POST", 30], ["PUT", 30]] as const) {
      let arrived: () => void = () => {}
      const arrival = new Promise<void>((resolve) => void (arrived = resolve))
      const { host } = yield* started(() => arrived())
      const fiber = yield* Effect.forkChild(Effect.flip(RestApi.send(host, { ...get, method })))
      yield* Effect.promise(() => arrival)
      yield* TestClock.adjust(seconds * 1000 - 1)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepInclude(yield* Fiber.join(fiber), {
        status: null,
        detail: `host.test did not answer within ${seconds} seconds.`,
        retryable: true
      })
    }
  }))

it.effect("a broken connection may have taken effect, and says no address", () =>
  Effect.gen(function*() {
    const failed = yield* failure((request) => void request.socket.destroy())
    assert.deepInclude(failed, { status: null, retryable: true })
    assert.match(failed.detail, /^The connection to host\.test failed \(\w+\)\.$/u)
  }))

it.effect("sends each request once, whatever comes of it", () =>
  Effect.gen(function*() {
    for (const serve of [answering(500), answering(429), (request: IncomingMessage) => void request.socket.destroy()]) {
      const { host, requests } = yield* started(serve)
      yield* Effect.flip(RestApi.send(host, get))
      assert.strictEqual(requests(), 1)
    }
  }))

it.effect("follows no redirection, and tells where it leads", () =>
  Effect.gen(function*() {
    const elsewhere = yield* started(answering(200))
    for (const status of [301, 302, 303, 307, 308]) {
      const failed = yield* failure(answering(status, { location: `${elsewhere.origin}/other` }, "{\"message\":\"moved\"}"))
      assert.deepInclude(failed, {
        status,
        location: `${elsewhere.origin}/other`,
        detail: "host.test redirects to another address, which is not followed.",
        retryable: false
      })
    }
    assert.strictEqual(elsewhere.requests(), 0)
    assert.isUndefined((yield* failure(answering(304, { location: "/x" }))).location)
  }))

it.effect("says the host's text without secrets, hidden characters and ends", () =>
  Effect.gen(function*() {
    const words = "no token-0123456789,\n no secret-abc \u202e!"
    const failed = yield* failure(answering(400, {}, JSON.stringify({ message: words })))
    assert.match(failed.detail, /^host\.test says: no \*\*\*, no \*\*\* /u)
    assert.notInclude(failed.detail, "\u202e")
    const long = yield* failure(answering(400, {}, JSON.stringify({ message: "x".repeat(100_000) })))
    assert.isBelow(long.detail.length, 300)
    assert.strictEqual((yield* failure(answering(400))).detail, "host.test answered with status 400.")
    assert.strictEqual((yield* failure(answering(400))).message, "host.test answered with status 400.")
  }))

it.effect("a rate limit has a wait: the host's, or a minute", () =>
  Effect.gen(function*() {
    const date = "Sat, 21 Nov 2026 02:41:00 GMT"
    const reset = String(Date.parse(date) / 1000 + 42)
    const waits: ReadonlyArray<readonly [number, Readonly<Record<string, string>>, number | undefined]> = [
      [429, { "retry-after": "77" }, 77],
      [429, { "retry-after": "0.2" }, 1],
      [429, { "retry-after": "-5" }, 0],
      [429, { "retry-after": "9999999" }, 86_400],
      [429, { "retry-after": "soon" }, 60],
      [429, { "ratelimit-reset": reset, date }, 42],
      [429, { "ratelimit-reset": "1", date }, 0],
      [429, { "ratelimit-reset": reset }, 60],
      [429, {}, 60],
      [403, { "retry-after": "5" }, 5],
      [403, { "ratelimit-reset": reset, date }, undefined],
      [400, {}, undefined]
    ]
    for (const [status, headers, retryAfter] of waits) {
      const failed = yield* failure(answering(status, headers))
      assert.deepStrictEqual([failed.retryAfter, failed.retryable], [retryAfter, retryAfter !== undefined], JSON.stringify(headers))
    }
    for (const status of [500, 503]) assert.isTrue((yield* failure(answering(status))).retryable)
  }))

it.effect("an answer of another form may be another server's, so that a retry helps", () =>
  Effect.gen(function*() {
    const { host } = yield* started(answering(200, {}, "{\"a\":\"x\"}"))
    const answer = yield* RestApi.send(host, get)
    assert.deepStrictEqual(yield* RestApi.decode(host, Schema.Struct({ a: Schema.String }), answer), { a: "x" })
    const failed = yield* Effect.flip(RestApi.decode(host, Schema.Struct({ a: Schema.Int }), answer))
    assert.deepInclude(failed, { status: 200, retryable: true, detail: "The answer of host.test could not be understood." })
  }))

it.effect("a status is handled alone, and no other failure", () =>
  Effect.gen(function*() {
    const { host } = yield* started(answering(404))
    const request = RestApi.send(host, get)
    assert.strictEqual(yield* request.pipe(RestApi.onStatus(404, () => Effect.succeed("none"))), "none")
    assert.strictEqual((yield* Effect.flip(request.pipe(RestApi.onStatus(403, () => Effect.succeed("none"))))).status, 404)
    const other = Effect.fail({ _tag: "Other", status: 404 } as const)
    assert.strictEqual((yield* Effect.flip(other.pipe(RestApi.onStatus(404, () => Effect.succeed("none")))))._tag, "Other")
  }))

it("knows unencrypted connections to other machines", () => {
  const isOpen = (url: string) => RestApi.isOpenLine(new URL(url))
  assert.deepStrictEqual(["http://a.test", "https://a.test", "http://localhost:1", "http://127.0.0.1", "http://[::1]"].map(isOpen), [
    true,
    false,
    false,
    false,
    false
  ])
})
