/** Reads the text format of Prometheus (exposition formats, 0.0.4), stricter than Prometheus does. */
import { assert } from "@effect/vitest"

interface Scraped {
  /** By the name of the family. */
  readonly types: ReadonlyMap<string, string>
  /** By name and labels, as they are written. */
  readonly values: ReadonlyMap<string, number>
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
const LABEL = String.raw`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"`
const SAMPLE = new RegExp(`^(${NAME})(\\{(${LABEL}(?:,${LABEL})*)\\})? (-?\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?)$`, "u")
const HELP = new RegExp(`^# HELP (${NAME}) (\\S.*)$`, "u")
const TYPE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`, "u")

/** The sample names of the family. */
const suffixes: Record<string, ReadonlyArray<string>> = { counter: [""], gauge: [""], histogram: ["_bucket", "_sum", "_count"] }

/** Fails on whatever is not well-formed, told twice, or out of its place. */
export const parse = (text: string): Scraped => {
  assert.isTrue(text.endsWith("\n"), "the last line has an end")
  const types = new Map<string, string>()
  const values = new Map<string, number>()
  let helped: string | null = null
  let family: readonly [name: string, type: string] | null = null
  for (const line of text.slice(0, -1).split("\n")) {
    const help = HELP.exec(line)
    const type = TYPE.exec(line)
    if (help !== null) {
      assert.isFalse(types.has(help[1] ?? ""), `one place for ${line}`)
      helped = help[1] ?? ""
    } else if (type !== null) {
      const [, name = "", kind = ""] = type
      assert.strictEqual(helped, name, `HELP comes first: ${line}`)
      assert.isFalse(types.has(name), `once: ${line}`)
      types.set(name, kind)
      family = [name, kind]
      helped = null
    } else {
      const sample = SAMPLE.exec(line)
      assert(sample !== null, `a sample: ${line}`)
      assert(family !== null && helped === null, `a family before: ${line}`)
      const [, name = "", labels = "", listed = "", value = ""] = sample
      const [of, kind] = family
      assert.include((suffixes[kind] ?? []).map((suffix) => of + suffix), name, `of its family: ${line}`)
      const names = Array.from(listed.matchAll(/(\w+)="/gu), ([, label]) => label)
      assert.strictEqual(new Set(names).size, names.length, `labels once: ${line}`)
      assert.isFalse(values.has(name + labels), `once: ${line}`)
      values.set(name + labels, Number(value))
    }
  }
  assert.isNull(helped)
  checkHistograms({ types, values })
  return { types, values }
}

/** Buckets only grow, and the last one has all. */
const checkHistograms = ({ types, values }: Scraped): void => {
  for (const [name] of Array.from(types).filter(([, type]) => type === "histogram")) {
    const last = new Map<string, readonly [le: number, count: number]>()
    for (const [series, count] of values) {
      if (!series.startsWith(`${name}_bucket{`)) continue
      const le = Number(/le="([^"]*)"/u.exec(series)?.[1]?.replace("+Inf", "Infinity"))
      const others = series.slice(name.length + "_bucket".length).replace(/,?le="[^"]*"/u, "").replace("{}", "")
      const [before, below] = last.get(others) ?? [-Infinity, 0]
      assert.isTrue(le > before && count >= below, series)
      last.set(others, [le, count])
    }
    assert.isAbove(last.size, 0, name)
    for (const [others, [le, count]] of last) {
      assert.deepStrictEqual([le, count], [Infinity, values.get(`${name}_count${others}`)], name + others)
    }
  }
}
