/** A collector of traces for tests, and the layer that sends it spans. */
import { Redaction, Redactor } from "@slipway/domain/environment/redaction/Redaction"
import { Effect, Layer, Redacted } from "effect"
import { createServer, type ServerResponse } from "node:http"
import * as TracesOtlp from "../../src/traces/TracesOtlp.ts"

export interface Sent {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: Readonly<Record<string, string | number>> }>
  readonly links: ReadonlyArray<unknown>
  readonly status: { readonly code: number; readonly message?: string }
}

/** A collector that answers as `answer` does, until the scope closes. */
export const collector = (answer: (response: ServerResponse) => void = (response) => void response.end("{}")) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly bodies: Array<string>; readonly close: () => void }>((resume) => {
      const bodies: Array<string> = []
      const server = createServer((request, response) => {
        let body = ""
        request.on("data", (chunk: Buffer) => (body += chunk.toString()))
        request.on("end", () => {
          bodies.push(body)
          answer(response)
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const close = () => {
          server.close()
          server.closeAllConnections()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}/v1/traces`, bodies, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

export const spansOf = (bodies: ReadonlyArray<string>): ReadonlyArray<Sent> =>
  bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans)

export const options = (url: string): TracesOtlp.Options => ({
  url,
  headers: new Map([["x-key", Redacted.make("headersecret0123456789")]]),
  serviceName: "test",
  serviceVersion: "1",
  sampler: { name: "parentbased_always_on", ratio: 1 },
  // Waiting spans are sent when the layer ends.
  interval: 3_600_000
})

export const collecting = <A, E>(self: Effect.Effect<A, E>, given: TracesOtlp.Options) =>
  Effect.provide(self, TracesOtlp.layer(given).pipe(Layer.provide(Layer.succeed(Redaction, new Redactor()))))
