import { assert, describe, it } from "@effect/vitest"
import { readKept } from "../Driver.ts"
import { judge, type Kept, keptOf, ratioOf } from "../Judge.ts"
import type { Measurement } from "../Measurement.ts"
import { groups } from "../Rows.ts"

const of = (ours: ReadonlyArray<number>, theirs: ReadonlyArray<number> | null, more: Partial<Measurement> = {}): Measurement => ({
  id: "get",
  what: "GET by id",
  unit: "requests/s",
  better: "higher",
  ours: { name: "slipway", samples: ours },
  theirs: theirs === null ? null : { name: "fastify", samples: theirs },
  reach: {},
  ...more
})
const latency = { unit: "ms", better: "lower" } as const
const kept: Kept = { ratio: 1, noise: 0.25, day: "2026-11-24", machine: "2 × some processor" }

describe("the ratio of a benchmark's row", () => {
  it("is of medians, so that one bad round of five counts nothing", () => {
    assert.strictEqual(ratioOf(of([1000, 1000, 1, 1000, 1000], [500, 500, 500, 500, 9000])), 2)
  })

  it("is above 1 where ours is the better one, whether more is better or less", () => {
    assert.strictEqual(ratioOf(of([30], [10])), 3)
    assert.strictEqual(ratioOf(of([10], [30], latency)), 3)
  })

  it("is null without another side", () => {
    assert.isNull(ratioOf(of([10], null)))
    assert.isNull(keptOf(of([10], null), kept.day, kept.machine))
  })
})

describe("the noise of a kept ratio", () => {
  it("is a quarter of it where rounds were steady", () => {
    assert.deepStrictEqual(keptOf(of([8, 8, 8], [10, 10, 10]), kept.day, kept.machine), { ...kept, ratio: 0.8, noise: 0.2 })
  })

  it("is three deviations of the rounds' own ratios where they were not", () => {
    // 0.5, 0.8, 1, 1.2 and 1.5: half of them are 0.2 or more from their median.
    assert.deepStrictEqual(keptOf(of([5, 8, 10, 12, 15], [10, 10, 10, 10, 10]), kept.day, kept.machine), { ...kept, noise: 0.6 })
  })

  it("does not count what both sides of a round met alike", () => {
    assert.deepStrictEqual(keptOf(of([5, 10, 20], [5, 10, 20]), kept.day, kept.machine), kept)
  })
})

describe("a row of the benchmarks", () => {
  it("fails below its kept ratio less the noise, and says from what it fell", () => {
    assert.deepStrictEqual(judge(of([74], [100]), kept).failures, [
      "get: the ratio fell to 0.740, below what was kept: 1.00 less a noise of 0.250 (2026-11-24, 2 × some processor)"
    ])
    assert.deepStrictEqual(judge(of([136], [100], latency), kept).failures.length, 1)
  })

  it("does not fail within the noise, above it, or where none was kept", () => {
    assert.deepStrictEqual(judge(of([75], [100]), kept).failures, [])
    assert.deepStrictEqual(judge(of([300], [100]), kept).failures, [])
    assert.deepStrictEqual(judge(of([1], [100]), undefined).failures, [])
  })

  it("misses its reach without failing for it", () => {
    const missed = judge(of([99], [100], { reach: { times: 1 } }), kept)
    assert.deepStrictEqual([missed.reached, missed.failures], [false, []])
    assert.isTrue(judge(of([100], [100], { reach: { times: 1 } }), kept).reached)
    assert.isNull(judge(of([100], [100]), kept).reached)
  })

  it("fails over its limit, whatever was kept", () => {
    const over = judge(of([101], null, { ...latency, reach: { most: 100 } }), undefined)
    assert.deepStrictEqual([over.reached, over.failures], [false, ["get: 101 ms, at most 100"]])
    const under = judge(of([49_999], [1], { reach: { times: 0.5, least: 50_000 } }), undefined)
    assert.isFalse(under.reached)
    assert.strictEqual(under.failures.length, 1)
    assert.deepStrictEqual(judge(of([100], null, { ...latency, reach: { most: 100 } }), undefined), {
      ratio: null,
      reached: true,
      failures: []
    })
  })

  it("reaches what it is to reach only with all of it", () => {
    assert.isFalse(judge(of([60_000], [200_000], { reach: { times: 0.5, least: 50_000 } }), undefined).reached)
    assert.isTrue(judge(of([60_000], [100_000], { reach: { times: 0.5, least: 50_000 } }), undefined).reached)
  })

  it("fails if nothing was measured", () => {
    assert.deepStrictEqual(judge(of([], [1]), kept).failures, ["get: nothing was measured"])
    assert.deepStrictEqual(judge(of([1], [Number.NaN]), kept).failures, ["get: nothing was measured"])
  })
})

describe("the rows of the benchmarks", () => {
  const rows = groups.flatMap((group) => group.rows)

  it("have an id of their own each", () => {
    assert.deepStrictEqual(rows.map(({ id }) => id), [...new Set(rows.map(({ id }) => id))])
    for (const { id } of rows) assert.match(id, /^[a-z\d]+(?:-[a-z\d]+)*$/u)
  })

  it("are those of which ratios are kept, if they have a short version", () => {
    const quick = new Set(rows.flatMap(({ id, quick }) => quick ? [id] : []))
    assert.deepStrictEqual(Object.keys(readKept()).filter((id) => !quick.has(id)), [])
  })
})
