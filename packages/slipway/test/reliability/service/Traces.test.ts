/** One sandbox from its request to a follow-up and a pull request, as a collector of traces is told of it. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { parse } from "@slipway/http/testing/PrometheusText"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as OtlpReceiver from "./OtlpReceiver.ts"

const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" }

it.live(
  "one trace goes from the request to the turn's end, and a follow-up's links to it; no trace has a person's words",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const collector = yield* OtlpReceiver.make()
      const databaseUrl = yield* TestPostgres.database(Migrations.layer)
      const settings = { DATABASE_URL: databaseUrl, SLIPWAY_ISOLATION: "none" }
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
      const server = yield* serve(data, {
        ...settings,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_HEADERS: "x-collector-key=collectorcanary%2B0123456789",
        OTEL_SERVICE_NAME: "slipway-under-test"
      })
      const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
      const key = String(JSON.parse(stdout).key)
      const api = (path: string, body?: object, headers: Record<string, string> = {}) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1/sandboxes${path}`, {
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
            ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
          })
          const text = await response.text()
          assert.isTrue(response.ok, `${path}: ${response.status} ${text}`)
          return JSON.parse(text)
        })

      const { id } = yield* api("", {
        repos: [{ fullName: "acme/shop" }],
        prompt: "[[say promptcanary0123456789]] [[write path=pathcanary content=filecanary0123456789]]",
        toolApprovalMode: "prompt"
      }, { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01` })
      const asked = yield* until(
        api(`/${id}/events`),
        ({ data }) => data.some(({ type }: { readonly type: string }) => type === "approval.requested")
      )
      const { data: { approval_id: approval } } = asked.data.find(({ type }: { readonly type: string }) => type === "approval.requested")
      yield* api(`/${id}/approvals/${approval}`, { decision: "approve" })
      const completed = (count: number) =>
        until(
          api(`/${id}/events`),
          ({ data }) => data.filter(({ type }: { readonly type: string }) => type === "turn.completed").length === count
        )
      yield* completed(1)
      yield* api(`/${id}/messages`, { prompt: "[[say followcanary0123456789]]" })
      yield* completed(2)
      assert.strictEqual((yield* api(`/${id}/pull-request`, {})).actionState, "idle")
      yield* api(`/${id}/terminate`, {})
      yield* until(api(`/${id}`), ({ status }) => status === "terminated")
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)

      const spans = collector.spans()
      const created = spans.filter(({ traceId }) => traceId === CALLER.traceId)
      const file = process.env["TRACE_FILE"]
      if (file !== undefined) {
        writeFileSync(file, JSON.stringify(spans, null, 2))
        writeFileSync(
          `${file}.txt`,
          [...new Set(spans.map(({ traceId }) => traceId))].map((trace) =>
            OtlpReceiver.outline(spans.filter(({ traceId }) => traceId === trace))
          ).join("\n\n")
        )
      }
      const named = (name: string) => {
        const found = created.find((span) => span.name === name)
        assert.isDefined(found, `${name} is not in\n${OtlpReceiver.outline(created)}`)
        return found!
      }
      const above = (span: OtlpReceiver.Span): ReadonlyArray<string> => {
        const parent = created.find(({ spanId }) => spanId === span.parentSpanId)
        return parent === undefined ? [] : [parent.name, ...above(parent)]
      }

      const request = named("POST /api/public/v1/sandboxes")
      assert.strictEqual(request.parentSpanId, CALLER.spanId)
      assert.lengthOf(created.filter(({ parentSpanId }) => parentSpanId === CALLER.spanId), 1)
      assert.strictEqual(OtlpReceiver.attribute(request, "http.response.status_code"), "201")
      assert.deepStrictEqual(above(named("Sandboxes.create")), [request.name])
      const session = named("sandbox session")
      assert.strictEqual(session.parentSpanId, named("Sandboxes.create").spanId)
      for (const name of ["queue wait", "claim", "provision", "clone", "setup", "agent start", "turn"]) {
        assert.include(above(named(name)), "sandbox session", name)
      }
      for (const name of ["execute_tool", "approval wait"]) assert.include(above(named(name)), "turn", name)
      assert.isTrue(created.some((span) => span.name.startsWith("git ") && above(span).includes("clone")))
      assert.include(above(named("checkpoint")), "sandbox session")
      for (const step of ["snapshot", "push", "pull request"]) assert.include(above(named(`publication ${step}`)), "publication")
      assert.isTrue(created.some((span) => OtlpReceiver.attribute(span, "db.system.name") === "postgresql"))
      assert.strictEqual(OtlpReceiver.attribute(named("turn"), "slipway.turn.state"), "succeeded")

      const sent = spans.find(({ name }) => name === "POST /api/public/v1/sandboxes/:sandboxId/messages")
      const follow = spans.find((span) => span.name === "turn" && span.traceId === sent?.traceId)
      assert.isDefined(follow)
      assert.notStrictEqual(follow.traceId, CALLER.traceId)
      assert.deepInclude(follow.links.map(({ traceId }) => traceId), CALLER.traceId)

      // Only a request begins a trace.
      const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined).map(({ name }) => name)
      assert.deepStrictEqual(roots.filter((name) => !/^(?:GET|POST) |^sandbox session$/u.test(name)), [])

      // Every span has its parent, but for those that begin a trace here.
      const ids = new Set(spans.map(({ spanId }) => spanId))
      const orphans = spans.filter(({ parentSpanId }) =>
        parentSpanId !== undefined && parentSpanId !== CALLER.spanId && !ids.has(parentSpanId)
      )
      assert.deepStrictEqual(orphans.map(({ name }) => name), [])

      const [first] = collector.requests()
      assert.strictEqual(first?.path, "/v1/traces")
      assert.strictEqual(first?.headers["x-collector-key"], "collectorcanary+0123456789")
      const bodies = collector.requests().map(({ body }) => body).join("\n")
      assert.include(bodies, "slipway-under-test")
      assert.notMatch(bodies, /canary/u)
      assert.notInclude(bodies, key)
      assert.notMatch(server.output(), /collectorcanary/u)
    }).pipe(Effect.scoped)
)

it.live(
  "a collector that never answers costs spans, which are counted: requests and turns go on, and the service ends when it is asked to",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const collector = yield* OtlpReceiver.make(() => null)
      const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none" }
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
      const server = yield* serve(data, { ...settings, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
      const made = yield* run(data, ["keys", "create", "--grant", "scraper", "--scopes", "metrics:read", "--json"], settings)
      const scraper = String(JSON.parse(made.stdout).key)
      const ask = (address: string, key: string | undefined, body?: object) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}${address}`, {
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
          })
          const text = await response.text()
          assert.isTrue(response.ok, `${address}: ${response.status} ${text}`)
          return text
        })
      const api = (address: string, body?: object) =>
        Effect.map(ask(`/api/public/v1/sandboxes${address}`, server.key, body), (text) => JSON.parse(text))
      const counted = Effect.map(ask("/metrics", scraper), (text) => {
        const { values } = parse(text)
        return { sent: values.get("slipway_spans_sent_total"), dropped: values.get("slipway_spans_dropped_total") ?? 0 }
      })

      const many = Effect.forEach(Array.from({ length: 100 }), () => api(""), { concurrency: 20, discard: true })
      yield* until(Effect.andThen(many, counted), ({ dropped }) => dropped > 0)
      yield* until(Effect.sync(collector.requests), ({ length }) => length > 0)
      const { id } = yield* api("", { repos: [{ fullName: "acme/shop" }], prompt: "[[say hello]]" })
      const turns = (count: number) =>
        until(
          api(`/${id}/events`),
          ({ data }) => data.filter(({ type }: { readonly type: string }) => type === "turn.completed").length === count
        )
      yield* turns(1)
      yield* api(`/${id}/messages`, { prompt: "[[say again]]" })
      yield* turns(2)
      assert.strictEqual((yield* counted).sent, 0)
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped)
)
