/** The resources of the service that one sandbox can take by the requests it sends, or does not finish. */
import { assert, describe, it } from "@effect/vitest"
import type { ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect, Redacted } from "effect"
import { request as send } from "node:http"
import { connect, type Socket } from "node:net"
import { prepare } from "../src/preparation/Preparation.ts"
import * as Preparer from "../src/preparation/Preparer.ts"
import { layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const PATH: Readonly<Record<UpstreamProtocol, string>> = {
  "openai-chat": "/v1/chat/completions",
  "openai-responses": "/v1/responses",
  "anthropic-messages": "/v1/messages"
}

interface Answer {
  /** 0: none. */
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
}

/** A request of which `first` is sent, and no more until `end`. */
const begin = (access: ModelAccess, path: string, first: Buffer | string, headers: Record<string, string> = {}) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const sending = send(`${access.baseUrl}${path}`, {
        method: "POST",
        agent: false,
        headers: { "content-type": "application/json", authorization: `Bearer ${Redacted.value(access.token)}`, ...headers }
      })
      const answer = new Promise<Answer>((resolve) => {
        sending.on("response", (response) => {
          let text = ""
          response.on("data", (chunk: Buffer) => {
            text += chunk.toString()
          })
          response.on("close", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
        })
        sending.on("error", () => resolve({ status: 0, headers: {}, text: "" }))
      })
      const written = new Promise<void>((resolve) => {
        sending.write(first, () => resolve())
      })
      return {
        sending,
        answer: Effect.promise(() => answer),
        written: Effect.promise(() => written),
        closed: Effect.promise(() => new Promise<void>((resolve) => sending.destroyed ? resolve() : sending.once("close", () => resolve())))
      }
    }),
    ({ sending }) => Effect.sync(() => sending.destroy())
  )

const small = JSON.stringify({ messages: [], max_tokens: 5, input: "Hello" })
const MEGABYTE = 1024 * 1024

describe.each(Object.keys(PATH) as ReadonlyArray<UpstreamProtocol>)("%s", (protocol) => {
  const path = PATH[protocol]

  const isRefusal = ({ headers, status, text }: Answer, type: string) => {
    assert.deepStrictEqual([status, headers["retry-after"], headers["x-should-retry"]], [429, "1", "true"])
    const body: { error: { type: string } } & Record<string, unknown> = JSON.parse(text)
    assert.deepStrictEqual([Object.keys(body), body.error.type], [protocol === "anthropic-messages" ? ["type", "error"] : ["error"], type])
  }

  it.live("lets in so many requests of a session, refuses the next, and lets in one for each that is over", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const other = yield* open(upstreamOf(protocol, provider.baseUrl))
      const stalled = yield* Effect.forEach([1, 2, 3], () => begin(access, path, "{", { "content-length": "1000" }), { concurrency: 3 })
      yield* Effect.forEach(stalled, ({ written }) => written)
      isRefusal(yield* (yield* begin(access, path, small)).answer, "rate_limit_error")
      assert.strictEqual((yield* Provider.ask(other.access, path, small)).status, 200)
      stalled[0]?.sending.destroy()
      yield* stalled[0]?.closed ?? Effect.void
      yield* Effect.eventually(
        Effect.flatMap(Provider.ask(access, path, small), ({ status }) => status === 200 ? Effect.void : Effect.fail("refused"))
      )
    }).pipe(Effect.scoped, Effect.provide(layer({ bounds: { requests: 3 } }))))

  it.live.each(
    [
      ["as its length says", { "content-length": `${MEGABYTE}` }],
      ["as it comes", { "transfer-encoding": "chunked" }]
    ] as const
  )("holds so many bytes of a session's requests, counted %s", ([, headers]) =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const body = Buffer.alloc(MEGABYTE - 10, " ")
      const stalled = yield* begin(access, path, body, headers)
      yield* stalled.written
      const next = yield* begin(access, path, body, headers)
      // The first one written may be read second: one of the two has room.
      isRefusal(yield* Effect.raceFirst(stalled.answer, next.answer), "rate_limit_error")
      // It still has room for a small one.
      assert.strictEqual((yield* Provider.ask(access, path, small)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer({ bounds: { bytes: 1.5 * MEGABYTE } }))))

  it.live("gives up a request whose body does not come, and ends its connection", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const stalled = yield* begin(access, path, "{", { "content-length": "1000" })
      const { status, text } = yield* stalled.answer
      assert.deepStrictEqual([status, typeof JSON.parse(text).error.message], [408, "string"])
      yield* stalled.closed
      assert.strictEqual((yield* Provider.ask(access, path, small)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer({ bodyMillis: 200, bounds: { requests: 1 } }))))
})

