/**
 * The one span of a unit of work: of a request, of a worker's session, of one round of a periodic job. Everything logged
 * within it carries its trace id and span id, also where tracing is off and nothing else makes spans.
 */
import { Context, Effect, Option, Tracer } from "effect"

/**
 * Runs the effect in a span of its own each time. Its trace is that of `parent`, else a new one. The span is not ended and
 * goes to no tracer; its ids are drawn when somebody reads them.
 */
export const within =
  (name: string, parent: Option.Option<Tracer.ExternalSpan> = Option.none()) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() =>
      Effect.provideService(
        self,
        Tracer.ParentSpan,
        new Tracer.NativeSpan({ name, parent, annotations: Context.empty(), links: [], startTime: 0n, kind: "internal", sampled: true })
      )
    )

/** The span that a log entry of the fiber's context belongs to. Spans that tracing made while it was off are looked through. */
export const current = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  let span: Tracer.AnySpan | undefined = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
  while (span !== undefined && Context.get(span.annotations, Tracer.DisablePropagation)) {
    span = span._tag === "Span" ? Option.getOrUndefined(span.parent) : undefined
  }
  return span
}
