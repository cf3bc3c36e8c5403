/** Kinds of metrics that Effect lacks. */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"

/** A counter for each value of one label. */
export interface Counters {
  /** Adds 1. A value that is not listed counts as `other`. */
  add(value: string): Effect.Effect<void>
  /** Shows all listed values as 0, so that the first event counts as an increase. */
  readonly declare: Effect.Effect<void>
}

/** Counters with one label and a fixed list of values, so that input from outside cannot create series. */
export const counters = (name: string, description: string, label: string, values: ReadonlyArray<string>): Counters => {
  const counter = (value: string) => Metric.counter(name, { description, incremental: true, attributes: { [label]: value } })
  const listed = new Map(values.map((value) => [value, counter(value)]))
  // An array, because a second `declare` would find the map's iterator used up.
  const all = Array.from(listed.values())
  const other = counter("other")
  return {
    add: (value) => Metric.update(listed.get(value) ?? other, 1),
    declare: Effect.forEach(all, (counter) => Metric.value(counter), { discard: true })
  }
}

/** A metric that is computed when it is read, until the scope closes. */
export const observed = <Input, State>(metric: Metric.Metric<Input, State>, get: () => State): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.contextWith((context) => Effect.sync(() => Metric.registerUnsafe(metric, context, { get, update: () => {}, modify: () => {} }))),
    (registration) => Effect.sync(() => registration.remove())
  ))
