import { assert, layer } from "@effect/vitest"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Duration, Effect, Redacted } from "effect"
import { ask, COOKIE, creation, joined, json, layer as http, mintKey, raw, refused, type Reply, SANDBOXES } from "../testing/Harness.ts"

layer(http(), { excludeTestServices: true })("an address", (it) => {
  it.effect("that does not exist is 404, under /api/ only with a key", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (const path of ["/nothing", "/", "/api", "/API/public/v1/sandboxes", "//api/public/v1/sandboxes", "/healthz/"]) {
        refused(yield* ask(path), 404, "not_found")
      }
      for (
        const path of ["/api/public/v1/Sandboxes", "/api/public/v1/sandboxes/c_aaaaaaaaaaaa/", "/api/public/v2/sandboxes", "/api/",
          "/api/public//v1/sandboxes"]
      ) {
        refused(yield* ask(path), 401, "unauthorized")
        refused(yield* ask(path, { key }), 404, "not_found")
      }
    }))

  it.effect("with a broken percent-encoding is 400, another spelling is the same address", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (const path of [`${SANDBOXES}/%zz`, `${SANDBOXES}/%`, `${SANDBOXES}/%ff`, `${SANDBOXES}?repo=%zz`]) {
        refused(yield* ask(path), 401, "unauthorized")
        refused(yield* ask(path, { key }), 400, "invalid_request")
      }
      refused(yield* ask("/%zz"), 400, "invalid_request")
      refused(yield* ask("/%61pi/public/v1/sandboxes"), 401, "unauthorized")
      assert.strictEqual((yield* ask("/%61pi/public/v1/sandboxes", { key })).status, 200)
    }))

  it.effect("that is no path is 400", () =>
    Effect.gen(function*() {
      for (const target of ["*", "http://[/sandboxes", `http://[${SANDBOXES}`, "foo://x/sandboxes"]) {
        assert.match(yield* raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /u, target)
      }
    }))
})

layer(http(), { excludeTestServices: true })("a key that is known", (it) => {
  const forbidden = Effect.fnUntraced(function*(key: string) {
    const reply = yield* ask(SANDBOXES, { key })
    refused(reply, 403, "forbidden")
    assert.strictEqual(reply.headers["www-authenticate"], undefined)
    return json(reply).error.message
  })

  it.effect("is refused without a challenge once its user is no longer an active member, and heard when there again", () =>
    Effect.gen(function*() {
      const members = yield* Members
      const { key } = yield* mintKey({ userId: yield* joined("ada") })
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
      yield* members.remove(null, "ada")
      assert.strictEqual(yield* forbidden(key), "The key's user is no longer an active member of the organization.")
      yield* members.add(null, "ada", "member")
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
    }))

  it.effect("is refused without a challenge while its organization is suspended", () =>
    Effect.gen(function*() {
      const members = yield* Members
      const { key } = yield* mintKey()
      yield* members.suspend("default")
      assert.strictEqual(yield* forbidden(key), "The key's organization is suspended.")
      yield* members.resume("default")
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
    }))
})

layer(http({ settings: { requestsPerMinute: 3, refusedKeysPerMinute: 2 } }), { excludeTestServices: true })("rates", (it) => {
  it.effect("let a key make so many requests at once and no more, and a refusal costs nothing", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const left: Array<string> = []
      for (let i = 0; i < 3; i++) left.push(String((yield* ask(SANDBOXES, { key })).headers["ratelimit"]))
      assert.deepStrictEqual(left.map((header) => header.replace(/t=\d+/u, "t=")), [2, 1, 0].map((r) => `"default";r=${r};t=`))
      for (const path of [SANDBOXES, "/api/nothing"]) {
        const reply = yield* ask(path, { key })
        refused(reply, 429, "rate_limited")
        assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
        assert.strictEqual(reply.headers["ratelimit"], `"default";r=0;t=${reply.headers["retry-after"]}`)
        assert.strictEqual(reply.headers["ratelimit-policy"], `"default";q=3;w=60`)
      }
      assert.strictEqual((yield* ask(SANDBOXES, { key: (yield* mintKey()).key })).status, 200)
    }))

  it.effect("let an address present so many keys that are not valid; a valid one is still heard", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (let i = 0; i < 2; i++) refused(yield* ask(SANDBOXES, { key: "wrong" }), 401, "unauthorized")
      const reply = yield* ask(SANDBOXES, { key: "wrong" })
      refused(reply, 429, "rate_limited")
      assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
      refused(yield* ask(SANDBOXES), 401, "unauthorized")
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
    }))
})

