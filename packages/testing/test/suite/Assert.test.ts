import { assert as check, describe, it } from "@effect/vitest"
import { assert, RuleBroken } from "@slipway/testing/suite/Assert"
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"

const broken = (claim: () => void): RuleBroken | null => {
  try {
    claim()
    return null
  } catch (error) {
    check.instanceOf(error, RuleBroken)
    return error as RuleBroken
  }
}

class Point {
  readonly x: number
  constructor(x: number) {
    this.x = x
  }
}

describe("what rules are held against", () => {
  const cases: ReadonlyArray<[name: string, holds: () => void, fails: () => void]> = [
    ["a condition", () => assert(1), () => assert(0)],
    ["ok", () => assert.ok("a"), () => assert.ok("")],
    ["strictEqual", () => assert.strictEqual(NaN, NaN), () => assert.strictEqual<unknown>({}, {})],
    ["strictEqual of zeros", () => assert.strictEqual(0, 0), () => assert.strictEqual(0, -0)],
    ["notStrictEqual", () => assert.notStrictEqual(1, 2), () => assert.notStrictEqual(1, 1)],
    ["notDeepEqual", () => assert.notDeepEqual({ a: 1 }, { a: 2 }), () => assert.notDeepEqual({ a: 1 }, { a: 1 })],
    ["deepInclude of an object", () => assert.deepInclude({ a: [1], b: 2 }, { a: [1] }), () => assert.deepInclude({ a: [1] }, { a: [2] })],
    ["deepInclude of a missing property", () => assert.deepInclude({ a: 1 }, { a: 1 }), () => assert.deepInclude({ a: 1 }, { b: 1 })],
    ["deepInclude of an array", () => assert.deepInclude([{ a: 1 }], { a: 1 }), () => assert.deepInclude([{ a: 1 }], { a: 2 })],
    ["include of a text", () => assert.include("abc", "b"), () => assert.include("abc", "d")],
    ["include of an array", () => assert.include([1, 2], 2), () => assert.include([1, 2], 3)],
    ["include of an object", () => assert.include({ a: 1, b: 2 }, { a: 1 }), () => assert.include({ a: 1 }, { a: 2 })],
    ["notInclude", () => assert.notInclude("abc", "d"), () => assert.notInclude([1], 1)],
    ["includeMembers", () => assert.includeMembers([1, 2, 3], [3, 1]), () => assert.includeMembers([1], [1, 2])],
    ["sameMembers", () => assert.sameMembers([1, 2, 2], [2, 1, 2]), () => assert.sameMembers([1, 2, 2], [1, 1, 2])],
    ["sameDeepMembers", () => assert.sameDeepMembers([{ a: 1 }, { a: 2 }], [{ a: 2 }, { a: 1 }]),
      () => assert.sameDeepMembers([{ a: 1 }], [])],
    ["isTrue", () => assert.isTrue(true), () => assert.isTrue(1)],
    ["isFalse", () => assert.isFalse(false), () => assert.isFalse(0)],
    ["isNull", () => assert.isNull(null), () => assert.isNull(undefined)],
    ["isNotNull", () => assert.isNotNull(undefined), () => assert.isNotNull(null)],
    ["isUndefined", () => assert.isUndefined(undefined), () => assert.isUndefined(null)],
    ["isDefined", () => assert.isDefined(null), () => assert.isDefined(undefined)],
    ["isString", () => assert.isString(""), () => assert.isString(1)],
    ["isEmpty", () => assert.isEmpty([]), () => assert.isEmpty({ a: 1 })],
    ["isEmpty of sets", () => assert.isEmpty(new Set()), () => assert.isEmpty(new Map([[1, 1]]))],
    ["isNotEmpty", () => assert.isNotEmpty("a"), () => assert.isNotEmpty(new Set())],
    ["lengthOf", () => assert.lengthOf([1], 1), () => assert.lengthOf("ab", 1)],
    ["isAbove", () => assert.isAbove(2, 1), () => assert.isAbove(1, 1)],
    ["isAtLeast", () => assert.isAtLeast(1, 1), () => assert.isAtLeast(0, 1)],
    ["isBelow", () => assert.isBelow(1, 2), () => assert.isBelow(NaN, 2)],
    ["isAtMost", () => assert.isAtMost(1, 1), () => assert.isAtMost(2, 1)],
    ["match", () => assert.match("abc", /b/u), () => assert.match("abc", /d/u)],
    ["notMatch", () => assert.notMatch("abc", /d/u), () => assert.notMatch("abc", /b/u)]
  ]
  it.for(cases)("%s holds and fails", ([, holds, fails]) => {
    check.isNull(broken(holds))
    check.isNotNull(broken(fails))
  })

  const at = DateTime.makeUnsafe(0)
  const equal: ReadonlyArray<[unknown, unknown]> = [
    [{ a: [1, { b: null }] }, { a: [1, { b: null }] }],
    [new Point(1), { x: 1 }],
    [[undefined], [undefined]],
    [new Uint8Array([1, 2]), new Uint8Array([1, 2])],
    [new Date(5), new Date(5)],
    [new Map([["a", [1]]]), new Map([["a", [1]]])],
    [new Set([[1], [2]]), new Set([[2], [1]])],
    [Option.some([1]), Option.some([1])],
    [DateTime.add(at, { hours: 1 }), DateTime.makeUnsafe(3_600_000)],
    [{ at }, { at: DateTime.makeUnsafe(0) }]
  ]
  it.for(equal)("%j is %j, deeply", ([actual, expected]) => check.isNull(broken(() => assert.deepStrictEqual(actual, expected))))

  const different: ReadonlyArray<[actual: unknown, expected: unknown, place: string]> = [
    [{ a: 1 }, { a: 2 }, " at a"],
    [{ a: undefined }, {}, " at a"],
    [{}, { a: undefined }, " at a"],
    [{ a: [{ b: 1 }, { b: 2 }] }, { a: [{ b: 1 }, { b: 3 }] }, " at a.1.b"],
    [[1, 2], [1], " at 1"],
    [[1], [1, 2], " at 1"],
    [[1], { 0: 1 }, ""],
    [null, undefined, ""],
    [new Uint8Array([1, 2]), new Uint8Array([1, 3]), " at 1"],
    [new Uint8Array([1]), new Uint8Array([1, 2]), " at length"],
    [new Date(5), new Date(6), ""],
    [new Map([["a", [1]]]), new Map([["a", [2]]]), " at a.0"],
    [new Map([["a", 1]]), new Map([["b", 1]]), " at b"],
    [new Set([1]), new Set([2]), ""],
    [new Error("a"), new Error("b"), " at message"],
    [Option.some(1), Option.none(), ""],
    [DateTime.makeUnsafe(0), DateTime.makeUnsafe(1), ""]
  ]
  it.for(different)("%j is not %j: the difference is told%s", ([actual, expected, place]) => {
    const failure = broken(() => assert.deepStrictEqual(actual, expected, "because"))
    check.match(failure?.message ?? "", new RegExp(`^because: another value${place}\n`, "u"))
  })

  it("a failure has both values, in fields and in words, cut where they are long", () => {
    const failure = broken(() => assert.deepStrictEqual({ a: 1, text: "x".repeat(9_000) }, { a: 2, text: "" }))
    check.deepStrictEqual([failure?.actual, failure?.expected], [{ a: 1, text: "x".repeat(9_000) }, { a: 2, text: "" }])
    check.isTrue(failure?.showDiff)
    check.include(failure?.message, "expected: {")
    check.isBelow(failure?.message.length ?? 0, 5_000)
  })

  it("arrays that change between two looks are looked at again", () => {
    const told: Array<number> = []
    const expected = [1]
    check.isNotNull(broken(() => assert.deepStrictEqual(told, expected)))
    told.push(1)
    check.isNull(broken(() => assert.deepStrictEqual(told, expected)))
  })
})
