/**
 * Assertions of rules, without a test runner. A failure names the place of the first difference, and has the whole of both values, in
 * `actual` and `expected` as runners show them and in its message for those that show nothing else.
 */
import * as Equal from "effect/Equal"
import * as Formatter from "effect/Formatter"
import * as Predicate from "effect/Predicate"

/** How much of a value a message shows; characters. The whole of it is in `actual` and `expected`. */
const SHOWN = 4_000

const shown = (value: unknown): string => {
  const text = Formatter.format(value, { space: 2 })
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${text.length} characters)` : text
}

/** A rule does not hold. */
export class RuleBroken extends Error {
  override readonly name = "RuleBroken"
  /** Makes runners compare the two values in their own way. */
  readonly showDiff: boolean
  readonly actual: unknown
  readonly expected: unknown
  constructor(says: string, found?: { readonly actual: unknown; readonly expected: unknown }) {
    super(found === undefined ? says : `${says}\n  expected: ${shown(found.expected)}\n  actual:   ${shown(found.actual)}`)
    this.showDiff = found !== undefined
    this.actual = found?.actual
    this.expected = found?.expected
  }
}

type Place = ReadonlyArray<string>

const isEnumerable = (value: object, key: PropertyKey): boolean => Object.prototype.propertyIsEnumerable.call(value, key)
const keysOf = (value: object): ReadonlyArray<PropertyKey> => Reflect.ownKeys(value).filter((key) => isEnumerable(value, key))

const kindOf = (value: object): string => Object.prototype.toString.call(value)

const bytesOf = ({ buffer, byteLength, byteOffset }: ArrayBufferView): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength)

const within = (key: unknown, found: Place | null): Place | null => found === null ? null : [String(key), ...found]

/** Where two values first differ; `null`: nowhere. Objects are equal by what they have, whatever made them. */
const difference = (actual: unknown, expected: unknown): Place | null => {
  if (Object.is(actual, expected)) return null
  if (!Predicate.isObjectOrArray(actual) || !Predicate.isObjectOrArray(expected) || kindOf(actual) !== kindOf(expected)) return []
  if (Equal.isEqual(actual) && Equal.isEqual(expected)) return Equal.equals(actual, expected) ? null : []
  if (actual instanceof Date && expected instanceof Date) return Object.is(actual.getTime(), expected.getTime()) ? null : []
  if (actual instanceof Error && expected instanceof Error && actual.message !== expected.message) return ["message"]
  if (actual instanceof Map && expected instanceof Map) {
    if (actual.size !== expected.size) return []
    for (const [key, value] of expected) {
      const found = actual.has(key) ? difference(actual.get(key), value) : []
      if (found !== null) return within(key, found)
    }
    return null
  }
  if (actual instanceof Set && expected instanceof Set) {
    return actual.size === expected.size && Array.from(actual).every((one) => contains(expected, one)) ? null : []
  }
  if (ArrayBuffer.isView(actual) && ArrayBuffer.isView(expected)) {
    const [one, other] = [bytesOf(actual), bytesOf(expected)]
    if (one.length !== other.length) return ["length"]
    const at = one.findIndex((byte, i) => byte !== other[i])
    return at === -1 ? null : [String(at)]
  }
  for (const key of keysOf(expected)) {
    const found = isEnumerable(actual, key) ? difference(Reflect.get(actual, key), Reflect.get(expected, key)) : []
    if (found !== null) return within(key, found)
  }
  const more = keysOf(actual).find((key) => !isEnumerable(expected, key))
  return more === undefined ? null : [String(more)]
}

const isSame = (actual: unknown, expected: unknown): boolean => difference(actual, expected) === null
const contains = (all: Iterable<unknown>, one: unknown): boolean => Array.from(all).some((other) => isSame(other, one))

type Told = string | undefined
const said = (because: Told, what: string): string => because === undefined ? what : `${because}: ${what}`
const fail = (because: Told, what: string, actual: unknown, expected: unknown): never => {
  throw new RuleBroken(said(because, what), { actual, expected })
}
const holds = (condition: boolean, because: Told, what: string, actual: unknown, expected: unknown) => {
  if (!condition) fail(because, what, actual, expected)
}

const isEmpty = (value: string | ArrayLike<unknown> | { readonly size: number } | object): boolean =>
  typeof value === "string" || "length" in value
    ? value.length === 0
    : "size" in value
    ? value.size === 0
    : keysOf(value).length === 0

const includes = (whole: unknown, part: unknown): boolean =>
  typeof whole === "string" && typeof part === "string"
    ? whole.includes(part)
    : Array.isArray(whole)
    ? whole.includes(part)
    : Predicate.isObjectOrArray(whole) && Predicate.isObjectOrArray(part) &&
      keysOf(part).every((key) => Object.is(Reflect.get(whole, key), Reflect.get(part, key)))

/** Each of one has a partner of its own in the other. */
const unpaired = (actual: ReadonlyArray<unknown>, expected: ReadonlyArray<unknown>, same: (one: unknown, other: unknown) => boolean) => {
  const left = [...expected]
  const alone = actual.filter((one) => {
    const at = left.findIndex((other) => same(one, other))
    if (at !== -1) left.splice(at, 1)
    return at === -1
  })
  return [...alone, ...left]
}

interface Assert {
  (condition: unknown, because?: string): asserts condition
  readonly ok: (condition: unknown, because?: string) => asserts condition
  readonly fail: (because?: string) => never
  readonly strictEqual: <A>(actual: A, expected: A, because?: string) => void
  readonly notStrictEqual: (actual: unknown, expected: unknown, because?: string) => void
  readonly deepStrictEqual: <A>(actual: A, expected: A, because?: string) => void
  readonly notDeepEqual: (actual: unknown, expected: unknown, because?: string) => void
  /** Whether an object has each property of `part`, or an array a member like it. */
  readonly deepInclude: (whole: unknown, part: unknown, because?: string) => void
  readonly include: (whole: unknown, part: unknown, because?: string) => void
  readonly notInclude: (whole: unknown, part: unknown, because?: string) => void
  readonly includeMembers: (whole: ReadonlyArray<unknown>, part: ReadonlyArray<unknown>, because?: string) => void
  readonly sameMembers: (actual: ReadonlyArray<unknown>, expected: ReadonlyArray<unknown>, because?: string) => void
  readonly sameDeepMembers: (actual: ReadonlyArray<unknown>, expected: ReadonlyArray<unknown>, because?: string) => void
  readonly isTrue: (actual: unknown, because?: string) => asserts actual is true
  readonly isFalse: (actual: unknown, because?: string) => asserts actual is false
  readonly isNull: (actual: unknown, because?: string) => asserts actual is null
  readonly isNotNull: <A>(actual: A, because?: string) => asserts actual is Exclude<A, null>
  readonly isUndefined: (actual: unknown, because?: string) => asserts actual is undefined
  readonly isDefined: <A>(actual: A, because?: string) => asserts actual is Exclude<A, undefined>
  readonly isString: (actual: unknown, because?: string) => void
  readonly isEmpty: (actual: string | object | undefined, because?: string) => void
  readonly isNotEmpty: (actual: string | object | undefined, because?: string) => void
  readonly lengthOf: (actual: ArrayLike<unknown>, expected: number, because?: string) => void
  readonly isAbove: (actual: number, limit: number, because?: string) => void
  readonly isAtLeast: (actual: number, limit: number, because?: string) => void
  readonly isBelow: (actual: number, limit: number, because?: string) => void
  readonly isAtMost: (actual: number, limit: number, because?: string) => void
  readonly match: (actual: string, pattern: RegExp, because?: string) => void
  readonly notMatch: (actual: string, pattern: RegExp, because?: string) => void
}

const ok = (condition: unknown, because?: string) => holds(Boolean(condition), because, "it is not so", condition, true)

/** Each says what it was told `because` of, what differs, and both values. */
export const assert: Assert = Object.assign(ok, {
  ok,
  fail: (because = "it came to this"): never => {
    throw new RuleBroken(because)
  },
  strictEqual: (actual: unknown, expected: unknown, because?: string) =>
    holds(Object.is(actual, expected), because, "another value", actual, expected),
  notStrictEqual: (actual: unknown, expected: unknown, because?: string) =>
    holds(!Object.is(actual, expected), because, "the same value", actual, "another one"),
  deepStrictEqual: (actual: unknown, expected: unknown, because?: string) => {
    const place = difference(actual, expected)
    if (place !== null) fail(because, place.length === 0 ? "another value" : `another value at ${place.join(".")}`, actual, expected)
  },
  notDeepEqual: (actual: unknown, expected: unknown, because?: string) =>
    holds(!isSame(actual, expected), because, "the same value", actual, "another one"),
  deepInclude: (whole: unknown, part: unknown, because?: string) => {
    if (Array.isArray(whole)) return holds(contains(whole, part), because, "no member is like it", whole, part)
    if (!Predicate.isObjectOrArray(whole) || !Predicate.isObjectOrArray(part)) return fail(because, "not an object", whole, part)
    for (const key of keysOf(part)) {
      const place = within(key, difference(Reflect.get(whole, key), Reflect.get(part, key)))
      if (place !== null) fail(because, `another value at ${place.join(".")}`, whole, part)
    }
  },
  include: (whole: unknown, part: unknown, because?: string) => holds(includes(whole, part), because, "it is not in it", whole, part),
  notInclude: (whole: unknown, part: unknown, because?: string) => holds(!includes(whole, part), because, "it is in it", whole, part),
  includeMembers: (whole: ReadonlyArray<unknown>, part: ReadonlyArray<unknown>, because?: string) =>
    holds(part.every((one) => whole.includes(one)), because, "not all are in it", whole, part),
  sameMembers: (actual: ReadonlyArray<unknown>, expected: ReadonlyArray<unknown>, because?: string) =>
    holds(unpaired(actual, expected, Object.is).length === 0, because, "other members", actual, expected),
  sameDeepMembers: (actual: ReadonlyArray<unknown>, expected: ReadonlyArray<unknown>, because?: string) =>
    holds(unpaired(actual, expected, isSame).length === 0, because, "other members", actual, expected),
  isTrue: (actual: unknown, because?: string) => holds(actual === true, because, "not true", actual, true),
  isFalse: (actual: unknown, because?: string) => holds(actual === false, because, "not false", actual, false),
  isNull: (actual: unknown, because?: string) => holds(actual === null, because, "not null", actual, null),
  isNotNull: (actual: unknown, because?: string) => holds(actual !== null, because, "null", actual, "a value"),
  isUndefined: (actual: unknown, because?: string) => holds(actual === undefined, because, "not undefined", actual, undefined),
  isDefined: (actual: unknown, because?: string) => holds(actual !== undefined, because, "undefined", actual, "a value"),
  isString: (actual: unknown, because?: string) => holds(typeof actual === "string", because, "not a text", actual, "a text"),
  isEmpty: (actual: string | object | undefined, because?: string) =>
    holds(actual !== undefined && isEmpty(actual), because, "not empty", actual, "nothing"),
  isNotEmpty: (actual: string | object | undefined, because?: string) =>
    holds(actual !== undefined && !isEmpty(actual), because, "empty", actual, "something"),
  lengthOf: (actual: ArrayLike<unknown>, expected: number, because?: string) =>
    holds(actual.length === expected, because, `${actual.length} of it`, actual, `${expected} of it`),
  isAbove: (actual: number, limit: number, because?: string) => holds(actual > limit, because, "too little", actual, `> ${limit}`),
  isAtLeast: (actual: number, limit: number, because?: string) => holds(actual >= limit, because, "too little", actual, `≥ ${limit}`),
  isBelow: (actual: number, limit: number, because?: string) => holds(actual < limit, because, "too much", actual, `< ${limit}`),
  isAtMost: (actual: number, limit: number, because?: string) => holds(actual <= limit, because, "too much", actual, `≤ ${limit}`),
  match: (actual: string, pattern: RegExp, because?: string) => holds(pattern.test(actual), because, "it does not match", actual, pattern),
  notMatch: (actual: string, pattern: RegExp, because?: string) => holds(!pattern.test(actual), because, "it matches", actual, pattern)
})
