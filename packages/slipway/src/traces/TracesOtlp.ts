/**
 * Sends spans to a collector as OTLP JSON over HTTP, with Effect's exporter. The sent data is limited and contains no text of people or
 * agents: only the kind of errors, and only allowed attributes, cut and redacted. With a slow or missing collector, spans are dropped
 * and counted; nothing else is affected.
 */
import { Redaction, type Redactor } from "@slipway/domain/environment/redaction/Redaction"
import { observed } from "@slipway/domain/observability/Metrics"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Context, Effect, Layer, Metric, Option, Redacted, References, Tracer } from "effect"
import { FetchHttpClient, HttpBody, HttpClient, HttpClientError } from "effect/http"
import { OtlpExporter, OtlpSerialization, OtlpTracer } from "effect/observability"
import { ratioOf, type Sampler } from "./Sampler.ts"

export interface Options {
  /** The full address of the collector, with its path. */
  readonly url: string
  /** The headers of each request to it. */
  readonly headers: ReadonlyMap<string, Redacted.Redacted>
  readonly serviceName: string
  readonly serviceVersion: string
  readonly sampler: Sampler
  /** Milliseconds between sends. Default: 1000. */
  readonly interval?: number
  /** The most spans that wait for the collector. Default: 2048, as in OpenTelemetry. */
  readonly queue?: number
  /** The most spans of a trace in one process; each turn of a sandbox gets as many again. Default: 1000. */
  readonly spans?: number
  /** Milliseconds that the collector may take to answer. Default: 10 seconds. */
  readonly answer?: number
}

/** Characters of a text in an attribute. */
const MAXIMUM_TEXT = 512
const MAXIMUM_ATTRIBUTES = 32
const MAXIMUM_LINKS = 8

/** The libraries' attributes that may carry people's texts: whole addresses and headers. */
const WITHHELD = /^(?:url\.(?:full|query|path|fragment)|http\.(?:request|response)\.header\.|user_agent|code\.stacktrace|exception\.)/u

const droppedMetric = Metric.counter("slipway_spans_dropped_total", {
  description: "Spans that no collector got: more than may wait, or it did not take them.",
  incremental: true
})
const sentMetric = Metric.counter("slipway_spans_sent_total", { description: "Spans that the collector took.", incremental: true })

/** The rest of a trace's span limit in this process. */
interface Budget {
  left: number
}

class Counts {
  dropped = 0
  sent = 0
  /** Spans that the exporter has accepted and still holds. */
  queued = 0
  /** Spans of the running request. */
  sending = 0
}

type TraceData = Parameters<OtlpSerialization.OtlpSerialization["Service"]["traces"]>[0]
type WireSpan = TraceData["resourceSpans"][number]["scopeSpans"][number]["spans"][number]
type WireAttribute = WireSpan["attributes"][number]

const told = (redactor: Redactor, attributes: ReadonlyArray<WireAttribute>): Array<WireAttribute> =>
  // Single values only: lists have no limit, and we make none.
  attributes.filter(({ key, value }) => !WITHHELD.test(key) && !("arrayValue" in value)).slice(0, MAXIMUM_ATTRIBUTES).map((attribute) => {
    const { stringValue } = attribute.value
    return typeof stringValue === "string"
      // Cut first, because redaction takes time by length. The rest of a cut secret is not a learned value, but is redacted if it has a
      // shape.
      ? { ...attribute, value: { stringValue: redactor.redact(stringValue.slice(0, 2 * MAXIMUM_TEXT)).slice(0, MAXIMUM_TEXT) } }
      : attribute
  })

/** The span without texts that may be private, such as an error's message. */
const bounded = (redactor: Redactor) => (span: WireSpan): WireSpan => {
  const attributes = told(redactor, span.attributes)
  const kinds = span.events.flatMap(({ attributes }) => attributes.filter(({ key }) => key === "exception.type"))
  const error = kinds[0]?.value.stringValue
  if (typeof error === "string" && !attributes.some(({ key }) => key === "error.type")) {
    attributes.push({ key: "error.type", value: { stringValue: error.slice(0, MAXIMUM_TEXT) } })
  }
  const { message: _message, ...status } = span.status
  return {
    ...span,
    name: span.name.slice(0, MAXIMUM_TEXT),
    attributes,
    droppedAttributesCount: Math.max(0, span.attributes.length - attributes.length),
    events: [],
    droppedEventsCount: span.events.length,
    status,
    links: span.links.slice(0, MAXIMUM_LINKS),
    droppedLinksCount: Math.max(0, span.links.length - MAXIMUM_LINKS)
  }
}

