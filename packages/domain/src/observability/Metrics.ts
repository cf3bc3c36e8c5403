/** Forms of metrics that Effect's own do not have. */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"

export interface Counters {
  /** Counts one more. A value that is not listed counts as `other`. */
  add(value: string): Effect.Effect<void>
  /** Makes all that is listed seen at 0, so that the first one counts as an increase. */
  readonly declare: Effect.Effect<void>
}

/** Counters with one label, whose values are listed: nothing that comes from outside becomes a series. */
export const counters = (name: string, description: string, label: string, values: ReadonlyArray<string>): Counters => {
  const counter = (value: string) => Metric.counter(name, { description, incremental: true, attributes: { [label]: value } })
  const listed = new Map(values.map((value) => [value, counter(value)]))
  // An iterator of the map would be used up by the first one who declares.
  const all = Array.from(listed.values())
  const other = counter("other")
  return {
    add: (value) => Metric.update(listed.get(value) ?? other, 1),
    declare: Effect.forEach(all, (counter) => Metric.value(counter), { discard: true })
  }
}

/** A metric that is looked up when somebody reads it, until the scope closes. */
export const observed = <Input, State>(metric: Metric.Metric<Input, State>, get: () => State): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.contextWith((context) => Effect.sync(() => Metric.registerUnsafe(metric, context, { get, update: () => {}, modify: () => {} }))),
    (registration) => Effect.sync(() => registration.remove())
  ))
