/**
 * The span of a unit of work: a request, a worker's session, a round of a periodic job. Log entries within it carry its trace id and
 * span id, even where no traces are collected. Where they are, `traced` makes spans for the collector, and `traceparent` carries the
 * trace to another process.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** Whether spans are collected. If not, they serve the log only and cost almost nothing. */
export const Collected = Context.Reference<boolean>("@slipway/domain/RootSpan/Collected", { defaultValue: () => false })

/** An annotation of a span. The span and its children get a full span limit of their own in the trace. */
export const Apart = Context.Reference<boolean>("@slipway/domain/RootSpan/Apart", { defaultValue: () => false })

/** The current work of a sandbox's agent: the span of its turn, for effects of the agent in other fibers. */
export class Activity {
  current: Tracer.AnySpan | null = null
}
/** The activity of the sandbox that the fiber works for. */
export const CurrentActivity = Context.Reference<Activity>("@slipway/domain/RootSpan/CurrentActivity", {
  defaultValue: () => new Activity()
})

type Attributes = Readonly<Record<string, string | number | boolean>>

/**
 * Runs the effect in a new span, for the log only. The span continues the trace of `parent` or begins one. It never ends and reaches no
 * tracer; its ids are drawn when they are read.
 */
export const within =
  (name: string, parent: Option.Option<Tracer.AnySpan> = Option.none()) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() =>
      Effect.provideService(
        self,
        Tracer.ParentSpan,
        new Tracer.NativeSpan({ name, parent, annotations: Context.empty(), links: [], startTime: 0n, kind: "internal", sampled: false })
      )
    )

// The overload loses the requirements of the effect if they are a type parameter.
const withSpan = <A, E, R>(self: Effect.Effect<A, E, R>, name: string, options: Tracer.SpanOptions): Effect.Effect<A, E, R> =>
  Effect.useSpan(name, options, (span) => Effect.provideService(self, Tracer.ParentSpan, span))

/** Options of a span. */
export interface Traced {
  /** Absent or `None`: the span begins a trace. */
  readonly parent?: Option.Option<Tracer.AnySpan>
  readonly links?: ReadonlyArray<Tracer.AnySpan>
  readonly kind?: Tracer.SpanKind
  readonly attributes?: Attributes
}

/** Like `within`. Where spans are collected, the span ends and is collected. */
export const traced =
  (name: string, { attributes = {}, kind = "internal", links = [], parent = Option.none() }: Traced = {}) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Collected, (isCollected) =>
      isCollected
        ? withSpan(self, name, {
          ...Option.match(parent, { onNone: () => ({ root: true }), onSome: (span) => ({ parent: span }) }),
          links: links.map((span) => ({ span, attributes: {} })),
          kind,
          attributes,
          annotations: Context.make(Apart, true)
        })
        : within(name, parent)(self))

/** Records a span of past work. Times are epoch milliseconds. An end before the start gives a duration of 0. */
export const past = (
  name: string,
  { attributes = {}, from, kind = "internal", to }: {
    readonly from: number
    readonly to: number
    readonly kind?: Tracer.SpanKind
    readonly attributes?: Attributes
  }
): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const parent = current(context)
    if (!Context.get(context, Collected) || parent === undefined) return Effect.void
    return Effect.map(Effect.tracer, (tracer) => {
      const [startTime, endTime] = [Math.min(from, to), to].map((millis) => BigInt(Math.round(millis)) * 1_000_000n) as [bigint, bigint]
      const span = tracer.span({
        name,
        parent: Option.some(parent),
        annotations: Context.empty(),
        links: [],
        startTime,
        kind,
        root: false,
        sampled: parent.sampled
      })
      for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
      span.end(endTime, Exit.void)
    })
  })

/** A span that the caller ends. */
export interface Open {
  attribute(key: string, value: string | number | boolean): void
  readonly end: Effect.Effect<void>
}

const nothingOpen: Open = { attribute: () => {}, end: Effect.void }

/** Begins a span below the present one. The caller must end it. */
export const open = (name: string, attributes: Attributes = {}): Effect.Effect<Open> =>
  Effect.flatMap(Collected, (isCollected) =>
    isCollected
      ? Effect.map(Effect.makeSpan(name, { attributes }), (span): Open => ({
        attribute: (key, value) => span.attribute(key, value),
        end: Effect.map(Clock.currentTimeNanos, (now) => span.end(now, Exit.void))
      }))
      : Effect.succeed(nothingOpen))

/** Adds attributes to the present span, where spans are collected. */
export const annotate = (attributes: Attributes): Effect.Effect<void> =>
  Effect.flatMap(Collected, (isCollected) => isCollected ? Effect.annotateCurrentSpan(attributes) : Effect.void)

/** Disables spans for work that repeats often, such as an agent's output and polls of the store. */
export const quiet = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Collected, (isCollected) => isCollected ? Effect.withTracerEnabled(self, false) : self)

/** The span of a log entry of the fiber's context. Spans that were made while tracing was off are skipped. */
export const current = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  let span: Tracer.AnySpan | undefined = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
  while (span !== undefined && Context.get(span.annotations, Tracer.DisablePropagation)) {
    span = span._tag === "Span" ? Option.getOrUndefined(span.parent) : undefined
  }
  return span
}

/** The present span in the form of W3C Trace Context, for work that continues its trace elsewhere; `null`: no spans are collected. */
export const traceparent: Effect.Effect<string | null> = Effect.contextWith((context: Context.Context<never>) => {
  const span = Context.get(context, Collected) ? current(context) : undefined
  return Effect.succeed(span === undefined ? null : `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}`)
})

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/u

/** Parses the text of `traceparent`. `None` for an invalid text. */
export const fromTraceparent = (text: string | null): Option.Option<Tracer.ExternalSpan> => {
  const [, traceId, spanId, flags = "00"] = TRACEPARENT.exec(text ?? "") ?? []
  return traceId === undefined || spanId === undefined
    ? Option.none()
    : Option.some(Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }))
}
