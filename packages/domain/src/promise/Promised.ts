/** Derives the promise form of a service from its methods and the schemas of their arguments, so that neither is written twice. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { type InvalidRequest, reader } from "../text/InvalidRequest.ts"

/** Reads one argument of a caller. Callers without types may give anything. */
export type Argument<A, I> = (given: I) => Result.Result<A, InvalidRequest>

/** An argument by its schema. `name`: its name in errors. */
export const argument = <A, I>(name: string, schema: Schema.Codec<A, I>): Argument<A, I> => reader(schema, name)

/** The arguments of methods of a service. A method that is left out has no promise form. */
export type Arguments<Service> = {
  readonly [K in keyof Service]?: Service[K] extends (...given: infer Given) => Effect.Effect<unknown, unknown>
    ? { readonly [I in keyof Given]-?: Argument<Given[I], never> }
    : readonly []
}

/**
 * A result as plain JSON: times are ISO 8601 in UTC, durations milliseconds, sets arrays, and secrets their text. A result that holds a
 * secret is made to show it once.
 */
export type Plain<A> = A extends DateTime.DateTime ? string
  : A extends Duration.Duration ? number
  : A extends Redacted.Redacted<infer Secret> ? Secret
  : A extends string | number | boolean | null | undefined ? A
  : A extends ReadonlySet<infer Item> ? ReadonlyArray<Plain<Item>>
  : { readonly [K in keyof A]: Plain<A[K]> }

type Encoded<Read> = Read extends Argument<infer _A, infer I> ? I : never

type Method<Self, Read> = Self extends (...given: infer Given) => Effect.Effect<infer A, infer _E>
  ? (...given: { [I in keyof Given]: I extends keyof Read ? Encoded<Read[I]> : never }) => Promise<Plain<A>>
  : Self extends Effect.Effect<infer A, infer _E> ? () => Promise<Plain<A>>
  : never

/** The methods of a service that have arguments, as promises of plain JSON. They reject with the errors of the service. */
export type Promised<Service, Read> = {
  readonly [K in keyof Pick<Service, keyof Service & keyof Read>]: Method<Service[K], Read[K & keyof Read]>
}

/** Runs the effects of the service. */
export type Run = <A, E>(effect: Effect.Effect<A, E>) => Promise<A>

/** The value as plain JSON: see {@link Plain}. */
export const plain = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value
  if (DateTime.isDateTime(value)) return DateTime.formatIso(value)
  if (Duration.isDuration(value)) return Duration.toMillis(value)
  if (Redacted.isRedacted(value)) return Redacted.value(value)
  if (value instanceof Set) return Array.from(value, plain)
  if (Array.isArray(value)) return value.map(plain)
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, plain(part)]))
}

/** The promise form of a service. The first argument that cannot be read rejects with `InvalidRequest`, and nothing runs. */
export const promised = <Service extends object, Read extends Arguments<Service>>(service: Service, read: Read, run: Run) => {
  const methodOf = (name: string, readers: ReadonlyArray<Argument<unknown, unknown>>) => {
    const method = service[name as keyof Service] as Effect.Effect<unknown> | ((...given: ReadonlyArray<unknown>) => Effect.Effect<unknown>)
    return async (...given: ReadonlyArray<unknown>) => {
      const called = Effect.flatMap(
        Effect.forEach(readers, (read, n) => Effect.fromResult(read(given[n]))),
        (values) => typeof method === "function" ? method(...values) : method
      )
      return plain(await run(called))
    }
  }
  const methods = Object.entries(read as Readonly<Record<string, ReadonlyArray<Argument<unknown, unknown>>>>)
  return Object.fromEntries(methods.map(([name, readers]) => [name, methodOf(name, readers)])) as Promised<Service, Read>
}
