/** A collector of traces: what it was sent, as OTLP has it. */
import { Effect } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"

interface Value {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly boolValue?: boolean
}

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: Value }>
  readonly events: ReadonlyArray<unknown>
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
  readonly status: { readonly code: number; readonly message?: string }
}

export interface Receiver {
  readonly url: string
  readonly spans: () => ReadonlyArray<Span>
  readonly requests: () => ReadonlyArray<{ readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }>
}

/** An attribute of a span, as text. */
export const attribute = ({ attributes }: Span, name: string): string | undefined => {
  const value = attributes.find(({ key }) => key === name)?.value
  return value === undefined ? undefined : String(Object.values(value)[0])
}

/** Listens until the scope closes. `status`: what it answers; `null`: nothing, ever. */
export const make = (status: () => number | null = () => 200) =>
  Effect.acquireRelease(
    Effect.callback<Receiver & { readonly close: () => void }>((resume) => {
      const requests: Array<{ readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }> = []
      const spans: Array<Span> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const body = Buffer.concat(chunks).toString()
          requests.push({ path: request.url ?? "", headers: request.headers, body })
          const code = status()
          if (code === 200) {
            for (const { scopeSpans } of JSON.parse(body).resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans)
          }
          if (code !== null) response.writeHead(code, { "content-type": "application/json" }).end("{}")
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}`,
          spans: () => spans,
          requests: () => requests,
          close: () => {
            server.close()
            server.closeAllConnections()
          }
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** A trace as an outline: each span beneath its parent, by when they began. */
export const outline = (spans: ReadonlyArray<Span>): string => {
  const known = new Set(spans.map(({ spanId }) => spanId))
  const lines = (of: (span: Span) => boolean, depth: number): ReadonlyArray<string> =>
    spans.filter(of).toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano))).flatMap((span) => [
      `${"  ".repeat(depth)}${span.name}`,
      ...lines(({ parentSpanId }) => parentSpanId === span.spanId, depth + 1)
    ])
  return lines(({ parentSpanId }) => parentSpanId === undefined || !known.has(parentSpanId), 0).join("\n")
}
