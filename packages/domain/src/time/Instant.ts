/**
 * Reckoning with instants, as far as rules do: the functions of `effect/DateTime` by their names. That module loads the runtime of
 * Effects, 50 ms and 21 MB (2026-11-24), and whoever uses the rules alone needs none.
 */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"

const at = ({ epochMilliseconds }: DateTime.Utc): number => epochMilliseconds

/** Ascending, for `sort`. */
export const Order = (a: DateTime.Utc, b: DateTime.Utc): -1 | 0 | 1 => at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0

export const isLessThan = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) < at(b)
export const isLessThanOrEqualTo = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) <= at(b)
export const isGreaterThan = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) > at(b)
export const isGreaterThanOrEqualTo = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) >= at(b)

export const min = (a: DateTime.Utc, b: DateTime.Utc): DateTime.Utc => at(a) < at(b) ? a : b
export const max = (a: DateTime.Utc, b: DateTime.Utc): DateTime.Utc => at(a) > at(b) ? a : b

/** An instant is its milliseconds, what it has of all others is its prototype's, and `partsUtc` is a cache of those who ask for it. */
export const addDuration = (start: DateTime.Utc, duration: Duration.Duration): DateTime.Utc =>
  Object.defineProperty(
    Object.assign(Object.create(Object.getPrototypeOf(start)), { epochMilliseconds: at(start) + Duration.toMillis(duration) }),
    "partsUtc",
    { value: undefined, writable: true }
  )
