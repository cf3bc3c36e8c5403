import { assert, it } from "@effect/vitest"
import * as RootSpan from "@slipway/domain/RootSpan"
import { type Context, Effect, Fiber, Option, References, Tracer } from "effect"

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
