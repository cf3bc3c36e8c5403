import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { atOnce } from "../../../src/html/Html.ts"
import * as Diff from "../../../src/sandboxes/changes/Diff.ts"

const compare = (before: string, after: string): Diff.Diff => atOnce(Diff.compare(before, after))

const SIGNS = { context: " ", added: "+", removed: "-" }
/** As a patch says it, without line feeds. */
const shown = (before: string, after: string): ReadonlyArray<string> =>
  compare(before, after).hunks.flatMap((hunk) => [Diff.headerOf(hunk), ...hunk.map(({ kind, text }) => SIGNS[kind] + text)])

const numbers = (count: number, from = 1) => Array.from({ length: count }, (_, i) => `${from + i}\n`)

/** The old text with the hunks applied to it, which must fit. */
const applied = (before: string, { hunks }: Diff.Diff): string => {
  const lines = before.match(/[^\n]*\n|[^\n]+$/gu) ?? []
  const now: Array<string> = []
  let next = 0
  for (const hunk of hunks) {
    for (const { after, before: number, kind, text } of hunk) {
      if (number !== null) {
        // Lines between hunks are unchanged.
        while (next < number - 1) now.push(lines[next++] ?? "")
        assert.strictEqual(lines[next++], text)
      }
      if (kind !== "removed") {
        now.push(text)
        assert.strictEqual(after, now.length)
      }
    }
  }
  return [...now, ...lines.slice(next)].join("")
}

describe("a comparison by lines", () => {
  it("shows each change with three lines around it", () => {
    const before = numbers(20)
    const after = before.with(4, "five\n").toSpliced(16, 1)
    assert.deepStrictEqual(shown(before.join(""), after.join("")), [
      "@@ -2,7 +2,7 @@",
      " 2\n",
      " 3\n",
      " 4\n",
      "-5\n",
      "+five\n",
      " 6\n",
      " 7\n",
      " 8\n",
      "@@ -14,7 +14,6 @@",
      " 14\n",
      " 15\n",
      " 16\n",
      "-17\n",
      " 18\n",
      " 19\n",
      " 20\n"
    ])
  })

  it("joins changes with six unchanged lines between them, and parts those with seven", () => {
    const before = numbers(12).join("")
    const changed = (second: number) => numbers(12).with(0, "x\n").with(second, "y\n").join("")
    assert.strictEqual(compare(before, changed(7)).hunks.length, 1)
    assert.strictEqual(compare(before, changed(8)).hunks.length, 2)
  })

  it("numbers lines of both sides from 1", () => {
    assert.deepStrictEqual(compare("a\nb\n", "b\nc\n").hunks, [[
      { kind: "removed", before: 1, after: null, text: "a\n" },
      { kind: "context", before: 2, after: 1, text: "b\n" },
      { kind: "added", before: null, after: 2, text: "c\n" }
    ]])
  })

  it("has nothing to show of equal texts", () => {
    assert.deepStrictEqual(shown("a\nb", "a\nb"), [])
    assert.deepStrictEqual(shown("", ""), [])
  })

  it("a new and a deleted file are one change", () => {
    assert.deepStrictEqual(shown("", "a\n\nb"), ["@@ -0,0 +1,3 @@", "+a\n", "+\n", "+b"])
    assert.deepStrictEqual(shown("a\n", ""), ["@@ -1,1 +0,0 @@", "-a\n"])
    const long = numbers(30_000).join("")
    assert.deepInclude(compare("", long), { coarse: false })
    assert.strictEqual(compare("", long).hunks[0]?.length, 30_000)
  })

  it("a line feed that comes or goes at the end is a change of the last line", () => {
    assert.deepStrictEqual(shown("a\nb", "a\nb\n"), ["@@ -1,2 +1,2 @@", " a\n", "-b", "+b\n"])
  })

  it("other line endings are part of the line", () => {
    assert.deepStrictEqual(shown("a\r\nb\rc\n", "a\nb\rc\n"), ["@@ -1,2 +1,2 @@", "-a\r\n", "+a\n", " b\rc\n"])
  })

  it("what would take too long is shown as replaced, without what both begin and end with", () => {
    const differing = [...numbers(1_500).map((line) => `a${line}`), "end\n"]
    const after = differing.with(0, "b\n").map((line) => line.replace("a", "c"))
    const edits = compare(["same\n", ...differing].join(""), ["same\n", ...after].join(""))
    assert.deepInclude(edits, { coarse: true })
    assert.deepStrictEqual(edits.hunks.map((hunk) => [Diff.headerOf(hunk), hunk.at(0)?.text, hunk.at(-1)?.text]), [["@@ -1,1502 +1,1502 @@",
      "same\n", "end\n"]])
    const lines = numbers(20_001)
    assert.deepInclude(compare(lines.join(""), lines.with(7, "x\n").join("")), { coarse: true })
    assert.deepInclude(compare(lines.slice(1).join(""), lines.slice(1).with(7, "x\n").join("")), { coarse: false })
  })

  /** Lines that go or come at least. The last line may lack its end, which makes it another one. */
  const fewest = (before: ReadonlyArray<string>, after: ReadonlyArray<string>): number => {
    const lines = (parts: ReadonlyArray<string>) => parts.join("").match(/[^\n]*\n|[^\n]+$/gu) ?? []
    const [old, now] = [lines(before), lines(after)]
    const counts = [Array.from({ length: now.length + 1 }, (_, j) => j)]
    for (const [i, line] of old.entries()) {
      const row = [i + 1]
      for (const [j, other] of now.entries()) {
        row.push(line === other ? counts[i]?.[j] ?? 0 : 1 + Math.min(counts[i]?.[j + 1] ?? 0, row[j] ?? 0))
      }
      counts.push(row)
    }
    return counts.at(-1)?.at(-1) ?? 0
  }

  // Texts of few different lines: more of it is common to both.
  const Text = Schema.Array(Schema.Literals(["a\n", "b\n", "\n", "c\r\n", "d"])).check(Schema.isMaxLength(40))
  it.prop("gives the new text when it is applied to the old one, and changes as few lines as can be", [Text, Text], ([before, after]) => {
    const [old, now] = [before.join(""), after.join("")]
    const diff = compare(old, now)
    assert.strictEqual(applied(old, diff), now)
    assert.isTrue(diff.hunks.every((hunk) => hunk.some(({ kind }) => kind !== "context")))
    const changed = diff.hunks.flat().filter(({ kind }) => kind !== "context").length
    assert.strictEqual(changed, fewest(before, after))
  }, { arbitrary: { runs: 500 } })
})
