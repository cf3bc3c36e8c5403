import { assert, it } from "@effect/vitest"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"

const ids = Effect.contextWith((context: Context.Context<never>) => {
  const span = RootSpan.current(context)
  return Effect.succeed(span === undefined ? null : { traceId: span.traceId, spanId: span.spanId })
})

for (const enabled of [true, false]) {
  it.effect(`with tracing ${enabled ? "on" : "off"}, all that runs in a root span knows its trace, and the next one has another`, () =>
    Effect.gen(function*() {
      assert.isNull(yield* ids)
      const once = Effect.gen(function*() {
        const own = yield* ids
        const inFiber = yield* Effect.flatMap(Effect.forkChild(ids), Fiber.join)
        const inSpans = yield* ids.pipe(Effect.withSpan("inner"), Effect.withSpan("outer"))
        const elsewhere = yield* RootSpan.within("other")(ids)
        assert.match(own?.traceId ?? "", /^[0-9a-f]{32}$/u)
        assert.match(own?.spanId ?? "", /^[0-9a-f]{16}$/u)
        assert.deepStrictEqual(inFiber, own)
        assert.strictEqual(inSpans?.traceId, own?.traceId)
        if (!enabled) assert.deepStrictEqual(inSpans, own)
        assert.notStrictEqual(elsewhere?.traceId, own?.traceId)
        return own?.traceId
      }).pipe(RootSpan.within("one"))
      assert.notStrictEqual(yield* once, yield* once)
      assert.isNull(yield* ids)
    }).pipe(Effect.provideService(References.TracerEnabled, enabled)))
}

it.effect("a root span goes on with the trace of its parent, as a span of its own", () =>
  Effect.gen(function*() {
    const parent = Tracer.externalSpan({ traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" })
    const own = yield* RootSpan.within("one", Option.some(parent))(ids)
    assert.strictEqual(own?.traceId, parent.traceId)
    assert.notStrictEqual(own?.spanId, parent.spanId)
  }))

it.effect("where spans are collected, a traceparent carries the trace and whether it is sampled to another process", () =>
  Effect.gen(function*() {
    assert.isNull(yield* RootSpan.traceparent)
    const inSpan = RootSpan.traced("one", { links: [Tracer.externalSpan({ traceId: "a".repeat(32), spanId: "b".repeat(16) })] })(
      Effect.all({ text: RootSpan.traceparent, own: Effect.currentSpan, ids })
    )
    const { ids: known, own, text } = yield* inSpan
    assert.strictEqual(text, `00-${own.traceId}-${own.spanId}-01`)
    assert.deepStrictEqual(known, { traceId: own.traceId, spanId: own.spanId })
    assert.deepStrictEqual(own.links.map(({ span }) => span.traceId), ["a".repeat(32)])
    assert.strictEqual(own.status._tag, "Ended")
    const carried = RootSpan.fromTraceparent(text)
    const other = yield* RootSpan.traced("two", { parent: carried })(Effect.currentSpan)
    assert.deepStrictEqual([other.traceId, Option.getOrThrow(other.parent).spanId], [own.traceId, own.spanId])

    const unsampled = RootSpan.fromTraceparent(text?.replace(/01$/u, "00") ?? null)
    assert.match((yield* RootSpan.traced("three", { parent: unsampled })(RootSpan.traceparent)) ?? "", /-00$/u)
    for (const bad of [null, "", "00-zz", `01-${"a".repeat(32)}-${"b".repeat(16)}-01`]) {
      assert.isTrue(Option.isNone(RootSpan.fromTraceparent(bad)))
    }
  }).pipe(Effect.provideService(RootSpan.Collected, true)))

it.effect("without a collector spans serve the log only, and no trace is continued", () =>
  Effect.gen(function*() {
    const [text, own] = yield* RootSpan.traced("one")(Effect.all([RootSpan.traceparent, ids]))
    assert.isNull(text)
    assert.match(own?.traceId ?? "", /^[0-9a-f]{32}$/u)
    yield* RootSpan.traced("one")(RootSpan.past("before", { from: 0, to: 1 }))
    yield* (yield* RootSpan.open("nothing")).end
  }))
