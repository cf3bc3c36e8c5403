import { assert, describe, it } from "@effect/vitest"
import * as Processors from "../../src/kernel/Processors.ts"

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i)

const numbers = (list: string | null) => list === null ? null : Processors.parse(list)

describe("Processors", () => {
  it("lists of the kernel are read", () => {
    assert.deepStrictEqual(Processors.parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11])
    assert.deepStrictEqual(Processors.parse("5"), [5])
    assert.deepStrictEqual(Processors.parse(""), [])
  })

  it("a sandbox has as many as it may use, of a part of one a whole, and all where there are no more", () => {
    for (const [cpus, count] of [[1, 1], [2, 2], [1.5, 2], [0.5, 1], [7, 7]] as const) {
      assert.lengthOf(numbers(Processors.make(cpus, () => upTo(8)).take("one")) ?? [], count)
    }
    for (const cpus of [8, 9]) assert.isNull(Processors.make(cpus, () => upTo(8)).take("one"))
    assert.isNull(Processors.make(1, () => []).take("one"))
  })

  it("sandboxes share the processors evenly, wherever the first is given", () => {
    for (const start of upTo(11)) {
      const processors = Processors.make(2, () => [1, 4, 5, 7, 9], start)
      const load = new Map<number, number>()
      for (const sandbox of upTo(10)) {
        for (const processor of numbers(processors.take(`${sandbox}`)) ?? []) load.set(processor, (load.get(processor) ?? 0) + 1)
      }
      assert.deepStrictEqual(Array.from(load).sort(([a], [b]) => a - b), [[1, 4], [4, 4], [5, 4], [7, 4], [9, 4]])
    }
  })

  it("sandboxes that come one by one have others each time", () => {
    const processors = Processors.make(1, () => upTo(3))
    const given = upTo(3).map((sandbox) => {
      const list = processors.take(`${sandbox}`)
      processors.release(`${sandbox}`)
      return list
    })
    assert.deepStrictEqual(given.sort(), ["0", "1", "2"])
  })

  it("a sandbox keeps its own until it gives them back, or one of them is gone", () => {
    let there = upTo(4)
    const processors = Processors.make(2, () => there, 0)
    assert.strictEqual(processors.take("one"), "0,1")
    assert.strictEqual(processors.take("other"), "2,3")
    assert.strictEqual(processors.take("one"), "0,1")
    processors.release("other")
    assert.strictEqual(processors.take("third"), "2,3")
    there = [1, 2, 3]
    assert.notInclude(numbers(processors.take("one")) ?? [], 0)
    there = [1, 2]
    assert.isNull(processors.take("third"))
  })
})