layer(http({ settings: { requestsPerMinute: 3, requestsPerUser: 5, requestsPerGrant: 4 } }), { excludeTestServices: true })(
  "rates of many keys",
  (it) => {
    const left = ({ headers, status }: Reply) => [status, String(headers["ratelimit"]).replace(/t=\d+/u, "t=")]
    const isRefused = (reply: Reply, message: string) => {
      refused(reply, 429, "rate_limited")
      assert.strictEqual(json(reply).error.message, message)
      assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
      assert.strictEqual(reply.headers["ratelimit"], `"default";r=0;t=${reply.headers["retry-after"]}`)
      assert.strictEqual(reply.headers["ratelimit-policy"], `"default";q=3;w=60`)
    }

    it.effect("count by grant too: more keys do not give more requests, and the headers tell what is left", () =>
      Effect.gen(function*() {
        const [ada, bob] = [yield* joined("ada"), yield* joined("bob")]
        const [first, second] = [yield* mintKey({ grant: "one", userId: ada }), yield* mintKey({ grant: "one", userId: bob })]
        for (const r of [2, 1]) assert.deepStrictEqual(left(yield* ask(SANDBOXES, { key: first.key })), [200, `"default";r=${r};t=`])
        for (const r of [1, 0]) assert.deepStrictEqual(left(yield* ask(SANDBOXES, { key: second.key })), [200, `"default";r=${r};t=`])
        for (const { key } of [first, second]) isRefused(yield* ask(SANDBOXES, { key }), "Too many requests of this grant.")
        // Neither key nor user paid for that.
        const elsewhere = yield* mintKey({ grant: "two", userId: bob })
        for (const r of [2, 1, 0]) assert.deepStrictEqual(left(yield* ask(SANDBOXES, { key: elsewhere.key })), [200, `"default";r=${r};t=`])
      }))

    it.effect("count by user too, in all grants; other users and the user's own sessions are heard", () =>
      Effect.gen(function*() {
        const eve = yield* joined("eve")
        const keys = yield* Effect.forEach(["three", "four"], (grant) => mintKey({ grant, userId: eve }))
        const replies = yield* Effect.forEach([0, 0, 0, 1, 1], (i) => ask(SANDBOXES, { key: keys[i]!.key }))
        assert.deepStrictEqual(replies.map(({ status }) => status), [200, 200, 200, 200, 200])
        isRefused(yield* ask(SANDBOXES, { key: keys[1]!.key }), "Too many requests of this user.")
        assert.strictEqual((yield* ask(SANDBOXES, { key: (yield* mintKey({ grant: "four" })).key })).status, 200)
        const sessions = yield* Sessions
        const bySession = Effect.fnUntraced(function*(token: Redacted.Redacted) {
          return yield* ask(SANDBOXES, { headers: { cookie: `${COOKIE}=${Redacted.value(token)}` } })
        })
        const [laptop, phone] = [yield* sessions.signIn(eve, null), yield* sessions.signIn(eve, null)]
        for (const { token } of [laptop, phone, laptop, phone, laptop]) assert.strictEqual((yield* bySession(token)).status, 200)
        isRefused(yield* bySession(phone.token), "Too many requests of this user.")
      }))
  }
)