/** Connections one after the other, each of which is the gateway's before the next begins. */
const connections = (access: ModelAccess, count: number, first = "") =>
  Effect.forEach(Array.from({ length: count }), () =>
    Effect.acquireRelease(
      Effect.callback<{ readonly socket: Socket; readonly closed: Promise<void> }>((resume) => {
        const socket = connect({ host: "127.0.0.1", port: Number(new URL(access.baseUrl).port) })
        socket.on("error", () => {})
        const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()))
        const ready = () => resume(Effect.succeed({ socket, closed }))
        if (first === "") socket.once("connect", ready).resume()
        else {
          socket.once("connect", () => socket.write(first))
          socket.once("data", ready)
        }
      }),
      ({ socket }) => Effect.sync(() => socket.destroy())
    ))
const areOpen = (all: ReadonlyArray<{ readonly socket: Socket }>) => all.every(({ socket }) => !socket.destroyed)
const areClosed = (all: ReadonlyArray<{ readonly closed: Promise<void> }>) =>
  Effect.promise(() => Promise.all(all.map(({ closed }) => closed)))

describe("the gateway's connections", () => {
  it.live("give way oldest first if they are silent; those that a session used stay", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const models = `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${Redacted.value(access.token)}\r\n\r\n`
      const used = yield* connections(access, 66, models)
      yield* areClosed(used.slice(0, 2))
      const silent = yield* connections(access, 300)
      yield* areClosed(silent.slice(0, 44))
      assert.isTrue(areOpen(silent.slice(44)) && areOpen(used.slice(2)))
      assert.strictEqual((yield* Provider.ask(access, PATH["openai-chat"], small)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("the gateway's memory", () => {
  it.live("120 stalled bodies of one session take no more than the session may hold", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const other = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const piece = Buffer.alloc(4 * MEGABYTE, " ")
      const before = process.memoryUsage()
      const stalled = yield* Effect.forEach(Array.from({ length: 120 }), () =>
        begin(access, "/v1/chat/completions", piece, { "content-length": `${20 * MEGABYTE}` }), { concurrency: "unbounded" })
      yield* Effect.forEach(stalled, ({ written, answer }) =>
        Effect.raceFirst(written, Effect.asVoid(answer)), { concurrency: "unbounded" })
      const after = process.memoryUsage()
      // The pieces themselves are one buffer. What the kernel holds of them is not ours.
      assert.isAtMost((after.arrayBuffers - before.arrayBuffers) / MEGABYTE, 150)
      assert.strictEqual((yield* Provider.ask(other.access, "/v1/chat/completions", small)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("all sessions together hold so much, and each of them its share", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const greedy = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const other = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const path = "/v1/chat/completions"
      const first = yield* begin(greedy.access, path, "{", { "content-length": `${MEGABYTE}` })
      yield* first.written
      const second = yield* begin(greedy.access, path, "{", { "content-length": `${MEGABYTE}` })
      assert.strictEqual((yield* second.answer).status, 429)
      const share = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(0.4 * MEGABYTE) }] })
      assert.strictEqual((yield* Provider.ask(other.access, path, share)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer({ bounds: { totalBytes: MEGABYTE } }))))

  it.live("an agent that does not read its answer stops the provider, not the service", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      let written = 0
      const chunk = Buffer.from(Provider.sse({ choices: [{ delta: { content: "x".repeat(60_000) } }] }))
      provider.answer = ({ response }) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        const write = () => {
          while (!response.destroyed && written < 200 * MEGABYTE) {
            written += chunk.length
            if (!response.write(chunk)) return void response.once("drain", write)
          }
        }
        write()
      }
      const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const asking = yield* begin(access, "/v1/chat/completions", "")
      asking.sending.removeAllListeners("response")
      const responded = new Promise<void>((resolve) => {
        asking.sending.on("response", (response) => {
          response.pause()
          resolve()
        })
      })
      asking.sending.end(small)
      yield* Effect.promise(() => responded)
      const asked = yield* provider.next
      yield* asked.aborted
      assert.isBelow(written / MEGABYTE, 100)
    }).pipe(Effect.scoped, Effect.provide(layer({ limits: { idleMillis: 1000 } }))))

  it.live("a request of millions of values is refused", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const values = `{"messages":[${"{},".repeat(4 * MEGABYTE)}{}]}`
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", values)).status, 400)
      assert.strictEqual(
        (yield* Provider.ask(access, "/v1/chat/completions", `{"messages":${"[".repeat(200_000)}${"]".repeat(200_000)}}`)).status,
        400
      )
      const long = JSON.stringify({ messages: [{ role: "user", content: "\"\n".repeat(4 * MEGABYTE) }] })
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", long)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live(
    "a session whose requests were refused for too much is told to come back later, before anything is read",
    () =>
      Effect.gen(function*() {
        const provider = yield* Provider.start
        const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
        const other = yield* open(upstreamOf("openai-chat", provider.baseUrl))
        const path = "/v1/chat/completions"
        const bad = `{"messages":"${"x".repeat(24 * MEGABYTE)}`
        assert.strictEqual((yield* Provider.ask(access, path, bad)).status, 400)
        const stalled = yield* begin(access, path, "{", { "content-length": "1000" })
        const { headers, status } = yield* stalled.answer
        assert.deepStrictEqual([status, headers["x-should-retry"]], [429, "true"])
        assert.match(String(headers["retry-after"]), /^[1-9]\d*$/u)
        assert.strictEqual((yield* Provider.ask(other.access, path, small)).status, 200)
      }).pipe(Effect.scoped, Effect.provide(layer()))
  )

  it.live("one bad request costs a session nothing else", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", "no JSON")).status, 400)
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", small)).status, 200)
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("requests that are prepared", () => {
  for (const [name, bytes] of [["large", 300_000], ["small", 1000]] as const) {
    it.live(`of one session wait for each other, and a ${name} one of another session for a single one of them`, () =>
      Effect.gen(function*() {
        const prepare = yield* Preparer.make("refuse")
        const upstream = upstreamOf("openai-chat", "http://127.0.0.1:9")
        const order: Array<string> = []
        const ask = (session: string) =>
          Effect.tap(
            prepare(session, { bytes: Buffer.alloc(bytes, " ").fill("{}", 0, 2), upstream, free: false, headers: {} }),
            (prepared) =>
              Effect.sync(() => {
                assert.notStrictEqual(prepared, null)
                order.push(session)
              })
          )
        yield* Effect.all([...Array.from({ length: 20 }, () => ask("greedy")), ask("other")], { concurrency: "unbounded" })
        assert.strictEqual(order.length, 21)
        // The first was being prepared, and the second had its turn, when it came.
        assert.isAtMost(order.indexOf("other"), 2)
      }).pipe(Effect.scoped))
  }

  it("are refused before they are parsed where they are nested too deeply", () => {
    const nested = (depth: number) => Buffer.from(`{"messages":${"[".repeat(depth)}${"]".repeat(depth)}}`)
    const upstream = upstreamOf("openai-chat", "http://127.0.0.1:9")
    assert.notStrictEqual(prepare({ bytes: nested(200), upstream, free: false, headers: {} }, "refuse"), null)
    assert.strictEqual(prepare({ bytes: nested(256), upstream, free: false, headers: {} }, "refuse"), null)
  })
})
