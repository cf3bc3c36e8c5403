/**
 * Arithmetic of instants for the rules: functions of `effect/DateTime` under the same names. That module loads the runtime of Effect,
 * 50 ms and 21 MB (2026-11-24), which programs that use only the rules do not need.
 */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"

const at = ({ epochMilliseconds }: DateTime.Utc): number => epochMilliseconds

/** Compares in ascending order, for `sort`. */
export const Order = (a: DateTime.Utc, b: DateTime.Utc): -1 | 0 | 1 => at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0

/** Whether `a` is before `b`. */
export const isLessThan = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) < at(b)
/** Whether `a` is before `b` or equal to it. */
export const isLessThanOrEqualTo = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) <= at(b)
/** Whether `a` is after `b`. */
export const isGreaterThan = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) > at(b)
/** Whether `a` is after `b` or equal to it. */
export const isGreaterThanOrEqualTo = (a: DateTime.Utc, b: DateTime.Utc): boolean => at(a) >= at(b)

/** The earlier instant; `b` if they are equal. */
export const min = (a: DateTime.Utc, b: DateTime.Utc): DateTime.Utc => at(a) < at(b) ? a : b
/** The later instant; `b` if they are equal. */
export const max = (a: DateTime.Utc, b: DateTime.Utc): DateTime.Utc => at(a) > at(b) ? a : b

/** Adds a duration. The copy keeps the prototype and drops `partsUtc`, which is a cache of the original. */
export const addDuration = (start: DateTime.Utc, duration: Duration.Duration): DateTime.Utc =>
  Object.defineProperty(
    Object.assign(Object.create(Object.getPrototypeOf(start)), { epochMilliseconds: at(start) + Duration.toMillis(duration) }),
    "partsUtc",
    { value: undefined, writable: true }
  )
