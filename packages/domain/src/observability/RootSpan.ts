/**
 * The span of a unit of work: of a request, of a worker's session, of one round of a periodic job. Everything logged within it
 * carries its trace id and span id, also where no traces are collected. Where they are, `traced` makes spans that a collector is sent,
 * and `traceparent` carries their trace to another process.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** Whether somebody collects spans. Where nobody does, spans are for the log alone and cost next to nothing. */
export const Collected = Context.Reference<boolean>("@slipway/domain/RootSpan/Collected", { defaultValue: () => false })

/** In the annotations of a span: it and what is beneath it may have as many spans as a trace may, whatever the trace had before. */
export const Apart = Context.Reference<boolean>("@slipway/domain/RootSpan/Apart", { defaultValue: () => false })

/** What a sandbox's agent is at: the span of its turn, for what the agent makes happen in fibers of others. */
export class Activity {
  current: Tracer.AnySpan | null = null
}
/** That of the sandbox that is worked for. */
export const CurrentActivity = Context.Reference<Activity>("@slipway/domain/RootSpan/CurrentActivity", {
  defaultValue: () => new Activity()
})

type Attributes = Readonly<Record<string, string | number | boolean>>

/**
 * Runs the effect in a span of its own each time, for the log alone. Its trace is that of `parent`, else a new one. The span is not
 * ended and goes to no tracer; its ids are drawn when somebody reads them.
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

// Its type lets what the effect needs get lost where that is a parameter.
const withSpan = <A, E, R>(self: Effect.Effect<A, E, R>, name: string, options: Tracer.SpanOptions): Effect.Effect<A, E, R> =>
  Effect.useSpan(name, options, (span) => Effect.provideService(self, Tracer.ParentSpan, span))

export interface Traced {
  /** Absent or none: the span begins a trace. */
  readonly parent?: Option.Option<Tracer.AnySpan>
  readonly links?: ReadonlyArray<Tracer.AnySpan>
  readonly kind?: Tracer.SpanKind
  readonly attributes?: Attributes
}

/** As `within`; where spans are collected, the span is one of them, and has an end. */
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

/** Tells of something that is over by now. Times are epoch milliseconds; where they are the wrong way round, it took no time. */
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

/** A span that something else ends. */
export interface Open {
  attribute(key: string, value: string | number | boolean): void
  readonly end: Effect.Effect<void>
}

const nothingOpen: Open = { attribute: () => {}, end: Effect.void }

/** Begins a span beneath the present one. Whoever begins one ends it. */
export const open = (name: string, attributes: Attributes = {}): Effect.Effect<Open> =>
  Effect.flatMap(Collected, (isCollected) =>
    isCollected
      ? Effect.map(Effect.makeSpan(name, { attributes }), (span): Open => ({
        attribute: (key, value) => span.attribute(key, value),
        end: Effect.map(Clock.currentTimeNanos, (now) => span.end(now, Exit.void))
      }))
      : Effect.succeed(nothingOpen))

/** Says more of the present span, where spans are collected. */
export const annotate = (attributes: Attributes): Effect.Effect<void> =>
  Effect.flatMap(Collected, (isCollected) => isCollected ? Effect.annotateCurrentSpan(attributes) : Effect.void)

/** Makes no spans of what is done again and again: of an agent's output, of looks at the store. */
export const quiet = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Collected, (isCollected) => isCollected ? Effect.withTracerEnabled(self, false) : self)

/** The span that a log entry of the fiber's context belongs to. Spans that tracing made while it was off are looked through. */
export const current = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  let span: Tracer.AnySpan | undefined = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
  while (span !== undefined && Context.get(span.annotations, Tracer.DisablePropagation)) {
    span = span._tag === "Span" ? Option.getOrUndefined(span.parent) : undefined
  }
  return span
}

/** The present span as W3C Trace Context writes it, for whoever goes on with its trace; `null`: no spans are collected. */
export const traceparent: Effect.Effect<string | null> = Effect.contextWith((context: Context.Context<never>) => {
  const span = Context.get(context, Collected) ? current(context) : undefined
  return Effect.succeed(span === undefined ? null : `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}`)
})

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/u

/** The span that `traceparent` wrote; none of what is not well-formed. */
export const fromTraceparent = (text: string | null): Option.Option<Tracer.ExternalSpan> => {
  const [, traceId, spanId, flags = "00"] = TRACEPARENT.exec(text ?? "") ?? []
  return traceId === undefined || spanId === undefined
    ? Option.none()
    : Option.some(Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }))
}
