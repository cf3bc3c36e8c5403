import { assert, describe, it } from "@effect/vitest"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Deferred, Effect, Metric, Option } from "effect"
import type { ServerResponse } from "node:http"
import { collecting, collector, options, spansOf } from "./Collector.ts"

const dropped = Effect.map(Metric.snapshot, (metrics) => {
  const found = metrics.find(({ id }) => id === "slipway_spans_dropped_total")
  return found?.type === "Counter" ? Number(found.state.count) : null
})

describe("traces by OTLP", () => {
  it.live("tell of an error its kind alone, and of attributes what may be told, cut and without secrets", () =>
    Effect.gen(function*() {
      const { bodies, url } = yield* collector()
      class Broke extends Error {
        override readonly name = "Broke"
      }
      yield* collecting(
        Effect.annotateCurrentSpan("listed", ["canary"]).pipe(
          Effect.andThen(Effect.fail(new Broke("errorcanary"))),
          RootSpan.traced("one", {
            attributes: {
              "long": "a word ".repeat(1000),
              "url.full": "http://canary",
              "http.request.header.x-key": "canary",
              "said": "it is headersecret0123456789"
            }
          }),
          Effect.ignore
        ),
        options(url)
      )
      const [span] = spansOf(bodies)
      const attributes = Object.fromEntries(span?.attributes.map(({ key, value }) => [key, value.stringValue]) ?? [])
      assert.deepStrictEqual(attributes, { long: "a word ".repeat(1000).slice(0, 512), said: "it is [redacted]", "error.type": "Broke" })
      assert.deepStrictEqual(span?.status, { code: 2 })
      assert.notMatch(bodies.join(), /canary|headersecret/u)
    }))

  it.live("of more spans than may wait, and of more than a trace may have, the rest is dropped and counted", () =>
    Effect.gen(function*() {
      const { bodies, url } = yield* collector()
      const many = (n: number) => Effect.forEach(Array.from({ length: n }), () => RootSpan.traced("small")(Effect.void), { discard: true })
      const count = yield* collecting(Effect.andThen(many(30), dropped), { ...options(url), queue: 10 })
      assert.deepStrictEqual([spansOf(bodies).length, count], [10, 20])
      const large = yield* collecting(
        Effect.andThen(
          RootSpan.traced("outer")(Effect.gen(function*() {
            const own = Effect.replicateEffect(Effect.withSpan(Effect.void, "inner"), 9)
            yield* own
            yield* RootSpan.traced("apart", { parent: Option.fromUndefinedOr(RootSpan.current(yield* Effect.context<never>())) })(own)
          })),
          dropped
        ),
        { ...options(url), spans: 5 }
      )
      const names = spansOf(bodies).slice(10).map(({ name }) => name)
      assert.deepStrictEqual([names.filter((name) => name === "inner").length, names.includes("outer"), large], [8, true, 10])
    }))

  it.live("a collector that refuses costs spans and nothing else", () =>
    Effect.gen(function*() {
      const { bodies, url } = yield* collector((response) => void response.writeHead(400).end())
      const one = RootSpan.traced("one")(Effect.succeed(1))
      const got = yield* collecting(
        Effect.gen(function*() {
          const got = yield* one
          while (bodies.length === 0) yield* Effect.sleep("5 millis")
          yield* one
          return got
        }),
        { ...options(url), interval: 10 }
      )
      assert.strictEqual(got, 1)
    }))

  it.live("a collector that never answers delays no request, and has a bounded queue", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<ServerResponse>()
      const { bodies, url } = yield* collector((response) => {
        if (!Deferred.doneUnsafe(asked, Effect.succeed(response))) response.end("{}")
      })
      const many = Effect.replicateEffect(RootSpan.traced("small")(Effect.succeed(1)), 5000)
      const { done, lost } = yield* collecting(
        Effect.gen(function*() {
          yield* RootSpan.traced("first")(Effect.void)
          const hanging = yield* Deferred.await(asked)
          const done = yield* many
          const lost = yield* dropped
          hanging.end("{}")
          return { done, lost }
        }),
        { ...options(url), interval: 10, queue: 100 }
      )
      assert.strictEqual(done.length, 5000)
      assert.deepStrictEqual([lost, spansOf(bodies).length], [4900, 101])
    }))

  it.live("a sampler by ratio collects whole traces, and a sampler by parents collects what a caller collects", () =>
    Effect.gen(function*() {
      const { bodies, url } = yield* collector()
      const pair = RootSpan.traced("outer")(Effect.withSpan(Effect.void, "inner"))
      const called = (sampled: boolean) =>
        RootSpan.traced("called", {
          parent: RootSpan.fromTraceparent(`00-${"a".repeat(32)}-${"b".repeat(16)}-0${sampled ? 1 : 0}`)
        })(Effect.void)
      yield* collecting(
        Effect.all([Effect.replicateEffect(pair, 200), called(true), called(false)]),
        { ...options(url), sampler: { name: "parentbased_traceidratio", ratio: 0.5 } }
      )
      const spans = spansOf(bodies)
      const outer = spans.filter(({ name }) => name === "outer")
      const inner = spans.filter(({ name }) => name === "inner")
      assert.deepStrictEqual(inner.map(({ traceId }) => traceId).toSorted(), outer.map(({ traceId }) => traceId).toSorted())
      assert.isTrue(outer.length > 50 && outer.length < 150)
      assert.strictEqual(spans.filter(({ name }) => name === "called").length, 1)
      yield* collecting(pair, { ...options(url), sampler: { name: "always_off", ratio: 1 } })
      assert.strictEqual(spansOf(bodies).length, spans.length)
    }))
})
