import { assert, layer } from "@effect/vitest"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Effect, Layer, Tracer } from "effect"
import { ask, layer as http, mintKey, SANDBOXES } from "../testing/Harness.ts"

const ended: Array<{ readonly name: string; readonly attributes: Record<string, unknown> }> = []

/** Keeps the spans of requests that ended. */
const collector = Tracer.make({
  span: (options) => {
    const span = new Tracer.NativeSpan(options)
    const end = span.end.bind(span)
    span.end = (...how) => {
      end(...how)
      if (options.kind === "server") ended.push({ name: options.name, attributes: Object.fromEntries(span.attributes) })
    }
    return span
  }
})

const collected = http({ settings: { refusedKeysPerMinute: 1 } }).pipe(
  Layer.provideMerge(Layer.mergeAll(Layer.succeed(RootSpan.Collected, true), Layer.succeed(Tracer.Tracer, collector)))
)

layer(collected, { excludeTestServices: true })("where spans are collected", (it) => {
  it.effect("every request has one, also what is refused before anything is asked", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const asked = [
        { path: SANDBOXES, key, status: 200, route: SANDBOXES },
        { path: SANDBOXES, status: 401, route: SANDBOXES },
        { path: SANDBOXES, key: "sbx_live_x", status: 401, route: SANDBOXES },
        { path: SANDBOXES, key: "sbx_live_x", status: 429, route: SANDBOXES },
        { path: "/nothing", status: 404, route: null }
      ]
      for (const { path, route, status, key } of asked) {
        ended.length = 0
        yield* ask(path, { ...(key === undefined ? {} : { key }) })
        const own = ended.filter(({ attributes }) => "http.response.status_code" in attributes && !("url.full" in attributes))
        assert.deepStrictEqual(own.map(({ attributes, name }) => [name, attributes["http.response.status_code"]]), [
          [route === null ? "GET" : `GET ${route}`, status]
        ])
      }
    }))
})
