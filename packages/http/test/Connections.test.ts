import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { connect, type Socket } from "node:net"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { address, ask, create, layer as http, mintKey, SANDBOXES } from "../testing/Harness.ts"

const MIB = 2 ** 20

/** A connection that asks and never reads. It is closed with the scope. */
const deaf = Effect.fnUntraced(function*(bytes: string) {
  const to = yield* address
  return yield* Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<Socket>((resolve, reject) => {
        const socket = connect({ ...to, noDelay: true }, () => {
          socket.pause()
          socket.off("error", reject)
          socket.on("error", () => {})
          socket.write(bytes, () => resolve(socket))
        })
        socket.once("error", reject)
      })
    ),
    (socket) => Effect.sync(() => socket.destroy())
  )
})

/** Waits until the other side broke the connection. Nothing is read until then, or the deadline would begin anew. */
const cut = (socket: Socket) =>
  Effect.promise(() =>
    new Promise<void>((resolve) => {
      if (socket.destroyed) return resolve()
      socket.once("close", () => resolve())
      // A reset is only noticed by who reads or writes. The writes are never answered.
      const knock = setInterval(() => socket.destroyed ? clearInterval(knock) : socket.write("\r\n"), 100)
    })
  )

const get = (path: string, times = 1) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(times)

const scriptOf = Effect.map(ask("/docs"), ({ text }) => /<script[^>]* src="([^"]+)"/u.exec(text)?.[1] ?? "/docs")

layer(http({ settings: { patience: Duration.seconds(2) } }), { excludeTestServices: true })(
  "readers that take nothing of what they asked for",
  (it) => {
    it.effect("cost little memory, however many they are and however much they ask for", () =>
      Effect.gen(function*() {
        const script = yield* scriptOf
        yield* ask(script)
        yield* ask("/openapi.json")
        const before = process.memoryUsage().rss
        yield* Effect.all(Array.from({ length: 300 }, () => deaf(get("/docs", 3) + get(script, 3) + get("/openapi.json", 3))), {
          concurrency: 50
        })
        // Each was answered as far as it lets itself be.
        for (let i = 0; i < 5; i++) yield* ask("/healthz")
        const grown = process.memoryUsage().rss - before
        assert.isBelow(grown, 150 * MIB, `grew by ${Math.round(grown / MIB)} MiB`)
      }).pipe(Effect.scoped))

    it.effect("are cut, whatever it is that they asked for", () =>
      Effect.gen(function*() {
        const script = yield* scriptOf
        const { key } = yield* mintKey()
        const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`key-${i}`, "x".repeat(1000)]))
        for (let i = 0; i < 20; i++) yield* create(key, { metadata })
        const list = `GET ${SANDBOXES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`
        const sockets = yield* Effect.all([deaf(get(script, 8)), deaf(get("/openapi.json", 200)), deaf(list.repeat(50))])
        yield* Effect.forEach(sockets, cut, { concurrency: "unbounded" })
      }).pipe(Effect.scoped))
  }
)

layer(http(), { excludeTestServices: true })("documents that are the same for everybody", (it) => {
  it.effect("are compressed for who takes that, and not sent again to who has them", () =>
    Effect.gen(function*() {
      for (const path of ["/docs", yield* scriptOf, "/openapi.json", "/schemas/environment.json"]) {
        const plain = yield* ask(path)
        assert.strictEqual(plain.status, 200)
        const etag = String(plain.headers.etag)
        assert.match(etag, /^W\/"[\w-]+"$/u, path)
        assert.include(String(plain.headers["vary"]).toLowerCase(), "accept-encoding")
        assert.notInclude(String(plain.headers["cache-control"]), "no-store")
        const again = yield* ask(path, { headers: { "if-none-match": `"other", ${etag}` } })
        assert.deepStrictEqual([again.status, again.text, again.headers.etag], [304, "", etag])
        assert.strictEqual((yield* ask(path, { headers: { "if-none-match": `"other"` } })).status, 200)
        const head = yield* ask(path, { method: "HEAD" })
        assert.deepStrictEqual([head.status, head.headers["content-length"], head.text], [200, plain.headers["content-length"], ""])
        const packings = [["br;q=0, gzip", "gzip", gunzipSync], ["gzip, deflate, br", "br", brotliDecompressSync], ["br;q=0.5, gzip",
          "gzip", gunzipSync]] as const
        for (const [accept, encoding, unpack] of packings) {
          const packed = yield* ask(path, { headers: { "accept-encoding": accept } })
          assert.strictEqual(packed.headers["content-encoding"], encoding, accept)
          assert.isBelow(Number(packed.headers["content-length"]), Number(plain.headers["content-length"]))
          assert.strictEqual(unpack(packed.bytes).toString("utf8"), plain.text)
        }
        for (const none of ["", "identity", "gzip;q=0", "brotli", "x-gzip", "br;q=x"]) {
          assert.strictEqual((yield* ask(path, { headers: { "accept-encoding": none } })).headers["content-encoding"], undefined, none)
        }
      }
    }))
})

layer(http(), { excludeTestServices: true })("the page of the reference", (it) => {
  it.effect("leads back, and without scripts to the description, and shows no tools of its library's makers", () =>
    Effect.gen(function*() {
      const page = (yield* ask("/docs")).text
      assert.include(page, `<a href="/">Slipway</a>`)
      assert.match(page, /<noscript>.*href="\/openapi.json"/u)
      assert.include((yield* ask(yield* scriptOf)).text.slice(-4_000), `"showDeveloperTools":"never"`)
    }))
})

layer(http(), { excludeTestServices: true })("an answer for one client", (it) => {
  it.effect("is compressed if it is large and the client takes that", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const listed = (accept: string) => ask(SANDBOXES, { headers: { authorization: `Bearer ${key}`, "accept-encoding": accept } })
      const small = yield* listed("br")
      assert.strictEqual(small.headers["content-encoding"], undefined)
      const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`key-${i}`, "x".repeat(1000)]))
      for (let i = 0; i < 4; i++) yield* create(key, { metadata })
      const plain = yield* listed("identity")
      const packed = yield* listed("gzip, br")
      assert.deepStrictEqual([plain.headers["content-encoding"], packed.headers["content-encoding"]], [undefined, "br"])
      assert.deepStrictEqual([plain.headers["vary"], packed.headers["vary"]], ["Accept-Encoding", "Accept-Encoding"])
      assert.isBelow(packed.bytes.length, plain.bytes.length / 10)
      assert.strictEqual(brotliDecompressSync(packed.bytes).toString("utf8"), plain.text)
    }))
})

layer(http({ settings: { connectionsPerAddress: 5 } }), { excludeTestServices: true })("an address", (it) => {
  it.effect("has so many connections and no more; those it has go on", () =>
    Effect.gen(function*() {
      const open = yield* Effect.all(Array.from({ length: 5 }, () => deaf("")), { concurrency: 5 })
      const more = yield* Effect.exit(Effect.timeout(ask("/healthz"), "5 seconds"))
      assert.strictEqual(more._tag, "Failure")
      const [first] = open
      assert(first !== undefined)
      const answered = yield* Effect.promise(() =>
        new Promise<string>((resolve) => {
          first.once("data", (chunk) => resolve(chunk.toString("latin1")))
          first.resume()
          first.write(get("/healthz"))
        })
      )
      assert.match(answered, /^HTTP\/1\.1 200 /u)
      first.destroy()
      // The server sees it a moment later.
      yield* Effect.repeat(Effect.exit(ask("/healthz")), { until: ({ _tag }) => _tag === "Success" })
    }).pipe(Effect.scoped))
})
