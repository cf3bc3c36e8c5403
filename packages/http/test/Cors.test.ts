import { assert, describe, it, layer } from "@effect/vitest"
import { isOrigin, parse } from "@slipway/http/server/edge/AllowedOrigins"
import { Effect } from "effect"
import {
  ask,
  type Ask,
  COOKIE,
  json,
  layer as http,
  mintKey,
  openStream,
  PUBLIC_URL,
  type Reply,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

const APP = "https://app.example"
const LOCAL = "http://localhost:3000"

const asked = (method: string, origin = APP): Ask => ({ method: "OPTIONS", headers: { origin, "access-control-request-method": method } })
const corsOf = ({ headers }: Reply) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name === "vary" || name.startsWith("access-control-")))

describe("a list of origins", () => {
  it("has what browsers send as an origin, and nothing else", () => {
    assert.deepStrictEqual(parse(`${APP}, ${LOCAL},http://[::1]:8080`), [APP, LOCAL, "http://[::1]:8080"])
    for (
      const text of ["", "*", "null", "app.example", "https://app.example/", "https://App.example", "https://app.example:443",
        "ftp://a.example", "https://u@app.example", "https://*.example", "file://"]
    ) {
      assert.isFalse(isOrigin(text), text)
      assert.isNull(parse(`${APP},${text}`), text)
    }
  })
})

layer(http({ settings: { allowedOrigins: [APP, LOCAL] } }))("pages of an allowed origin", (it) => {
  it.effect("may ask before they have a key, for what the address answers to", () =>
    Effect.gen(function*() {
      const reply = yield* ask(SANDBOXES, asked("POST"))
      assert.strictEqual(reply.status, 204)
      assert.deepStrictEqual(corsOf(reply), {
        vary: "Origin",
        "access-control-allow-origin": APP,
        "access-control-allow-methods": "POST, GET, HEAD, OPTIONS",
        "access-control-allow-headers":
          "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, " +
          "traceparent, tracestate",
        "access-control-max-age": "600",
        "access-control-expose-headers": reply.headers["access-control-expose-headers"]
      })
      assert.match(String(reply.headers["x-request-id"]), /^req_/u)
      const local = yield* ask(`${SANDBOXES}/x/messages/y`, asked("DELETE", LOCAL))
      assert.strictEqual(local.headers["access-control-allow-origin"], LOCAL)
      assert.strictEqual(local.headers["access-control-allow-methods"], "DELETE, OPTIONS")
      assert.strictEqual((yield* ask("/api/public/v1/nothing", asked("GET"))).status, 204)
    }))

  it.effect("read replies and refusals, of streams too, with their headers", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const origin = { origin: APP }
      const stream = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key, headers: origin })
      const replies = [
        yield* ask(SANDBOXES, { key, headers: origin }),
        yield* ask(SANDBOXES, { headers: origin }),
        yield* ask(SANDBOXES, { method: "PUT", key, headers: origin }),
        yield* ask("/api/public/v1/nothing", { key, headers: origin }),
        yield* ask("/openapi.json", { headers: origin }),
        yield* ask("/mcp", { method: "POST", headers: { ...origin, accept: "application/json, text/event-stream" } }),
        yield* ask("/.well-known/oauth-protected-resource/mcp", { headers: origin })
      ]
      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 401, 405, 404, 200, 401, 200])
      for (const { headers } of [...replies, stream]) {
        assert.strictEqual(headers["access-control-allow-origin"], APP)
        const varied = String(headers["vary"]).split(", ")
        assert.include(varied, "Origin")
        assert.strictEqual(new Set(varied).size, varied.length, "each header is named once")
        for (const read of ["Retry-After", "X-Request-Id", "Location", "Mcp-Session-Id", "WWW-Authenticate"]) {
          assert.include(String(headers["access-control-expose-headers"]), read)
        }
        assert.isUndefined(headers["access-control-allow-credentials"])
      }
      assert.strictEqual(json(replies[1] as Reply).error.code, "unauthorized")
    }))

  it.effect("are not those of another origin, and reach neither pages nor what operators have", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (const origin of ["https://evil.example", "null", `${APP}.evil.example`, "http://app.example", PUBLIC_URL]) {
        const preflight = yield* ask(SANDBOXES, asked("GET", origin))
        assert.deepStrictEqual([preflight.status, corsOf(preflight)], [401, { vary: "Origin" }], origin)
        assert.deepStrictEqual(corsOf(yield* ask(SANDBOXES, { key, headers: { origin } })), { vary: "Origin" })
      }
      for (const path of ["/keys", "/oauth/token", "/sign-in", "/api/internal/v1/webhooks", "/metrics", "/api/publicity"]) {
        assert.deepStrictEqual(corsOf(yield* ask(path, asked("POST"))), {}, path)
        assert.deepStrictEqual(corsOf(yield* ask(path, { key, headers: { origin: APP } })), {}, path)
      }
      // A request that is no CORS preflight needs a key as usual.
      assert.strictEqual((yield* ask(SANDBOXES, { method: "OPTIONS", headers: { origin: APP } })).status, 401)
      assert.strictEqual((yield* ask(SANDBOXES, { headers: { origin: APP, cookie: `${COOKIE}=x` } })).status, 401)
    }))
})

layer(http())("without allowed origins", (it) => {
  it.effect("no reply has a header of CORS", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      assert.deepStrictEqual(corsOf(yield* ask(SANDBOXES, { key, headers: { origin: APP } })), {})
      const preflight = yield* ask(SANDBOXES, asked("GET"))
      assert.deepStrictEqual([preflight.status, corsOf(preflight)], [401, {}])
    }))
})
