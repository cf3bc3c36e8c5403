import { assert, describe, it, layer } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { ask, create, drive, layer as http, mintKey, openStream, refused, running, SANDBOXES } from "../testing/Harness.ts"
import { parse } from "../testing/PrometheusText.ts"

const scrape = Effect.fnUntraced(function*(key: string) {
  const reply = yield* ask("/metrics", { key })
  assert.strictEqual(reply.status, 200, reply.text)
  return parse(reply.text)
})
type Scraped = Effect.Success<ReturnType<typeof scrape>>

const scraper = Effect.map(mintKey({ grant: "operations", scopes: ["metrics:read"] }), ({ key }) => key)

/** How much each series grew that is there afterwards; those that did not are left out. */
const grown = (before: Scraped, after: Scraped, family: string) =>
  Object.fromEntries(
    Array.from(after.values).flatMap(([series, value]) => {
      const by = value - (before.values.get(series) ?? 0)
      return by !== 0 && series.startsWith(family) ? [[series.slice(family.length), by]] : []
    })
  )

layer(http(), { excludeTestServices: true })("a scrape", (it) => {
  it.effect("is the text format of Prometheus, to GET and to HEAD", () =>
    Effect.gen(function*() {
      const key = yield* scraper
      const reply = yield* ask("/metrics", { key })
      assert.strictEqual(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
      assert.strictEqual(reply.headers["cache-control"], "no-store")
      const { types } = parse(reply.text)
      for (const [name, type] of types) {
        assert.match(name, /^(?:slipway|process|nodejs)_/u)
        assert.strictEqual(/_total$/u.test(name), type === "counter", name)
      }
      const head = yield* ask("/metrics", { key, method: "HEAD" })
      assert.deepStrictEqual([head.status, head.text, head.headers["content-type"]], [200, "", reply.headers["content-type"]])
      refused(yield* ask("/metrics", { key, method: "POST" }), 405, "method_not_allowed")
      refused(yield* ask("/metrics/", { key }), 404, "not_found")
    }).pipe(Effect.orDie))

  it.effect("counts each request once: by part of the service, method and class of status", () =>
    Effect.gen(function*() {
      const key = yield* scraper
      const other = yield* mintKey()
      const id = yield* create(other.key)
      const before = yield* scrape(key)
      for (let i = 0; i < 3; i++) yield* ask(`${SANDBOXES}/${id}`, { key: other.key })
      yield* ask(`${SANDBOXES}/${id}/events`, { key: other.key, method: "HEAD" })
      yield* ask(`${SANDBOXES}/${id}/events`, { key })
      yield* ask(`${SANDBOXES}/${id}`)
      yield* ask(SANDBOXES, { key: other.key, method: "PATCH" })
      yield* ask("/healthz")
      yield* ask("/nowhere/at/all")
      yield* ask("/%ff")
      yield* ask("/docs", { method: "PROPFIND" })
      const after = yield* scrape(key)
      assert.deepStrictEqual(grown(before, after, "slipway_http_requests_total"), {
        // The scrape before this one, which was answered after it was read.
        [`{area="metrics",method="GET",status="2xx"}`]: 1,
        [`{area="sandboxes",method="GET",status="2xx"}`]: 3,
        [`{area="events",method="HEAD",status="2xx"}`]: 1,
        [`{area="events",method="GET",status="4xx"}`]: 1,
        [`{area="sandboxes",method="GET",status="4xx"}`]: 1,
        [`{area="sandboxes",method="PATCH",status="4xx"}`]: 1,
        [`{area="health",method="GET",status="2xx"}`]: 1,
        [`{area="other",method="GET",status="4xx"}`]: 2,
        [`{area="docs",method="other",status="4xx"}`]: 1
      })
      assert.deepStrictEqual(grown(before, after, "slipway_http_refusals_total"), { [`{code="401"}`]: 1, [`{code="403"}`]: 1 })
      assert.deepStrictEqual(grown(before, after, "slipway_http_request_duration_seconds_count"), {
        [`{area="metrics"}`]: 1,
        [`{area="sandboxes"}`]: 5,
        [`{area="events"}`]: 2,
        [`{area="health"}`]: 1,
        [`{area="other"}`]: 2,
        [`{area="docs"}`]: 1
      })
    }).pipe(Effect.orDie))

  it.effect("has how many streams are open", () =>
    Effect.gen(function*() {
      const key = yield* scraper
      const { key: reader } = yield* mintKey()
      const { id } = yield* running(reader)
      const stream = `slipway_http_open_responses{kind="stream"}`
      const before = (yield* scrape(key)).values.get(stream) ?? 0
      yield* Effect.gen(function*() {
        const opened = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key: reader })
        yield* opened.next
        assert.strictEqual((yield* scrape(key)).values.get(stream), before + 1)
      }).pipe(Effect.scoped)
    }).pipe(Effect.orDie))
})

