/**
 * Sends spans to a collector as OTLP over HTTP, as JSON, by Effect's own exporter. What leaves the process is bounded and free of what
 * people and agents wrote: of errors the kind, of attributes those that may be told, cut and redacted. A collector that is slow or away
 * costs spans, which are counted, and nothing else.
 */
import { Redaction, type Redactor } from "@slipway/domain/environment/redaction/Redaction"
import { observed } from "@slipway/domain/observability/Metrics"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Context, Effect, Layer, Metric, Option, Redacted, References, Tracer } from "effect"
import { FetchHttpClient, HttpBody, HttpClient, HttpClientError } from "effect/http"
import { OtlpExporter, OtlpSerialization, OtlpTracer } from "effect/observability"
import { ratioOf, type Sampler } from "./Sampler.ts"

export interface Options {
  /** Where spans are sent: the whole address, with its path. */
  readonly url: string
  /** Of each request to it. */
  readonly headers: ReadonlyMap<string, Redacted.Redacted>
  readonly serviceName: string
  readonly serviceVersion: string
  readonly sampler: Sampler
  /** How long spans are collected before they are sent. Default: a second. */
  readonly interval?: number
  /** How many wait for the collector at most. Default: 2048, as OpenTelemetry has it. */
  readonly queue?: number
  /** How many a trace may have in one process; a turn of a sandbox as many again. Default: 1000. */
  readonly spans?: number
  /** How long the collector may take to answer, milliseconds. Default: 10 seconds. */
  readonly answer?: number
}

/** Of a text in an attribute, in characters. */
const MAXIMUM_TEXT = 512
const MAXIMUM_ATTRIBUTES = 32
const MAXIMUM_LINKS = 8

/** Of the libraries' own attributes, those that may carry what people wrote: whole addresses and headers. */
const WITHHELD = /^(?:url\.(?:full|query|path|fragment)|http\.(?:request|response)\.header\.|user_agent|code\.stacktrace|exception\.)/u

const droppedMetric = Metric.counter("slipway_spans_dropped_total", {
  description: "Spans that no collector got: more than may wait, or it did not take them.",
  incremental: true
})
const sentMetric = Metric.counter("slipway_spans_sent_total", { description: "Spans that the collector took.", incremental: true })

/** What is left of a trace's spans in this process. */
interface Budget {
  left: number
}

class Counts {
  dropped = 0
  sent = 0
  /** Spans that the exporter holds, as far as it took them. */
  queued = 0
  /** Of the request that is under way. */
  sending = 0
}

type TraceData = Parameters<OtlpSerialization.OtlpSerialization["Service"]["traces"]>[0]
type WireSpan = TraceData["resourceSpans"][number]["scopeSpans"][number]["spans"][number]
type WireAttribute = WireSpan["attributes"][number]

const told = (redactor: Redactor, attributes: ReadonlyArray<WireAttribute>): Array<WireAttribute> =>
  // Of one value each: lists have no bound, and none that we make is one.
  attributes.filter(({ key, value }) => !WITHHELD.test(key) && !("arrayValue" in value)).slice(0, MAXIMUM_ATTRIBUTES).map((attribute) => {
    const { stringValue } = attribute.value
    return typeof stringValue === "string"
      // Cut first: what is redacted takes time by its length. A secret that is cut is one no more, but is taken out where it has a shape.
      ? { ...attribute, value: { stringValue: redactor.redact(stringValue.slice(0, 2 * MAXIMUM_TEXT)).slice(0, MAXIMUM_TEXT) } }
      : attribute
  })

/** As it may be told: an error's message may be anything. */
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

/** Effect's serialization, of what may be told; tells the counts which spans are on their way. */
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
        // What was queued and is not among these, and what was sent before and not taken, is lost: the exporter says nothing of either.
        counts.dropped += counts.sending + Math.max(0, counts.queued - count)
        counts.sending = count
        counts.queued = 0
        return HttpBody.jsonUnsafe({ resourceSpans })
      },
      metrics: () => HttpBody.empty,
      logs: () => HttpBody.empty
    })
  )

/** Waits no longer for an answer than it may take: the exporter itself would wait for ever. */
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

/** The tracer: samples, keeps traces small and the queue short. */
const bounding = (inner: Tracer.Tracer, counts: Counts, { queue = 2048, sampler, spans = 1000 }: Options): Tracer.Tracer => {
  const budgets = new WeakMap<Tracer.AnySpan, Budget>()
  const { isParentBased, ratio } = ratioOf(sampler)
  const isSampled = (traceId: string) => Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32

  return Tracer.make({
    span: (options) => {
      const parent = Option.getOrUndefined(options.parent)
      const isFirst = parent?._tag !== "Span"
      // What nobody asked for, such as a start, begins no trace, and the HTTP library's own span of a request is not ours.
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
      // Of one that a process before this one began it was decided there, unless nobody is to be believed.
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

/** Spans are collected and sent until the scope closes; those that wait then are sent first, for 3 seconds at most. */
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
      // Never by their number: one request at a time is under way, however slow the collector is.
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

/** Nobody collects spans: none are made. */
export const none = Layer.succeed(References.TracerEnabled, false)
