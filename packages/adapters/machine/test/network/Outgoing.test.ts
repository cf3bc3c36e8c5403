/** Each way of sending a request, in a network whose proxy alone knows the outside. */
import { assert, describe, it } from "@effect/vitest"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { createServer } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { text } from "node:stream/consumers"
import * as Proxy from "../../src/egress/Proxy.ts"
import { OutgoingAgent, proxyFailureIn, request } from "../../src/network/OutgoingRequest.ts"
import { connectThrough, ProxyFailed } from "../../src/network/ProxyTunnel.ts"
import * as WebhookSenderHttp from "../../src/webhooks/WebhookSenderHttp.ts"
import * as CompanyNetwork from "../../testing/CompanyNetwork.ts"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

const { CANARY } = CompanyNetwork

/** The outside: `https://api.outside.test` and `http://plain.outside.test`, which answer with the requested path. */
const outside = Effect.gen(function*() {
  const network = yield* CompanyNetwork.joined
  yield* network.https("api.outside.test", (incoming, response) => void response.end(`secure ${incoming.url}`))
  const plain = createServer((incoming, response) => void response.end(`plain ${incoming.headers.host} ${incoming.url}`))
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void plain.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => plain.close())
  )
  const { port } = plain.address() as AddressInfo
  network.name("plain.outside.test:80", port)
  return { ...network, port }
})

const asked = (url: string, agent?: OutgoingAgent) =>
  Effect.tryPromise({
    try: () =>
      new Promise<string>((done, failed) => {
        const sent = request(new URL(url), { headers: {}, ...agent === undefined ? {} : { agent } })
        sent.once("response", (response) => void text(response).then(done, failed))
        sent.once("error", failed)
        sent.end()
      }),
    catch: (error) => error
  })

const fetched = (url: string) => Effect.tryPromise({ try: async () => (await fetch(url)).text(), catch: (error) => error })

/** All that an error says, its causes included. */
const wordsOf = (error: unknown): string =>
  error instanceof Error ? `${error.message} ${error.stack} ${JSON.stringify(error)} ${wordsOf(error.cause)}` : String(error)

describe("a request to the outside", () => {
  it.live("goes through the proxy: by fetch, and by our own client", () =>
    Effect.gen(function*() {
      const network = yield* outside
      assert.strictEqual(yield* fetched("https://api.outside.test/a"), "secure /a")
      assert.strictEqual(yield* fetched("http://plain.outside.test/b?c=d"), "plain plain.outside.test /b?c=d")
      assert.strictEqual(yield* asked("https://api.outside.test/e"), "secure /e")
      assert.strictEqual(yield* asked("http://plain.outside.test/f"), "plain plain.outside.test /f")
      assert.deepStrictEqual(network.asked, [
        "CONNECT api.outside.test:443",
        "GET http://plain.outside.test/b?c=d",
        "CONNECT api.outside.test:443",
        "GET http://plain.outside.test/f"
      ])
    }))

  it.live("takes a kept connection of its agent", () =>
    Effect.gen(function*() {
      const network = yield* outside
      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => new OutgoingAgent({ keepAlive: true })),
        (made) => Effect.sync(() => made.destroy())
      )
      for (const path of ["/1", "/2", "/3"]) assert.strictEqual(yield* asked(`https://api.outside.test${path}`, agent), `secure ${path}`)
      assert.deepStrictEqual(network.asked, ["CONNECT api.outside.test:443"])
    }))

  it.live("goes directly to destinations of NO_PROXY and to this machine", () =>
    Effect.gen(function*() {
      const network = yield* outside
      process.env["NO_PROXY"] = ".outside.test"
      for (const url of ["https://api.outside.test/", "http://plain.outside.test/"]) {
        for (const way of [asked, fetched]) assert.include(wordsOf(yield* Effect.flip(way(url))), "ENOTFOUND", url)
      }
      delete process.env["NO_PROXY"]
      for (const way of [asked, fetched]) {
        assert.strictEqual(yield* way(`http://127.0.0.1:${network.port}/`), `plain 127.0.0.1:${network.port} /`)
      }
      assert.deepStrictEqual(network.asked, [])
    }))

  for (
    const [behaviour, said] of [
      [407, "refuses the user and the password of its variable, or lacks them (status 407)"],
      [403, "does not allow this destination (status 403)"],
      [502, "does not reach the destination (status 502)"],
      [404, "refuses to connect (status 404)"],
      ["closes", "closed the connection"],
      ["garbage", "gives an invalid answer"]
    ] as const
  ) {
    it.live(`says that the proxy ${said}`, () =>
      Effect.gen(function*() {
        const network = yield* outside
        network.behave(behaviour)
        for (const way of [asked, fetched]) {
          const error = yield* Effect.flip(way("https://api.outside.test/"))
          assert.strictEqual(proxyFailureIn(error)?.message, `The proxy http://${network.proxyHost} ${said}.`)
          assert.strictEqual(proxyFailureIn(error)?.plain, `The service's proxy ${said}.`)
          assert.notInclude(wordsOf(error), CANARY)
          assert.notInclude(wordsOf(error), encodeURIComponent(CANARY))
        }
      }))
  }

  it.live("says that the proxy is silent, or is not there", () =>
    Effect.gen(function*() {
      const network = yield* outside
      network.behave("silent")
      const through = (proxy: string, millis: number) =>
        Effect.promise(() =>
          connectThrough(new URL(proxy), { host: "api.outside.test", port: 443 }, { millis }).catch((error: unknown) => error)
        )
      const silent = yield* through(network.proxy, 50)
      assert.instanceOf(silent, ProxyFailed)
      assert.strictEqual(silent.message, `The proxy http://${network.proxyHost} did not connect within 0.05 seconds.`)
      const absent = yield* through("http://127.0.0.1:1", 5000)
      assert.strictEqual(wordsOf(absent).split(" (")[0], "The proxy http://127.0.0.1:1 cannot be reached")
      assert.include(wordsOf(absent), "ECONNREFUSED")
    }))

  it.live("is not taken for sent when the certificate of the destination is not trusted", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.start
      yield* CompanyNetwork.withVariables({ HTTPS_PROXY: network.proxy })
      yield* network.https("api.outside.test", (_, response) => void response.end("secure"))
      yield* CompanyNetwork.fetching
      for (const way of [asked, fetched]) {
        assert.include(wordsOf(yield* Effect.flip(way("https://api.outside.test/"))), "UNABLE_TO_VERIFY_LEAF_SIGNATURE")
      }
    }))
})

