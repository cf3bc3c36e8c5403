/**
 * Pages are made in steps, between which other requests run. No step takes more than 40 ms of the processor, whatever agents wrote: with
 * what else a turn of the event loop does, it is held for less than 50.
 */
import { assert, it } from "@effect/vitest"
import { html, type Part, type Steps, written } from "@slipway/pages/html/Html"
import * as Diff from "@slipway/pages/sandboxes/changes/Diff"
import * as DiffTable from "@slipway/pages/sandboxes/changes/DiffTable"
import * as Patch from "@slipway/pages/sandboxes/changes/Patch"
import type * as Conversation from "@slipway/pages/sandboxes/conversation/Conversation"
import * as Items from "@slipway/pages/sandboxes/conversation/Items"
import * as Code from "@slipway/pages/text/Code"
import * as Languages from "@slipway/pages/text/Languages"
import { DateTime } from "effect"

const MOST_MILLIS = 40
/** The fastest of so many counts: the first ones pay for the compiler. */
const TRIES = 4

const SHAPES = ["a", " ", "\n", "[", "(", "\"", "`", "*_", "> ", "- a\n", "|a", "<a ", "</", "\u202c", "\u{1f468}\u200d", "a b ",
  "https://a.b ", "```\n", "1. a\n", "{\"a\":", "/* ", "#", "a=b;\n"]

const repeated = (shape: string, characters: number) => shape.repeat(Math.floor(characters / shape.length))
const linesOf = (shape: string, count: number): Diff.Hunk =>
  Array.from({ length: count }, (_, i) => {
    const kind = i % 2 === 0 ? "removed" : "added"
    return { kind, before: i, after: i, text: `${repeated(shape, 398).replaceAll("\n", " ")}${i % 7}\n` }
  })

/** `n`: another text each time, since texts that were shown are kept. */
const RENDERERS: Readonly<Record<string, (shape: string, n: number) => Steps<unknown>>> = {
  "a message": (shape, n) => {
    const text = `${n}\n${repeated(shape, 16_000)}`
    const item: Conversation.Item = { key: "k", kind: "text", text, at: DateTime.makeUnsafe(0), seq: 1 }
    return page(Items.render([item], "", { bytes: 2 ** 20 }, (shown) => html`${shown}`))
  },
  "a long output": (shape) => {
    const item: Conversation.Item = {
      key: "k",
      kind: "tool",
      text: repeated(shape, 500_000),
      at: DateTime.makeUnsafe(0),
      seq: 1
    }
    return page(Items.render([item], "", { bytes: 2 ** 20 }, (shown) => html`${shown}`))
  },
  "code": (shape) => page(Code.block(repeated(shape, 48_000), Languages.named("ts"))),
  "markup": (shape) => page(Code.block(repeated(shape, 48_000), Languages.named("html"))),
  "changed lines": (shape) =>
    page(DiffTable.render("a.ts", [linesOf(shape, 2_000)], { lines: 2_000, budget: { bytes: 2 ** 20 } }, ({ content }) => content)),
  "a patch": (shape) =>
    Patch.read(Buffer.from(`diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n${repeated(`+${shape}\n`, 500_000)}`), { lines: Infinity }),
  "two texts": (shape, n) => {
    const text = (name: string) =>
      Array.from({ length: 20_000 }, (_, i) => i % 3 === 0 ? `${shape.trim()}\n` : `${name}${n}${i % 5_000}\n`).join("")
    return Diff.compare(text("a"), text("b"))
  }
}

const page = (part: Part) => written(part)

/** Milliseconds of the processor in the longest step. */
const longest = (steps: Steps<unknown>): number => {
  for (let most = 0;;) {
    const before = process.threadCpuUsage()
    const { done } = steps.next()
    const { system, user } = process.threadCpuUsage(before)
    most = Math.max(most, (system + user) / 1e3)
    if (done === true) return most
  }
}

for (const [name, render] of Object.entries(RENDERERS)) {
  it(`${name} is shown in short steps`, () => {
    const slow: Array<string> = []
    for (const shape of SHAPES) {
      let least = Infinity
      for (let n = 0; n < TRIES && least > MOST_MILLIS / 2; n++) least = Math.min(least, longest(render(shape, n)))
      if (least > MOST_MILLIS) slow.push(`${JSON.stringify(shape)}: ${least.toFixed(0)} ms`)
    }
    assert.deepStrictEqual(slow, [])
  })
}