/** Effect's serialization of the allowed data. Counts the spans that are sent. */
const serialization = (counts: Counts, redactor: Redactor) =>
  Layer.succeed(
    OtlpSerialization.OtlpSerialization,
    OtlpSerialization.OtlpSerialization.of({
      traces: (data) => {
        const resourceSpans = data.resourceSpans.map((resource) => ({
          ...resource,
          scopeSpans: resource.scopeSpans.map(({ scope, spans }) => ({
            scope: { ...scope, name: "slipway" },
            spans: spans.map(bounded(redactor))
          }))
        }))
        const count = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans).reduce((sum, { spans }) => sum + spans.length, 0)
        // Queued spans that are not among these, and earlier ones that were sent but not accepted, are lost. The exporter reports
        // neither.
        counts.dropped += counts.sending + Math.max(0, counts.queued - count)
        counts.sending = count
        counts.queued = 0
        return HttpBody.jsonUnsafe({ resourceSpans })
      },
      metrics: () => HttpBody.empty,
      logs: () => HttpBody.empty
    })
  )

/** Adds a timeout; the exporter itself would wait forever. */
const client = (counts: Counts, answer: number) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) =>
      HttpClient.transform(client, (sending, request) =>
        sending.pipe(
          Effect.timeoutOrElse({
            duration: answer,
            orElse: () =>
              new HttpClientError.HttpClientError({
                reason: new HttpClientError.TransportError({ request, description: "the collector did not answer in time" })
              })
          }),
          Effect.tap(({ status }) =>
            Effect.sync(() => {
              if (status < 200 || status >= 300) return
              counts.sent += counts.sending
              counts.sending = 0
            })
          )
        )))
  ).pipe(Layer.provide(FetchHttpClient.layer))

/** The tracer, which samples, limits traces and keeps the queue short. */
const bounding = (inner: Tracer.Tracer, counts: Counts, { queue = 2048, sampler, spans = 1000 }: Options): Tracer.Tracer => {
  const budgets = new WeakMap<Tracer.AnySpan, Budget>()
  const { isParentBased, ratio } = ratioOf(sampler)
  const isSampled = (traceId: string) => Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32

  return Tracer.make({
    span: (options) => {
      const parent = Option.getOrUndefined(options.parent)
      const isFirst = parent?._tag !== "Span"
      // Work without a request, such as a start, begins no trace. The HTTP library's own span of a request is not used.
      const mayBegin = parent?._tag === "Span" || Context.get(options.annotations, RootSpan.Apart)
      const sampled = mayBegin && options.sampled && (parent === undefined || isParentBased ? parent?.sampled !== false : true)
      const inherited = parent === undefined ? undefined : budgets.get(parent)
      const budget = inherited === undefined || Context.get(options.annotations, RootSpan.Apart) ? { left: spans } : inherited
      if (sampled && --budget.left < 0) {
        counts.dropped++
        return inner.span({ ...options, sampled: false })
      }
      const span = inner.span({ ...options, sampled })
      budgets.set(span, budget)
      // The process that began a trace made its sampling decision, unless the sampler ignores parents.
      if (sampled && isFirst && !(parent !== undefined && isParentBased) && !isSampled(span.traceId)) {
        Object.assign(span, { sampled: false })
      }
      if (!span.sampled) return span
      const end = span.end.bind(span)
      span.end = (time, exit) => {
        if (span.status._tag === "Ended") return
        if (counts.queued >= queue) {
          counts.dropped++
          Object.assign(span, { sampled: false })
        } else counts.queued++
        end(time, exit)
      }
      return span
    }
  })
}

/** Collects and sends spans until the scope closes. Waiting spans are sent first, for at most 3 seconds. */
export const layer = (options: Options): Layer.Layer<never> =>
  Layer.unwrap(Effect.gen(function*() {
    const redactor = yield* Redaction
    const counts = new Counts()
    yield* observed(droppedMetric, () => ({ count: counts.dropped, incremental: true }))
    yield* observed(sentMetric, () => ({ count: counts.sent, incremental: true }))
    const headers: Record<string, string> = {}
    for (const [name, value] of options.headers) {
      headers[name] = Redacted.value(value)
      redactor.learn(headers[name])
    }
    const exported = OtlpTracer.make({
      url: options.url,
      headers,
      resource: { serviceName: options.serviceName, serviceVersion: options.serviceVersion },
      exportInterval: options.interval ?? 1000,
      // Never send early by number: one request at a time, however slow the collector is.
      maxBatchSize: Number.MAX_SAFE_INTEGER
    })
    return Layer.mergeAll(
      Layer.effect(Tracer.Tracer, Effect.map(exported, (inner) => bounding(inner, counts, options))).pipe(
        Layer.provide([OtlpExporter.layerFlusher, serialization(counts, redactor), client(counts, options.answer ?? 10_000)])
      ),
      Layer.succeed(References.TracerEnabled, true),
      Layer.succeed(RootSpan.Collected, true)
    )
  }))

/** Disables spans: there is no collector. */
export const none = Layer.succeed(References.TracerEnabled, false)
