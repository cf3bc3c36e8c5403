import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, layer as http, mintKey, raw } from "../testing/Harness.ts"
import { parse } from "../testing/PrometheusText.ts"

const APP = "https://app.example"
const LIST = "/api/public/v1/sandboxes"

/** Requests that are refused, or answered, without a look at the store: first line and headers. */
const requests: ReadonlyArray<readonly [line: string, ...headers: ReadonlyArray<string>]> = [
  [`GET ${LIST}`],
  [`GET ${LIST}?limit=2`, "Authorization: Bearer sbx_live_short"],
  [`HEAD ${LIST}`, "Authorization: Basic YTpi"],
  [`DELETE ${LIST}/c_1/messages/m`, "Authorization: Bearer a", "Authorization: Bearer b"],
  [`GET ${LIST}/%zz`, "Authorization: Bearer junk"],
  ["GET /api/nothing", "Authorization: Bearer junk"],
  ["GET /mcp", `Origin: ${APP}`],
  [`GET ${LIST}`, `Origin: ${APP}`, "Accept-Encoding: gzip"],
  [`OPTIONS ${LIST}`, `Origin: ${APP}`, "Access-Control-Request-Method: POST"],
  ["GET /healthz", "Host: twice"],
  ["GET /healthz", "Host: a b"]
]

/** Without what differs between two answers. */
const comparable = (answer: string) => answer.replace(/^(X-Request-Id: req_|Date: ).*$/gimu, "$1")

/** Requests and refusals until now, this request included. */
const counted = (key: string) =>
  Effect.map(
    ask("/metrics", { key }),
    ({ text }) =>
      ["slipway_http_requests_total", "slipway_http_refusals_total"].map((family) =>
        Array.from(parse(text).values).reduce((sum, [series, value]) => series.startsWith(family) ? sum + value : sum, 0)
      )
  )

layer(http({ settings: { allowedOrigins: [APP] } }), { excludeTestServices: true })("an answer by the head of a request alone", (it) => {
  it.effect("is the answer of the whole service, byte for byte, and is counted as that is", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "operations", scopes: ["metrics:read"] })
      for (const [line, ...headers] of requests) {
        const answer = (more: ReadonlyArray<string>) =>
          raw([`${line} HTTP/1.1`, "Host: x", ...headers, ...more, "Connection: close", "", ""].join("\r\n"))
        const before = yield* counted(key)
        const early = yield* answer([])
        const between = yield* counted(key)
        // A request with a body is never answered by its head alone.
        const late = yield* answer(["Content-Length: 0"])
        const after = yield* counted(key)
        assert.strictEqual(comparable(early), comparable(late), line)
        assert.match(early, /^x-request-id: req_[0-9A-Z]{26}\r$/imu)
        assert.notStrictEqual(/req_\w+/u.exec(early)?.[0], /req_\w+/u.exec(late)?.[0])
        assert.deepStrictEqual(between.map((n, i) => n - (before[i] ?? 0)), after.map((n, i) => n - (between[i] ?? 0)), line)
      }
    }).pipe(Effect.orDie))
})