layer(http({ trees: { has: () => Effect.succeed(false) } }), { excludeTestServices: true })("a scrape after much happened", (it) => {
  it.effect("names no person and nothing of theirs", () =>
    Effect.gen(function*() {
      const scraping = yield* mintKey({ grant: "distinctive-operations", scopes: ["metrics:read"] })
      const { grant, key, record } = yield* mintKey({ grant: "distinctive-grant" })
      const repo = "distinctive-owner/distinctive-repo"
      const more = {
        repos: [{ fullName: repo, ref: "distinctive-ref" }],
        prompt: "distinctive-prompt",
        metadata: { "distinctive-field": "distinctive-value" }
      }
      const { id, turn } = yield* running(key, { ...more, toolApprovalMode: "prompt" })
      yield* drive(id, [{
        _tag: "RequestApproval",
        turnId: turn,
        approval: { approval_id: "distinctive-approval", tool: "distinctive-tool", kind: "edit", paths: ["distinctive-path"] }
      }])
      for (
        const path of [`/${id}`, `/${id}/events`, `/${id}/files/tree?directory=distinctive-directory`, `/${id}/distinctive-part`,
          "/distinctive-sandbox"]
      ) {
        for (const method of ["GET", "DISTINCTIVE"]) {
          yield* ask(`${SANDBOXES}${path}`, { key, method, headers: { "x-distinctive": "distinctive-header" } })
        }
      }
      yield* ask("/distinctive-page")
      yield* ask(`/keys/${record.id}/revoke`)
      const { text } = yield* ask("/metrics", { key: scraping.key })
      assert.include(text, `slipway_approvals_pending 1`)
      assert.include(text, `slipway_sandboxes_awaiting_approval 1`)
      const named = [id, turn, grant.id, record.id, record.userId, key, key.slice(9, 20), scraping.key, scraping.record.id,
        scraping.grant.id, repo, "offline/demo"]
      for (const name of [...named, "distinctive", "DISTINCTIVE"]) {
        assert.notInclude(text, name)
      }
      // Ids of any kind.
      assert.notMatch(text, /[0-9a-f]{8}-[0-9a-f]{4}|c_[a-z2-9]{12}|user_[0-9A-Z]{10}|req_|sbx_/u)
    }).pipe(Effect.orDie))
})

layer(http())("what is live", (it) => {
  it.effect("is the store's, by status, with the age of the queue, and is looked up every five seconds at most", () =>
    Effect.gen(function*() {
      const key = yield* scraper
      const { key: creator } = yield* mintKey()
      yield* create(creator)
      yield* running(creator)
      yield* TestClock.adjust("90 seconds")
      const first = yield* scrape(key)
      const live = ({ values }: Scraped) =>
        ["queued", "creating", "running", "terminating"].map((status) => values.get(`slipway_sandboxes{status="${status}"}`))
      assert.deepStrictEqual(live(first), [1, 0, 1, 0])
      assert.strictEqual(first.values.get("slipway_queue_age_seconds"), 90)
      yield* create(creator)
      yield* TestClock.adjust("4999 millis")
      const second = yield* scrape(key)
      assert.deepStrictEqual(live(second), [1, 0, 1, 0])
      assert.strictEqual(second.values.get("slipway_queue_age_seconds"), 94.999)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(live(yield* scrape(key)), [2, 0, 1, 0])
    }).pipe(Effect.orDie))
})

layer(http({ settings: { requestsPerMinute: 1 } }), { excludeTestServices: true })("a key that scrapes too often", (it) => {
  it.effect("is refused as everywhere, which the next scrape counts", () =>
    Effect.gen(function*() {
      const key = yield* scraper
      const before = yield* scrape(key)
      refused(yield* ask("/metrics", { key }), 429, "rate_limited")
      assert.deepStrictEqual(grown(before, yield* scrape(yield* scraper), "slipway_http_refusals_total"), { [`{code="429"}`]: 1 })
    }).pipe(Effect.orDie))
})

layer(http({ access: (store) => ({ ...store, admit: () => Effect.fail(new StoreUnavailable({ cause: "cut" })) }) }), {
  excludeTestServices: true
})("without a store", (it) => {
  it.effect("there is no scrape, because no client can be known", () =>
    Effect.gen(function*() {
      refused(yield* ask("/metrics", { key: yield* scraper }), 503, "unavailable")
    }).pipe(Effect.orDie))
})

describe("the reader of these tests", () => {
  const good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\",y=\"\"} 1\na_total{x=\"2\"} 0.5e-7\n"

  it("reads what is well-formed", () => {
    assert.deepStrictEqual([...parse(good).values], [[`a_total{x="1",y=""}`, 1], [`a_total{x="2"}`, 5e-8]])
  })

  it("refuses what is not", () => {
    const histogram = (samples: string) => `# HELP h H.\n# TYPE h histogram\n${samples}`
    const bad = [
      good.slice(0, -1),
      good + good,
      `${good}\n`,
      `${good}a_total{x="1",y=""} 1\n`,
      `${good}b_total 1\n`,
      `${good}a_total{x="3",x="3"} 1\n`,
      `${good}a_total{x=3} 1\n`,
      `${good}a_total{} 1\n`,
      `${good}a_total{x="3"} NaN\n`,
      `${good}a_total{x="3"} 1 \n`,
      `${good}a_total{x="""} 1\n`,
      `${good}# TYPE b gauge\nb 1\n`,
      `${good}# HELP b B.\n`,
      `${good}# HELP b B.\n# TYPE b summary\nb 1\n`,
      histogram("h_sum 0\nh_count 0\n"),
      histogram(`h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`),
      histogram(`h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`),
      histogram(`h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`)
    ]
    for (const text of bad) assert.throws(() => parse(text), undefined, undefined, text)
  })
})