layer(http(), { excludeTestServices: true })("what Node's parser refuses", (it) => {
  const parse = (text: string) => {
    const [head = "", body = ""] = text.split("\r\n\r\n")
    const [line = "", ...headers] = head.split("\r\n")
    return {
      status: Number(line.split(" ")[1]),
      body: JSON.parse(body),
      headers: Object.fromEntries(headers.map((header) => [header.split(": ")[0]?.toLowerCase(), header.split(": ")[1]]))
    }
  }

  it.effect("gets the error body all the same", () =>
    Effect.gen(function*() {
      const cases: ReadonlyArray<readonly [string, number, string]> = [
        ["nonsense\r\n\r\n", 400, "invalid_request"],
        ["GET / HTTP/9.9\r\n\r\n", 400, "invalid_request"],
        ["GET /\u0001 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid_request"],
        ["GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n", 400, "invalid_request"],
        ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "invalid_request"],
        [`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17 * 1024)}\r\n\r\n`, 431, "headers_too_large"],
        ["GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "invalid_request"],
        ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"],
        // Values that the parser accepts.
        ...["a\r\nHost: a", "a\r\nHost: b", "a,b", "a b", "a/b", "a@b", "a:b", "a:80:80", "[::1", "::1", "a\"", "\u00e9", ""].map(
          (host) => [`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 400, "invalid_request"] as const
        ),
        ["GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, "invalid_request"],
        ["GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", 400, "invalid_request"],
        ["GET /healthz HTTP/2.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", 400, "invalid_request"],
        ["GET /healthz HTTP/0.9\r\nHost: a\r\n\r\n", 400, "invalid_request"],
        ...["gzip, chunked", "gzip,chunked", "x, chunked", "identity, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked",
          "gzip", "identity"].map(
            (encoding) =>
              [`POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`, 400, "invalid_request"] as const
          )
      ]
      for (const [bytes, status, code] of cases) {
        const reply = parse(yield* raw(bytes))
        assert.deepStrictEqual([reply.status, reply.body.error.code], [status, code], bytes.slice(0, 40))
        assert.deepStrictEqual(Object.keys(reply.body), ["error"])
        assert.strictEqual(reply.headers["content-type"], "application/json; charset=utf-8")
        assert.match(reply.headers["x-request-id"], /^req_/u)
        assert.strictEqual(reply.headers.connection?.toLowerCase(), "close")
      }
    }))

  it.effect("takes no answer away: earlier requests on the connection are answered first", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const body = JSON.stringify(creation)
      const head = `POST ${SANDBOXES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`
      const good = `${head}Content-Length: ${body.length}\r\n\r\n${body}`
      const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n`
      for (
        const [bad, status] of [
          ["nonsense\r\n\r\n", 400],
          [`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17 * 1024)}\r\n\r\n`, 431],
          ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 404],
          ["GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400],
          ["GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400],
          // Its headers are good: the parser only fails in its body.
          [`${chunked}nonsense\r\n`, 400]
        ] as const
      ) {
        for (const n of [0, 1, 3]) {
          const answers = (yield* raw(good.repeat(n) + bad)).split("HTTP/1.1 ").slice(1).map((answer) => Number(answer.slice(0, 3)))
          assert.deepStrictEqual(answers, [...Array.from({ length: n }, () => 201), status], bad.slice(0, 60))
        }
      }
    }))

  it.effect("is no more than that: an odd expectation, HTTP/1.0 and an offer to upgrade are fine", () =>
    Effect.gen(function*() {
      for (const [version, header] of [["1.0", "Connection: close"], ["1.1", "Host: a\r\nConnection: close\r\nExpect: the-unexpected"]]) {
        const text = yield* raw(`GET /healthz HTTP/${version}\r\n${header}\r\n\r\n`)
        assert.match(text, /^HTTP\/1.1 200 OK\r\n/u, header)
      }
      const offered = yield* ask("/healthz", {
        headers: { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAMAAABk" }
      })
      assert.strictEqual(offered.status, 200)
      for (
        const host of ["a", "a.example:4000", "a.example.:", "127.0.0.1:80", "[::1]:4000", "xn--80ak6aa92e.com", "under_score", "A", "%41"]
      ) {
        assert.match(yield* raw(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`), /^HTTP\/1.1 200 OK\r\n/u, host)
      }
      // Absolute form: the target's authority counts for nothing here.
      const text = yield* raw("GET http://elsewhere/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      assert.match(text, /^HTTP\/1.1 200 OK\r\n/u)
    }))
})

layer(http(), { excludeTestServices: true })("public documents", (it) => {
  it.effect("need no key", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* ask("/healthz")).text, `{"status":"ok"}`)
      assert.strictEqual((yield* ask("/readyz")).text, `{"status":"ok"}`)
      assert.strictEqual(json(yield* ask("/openapi.json")).openapi, "3.1.0")
      const internal = json(yield* ask("/openapi-internal.json"))
      assert.strictEqual(internal.openapi, "3.1.0")
      assert.isTrue(Object.keys(internal.paths).every((path) => path.startsWith("/api/internal/v1/")))
      const docs = yield* ask("/docs")
      assert.deepStrictEqual([docs.status, docs.headers["content-type"]], [200, "text/html; charset=utf-8"])
    }))

  it.effect("share their origin with people's sessions: the one with scripts reaches no other server and is in no other page", () =>
    Effect.gen(function*() {
      const { headers, text } = yield* ask("/docs")
      assert.strictEqual(
        headers["content-security-policy"],
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; " +
          "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
      )
      assert.deepStrictEqual(["x-frame-options", "referrer-policy", "x-content-type-options"].map((name) => headers[name]), ["DENY",
        "same-origin", "nosniff"])
      const [, script = ""] = /<script src="(\/docs\/[^"]+)"><\/script>/u.exec(text) ?? []
      assert.include((yield* ask(script)).text, `"withDefaultFonts":false`)
      refused(yield* ask("/docs/other.js"), 404, "not_found")
    }))
})

layer(http({ settings: { keepAlive: Duration.seconds(2) } }), { excludeTestServices: true })("a connection", (it) => {
  it.effect("waits for its next request as long as it was told to, and says so", () =>
    Effect.gen(function*() {
      const text = yield* raw("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.match(text, /\r\nKeep-Alive: timeout=2\r\n/u)
    }))
})

layer(http(), { excludeTestServices: true })("a connection, when nothing else is said,", (it) => {
  it.effect("waits longer than load balancers keep theirs", () =>
    Effect.gen(function*() {
      const reply = yield* ask("/healthz", { headers: { connection: "keep-alive" } })
      assert.strictEqual(reply.headers["keep-alive"], "timeout=65")
    }))
})