const sending = (url: string, options: Partial<WebhookSenderHttp.Options> = {}) =>
  Effect.flatMap(WebhookSender, (sender) =>
    sender.send({
      id: "evt_1",
      at: DateTime.makeUnsafe(0),
      url,
      body: "{}",
      secrets: [Redacted.make(`whsec_${btoa("x".repeat(32))}`)]
    })).pipe(Effect.provide(Layer.fresh(WebhookSenderHttp.layer({ allowPrivate: false, lookup: async () => [], ...options }))))

describe("a webhook", () => {
  it.live("goes through the proxy to a name that only the proxy knows, and never to one with a private address", () =>
    Effect.gen(function*() {
      const network = yield* outside
      yield* network.https(
        "partner.outside.test",
        (incoming, response) => void response.writeHead(incoming.method === "POST" ? 204 : 405).end()
      )
      const answered = yield* sending("https://partner.outside.test/hook")
      assert.deepInclude(answered, { _tag: "Answered", status: 204 })
      const lookup = (name: string) => Promise.resolve(name === "inside.outside.test" ? ["93.184.215.14", "10.0.0.1"] : [])
      for (const url of ["https://inside.outside.test/", "https://10.0.0.1/", "https://[fd00::1]/"]) {
        assert.deepStrictEqual(yield* sending(url, { lookup }), { _tag: "Failed", trouble: "address_not_allowed" }, url)
      }
      assert.deepStrictEqual(network.asked, ["CONNECT partner.outside.test:443"])
    }))

  it.live("fails when the proxy refuses", () =>
    Effect.gen(function*() {
      const network = yield* outside
      network.behave(502)
      assert.deepStrictEqual(yield* sending("https://partner.outside.test/hook"), { _tag: "Failed", trouble: "connection" })
    }))
})

/** The first bytes that a box gets from its egress. */
const spoken = (socket: string, text: string, until: string) =>
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

const egress = Effect.fnUntraced(function*(lookup: (name: string) => Promise<ReadonlyArray<string>> = async () => []) {
  const socket = `${yield* temporaryFolder}/egress.sock`
  const refusals: Array<string> = []
  const allowed = new Set(["greeter.outside.test:443", "plain.outside.test:80", "inside.outside.test:443"])
  const proxy = Proxy.make({
    allow: { has: (destination: string) => allowed.has(destination) } as Proxy.Options["allow"],
    gateway: () => undefined,
    refused: ({ reason, target }) => void refusals.push(`${target} ${reason}`),
    lookup
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void proxy.server.listen(socket, () => resume(Effect.void))),
    () => Effect.sync(proxy.close)
  )
  return { socket, refusals }
})

describe("the egress of a box", () => {
  it.live("leads through the proxy to allowed names alone, and the box never sees it", () =>
    Effect.gen(function*() {
      const network = yield* outside
      yield* network.https("greeter.outside.test", (_, response) => void response.end())
      const { refusals, socket } = yield* egress((name) => Promise.resolve(name === "inside.outside.test." ? ["10.0.0.1"] : []))
      const tunnel = yield* spoken(socket, "CONNECT greeter.outside.test:443 HTTP/1.1\r\n\r\n", "\r\n\r\n")
      assert.strictEqual(tunnel, "HTTP/1.1 200 Connection established\r\n\r\n")
      const forged = "Proxy-Authorization: Basic Zm9yZ2Vk\r\n"
      const plain = yield* spoken(socket, `GET http://plain.outside.test/x?y HTTP/1.1\r\nHost: plain.outside.test\r\n${forged}\r\n`, "/x?y")
      assert.include(plain, "plain plain.outside.test /x?y")
      assert.match(yield* spoken(socket, "CONNECT other.outside.test:443 HTTP/1.1\r\n\r\n", "\n\n"), /^HTTP\/1\.1 403 .*not on the list/u)
      assert.match(
        yield* spoken(socket, "CONNECT inside.outside.test:443 HTTP/1.1\r\n\r\n", "\n\n"),
        /^HTTP\/1\.1 403 .*not a public address/u
      )
      assert.deepStrictEqual(network.asked, ["CONNECT greeter.outside.test:443", "GET http://plain.outside.test/x?y"])
      assert.deepStrictEqual(refusals, ["other.outside.test:443 not allowed", "inside.outside.test:443 not a public address"])
    }))

  it.live("says that the destination is not reachable when the proxy refuses", () =>
    Effect.gen(function*() {
      const network = yield* outside
      network.behave(407)
      const { refusals, socket } = yield* egress()
      const answer = yield* spoken(socket, "CONNECT greeter.outside.test:443 HTTP/1.1\r\n\r\n", "\n\n")
      assert.match(answer, /^HTTP\/1\.1 502 .*not reachable/u)
      assert.notInclude(answer, network.proxyHost)
      assert.notInclude(answer, CANARY)
      assert.deepStrictEqual(refusals, ["greeter.outside.test:443 not reached"])
    }))
})
