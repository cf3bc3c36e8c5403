import { assert, describe, it } from "@effect/vitest"
import { detail, DIFF_CUT, preview, shownPaths, shownTitle, unifiedDiff } from "@slipway/domain/sandbox/rules/ToolCall"
import { Detail, Preview, ToolKind } from "@slipway/domain/sandbox/schema/ToolCall"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const PREVIEW_BYTES = 64 * 1024
const OUTPUT_BYTES = 8 * 1024
const bytesOf = (text: string) => new TextEncoder().encode(text).length
const whole = (call: Parameters<typeof preview>[0]) => Result.getOrThrow(preview(call))
const why = (call: Parameters<typeof preview>[0]) => Result.getOrThrow(Result.flip(preview(call)))

describe("a preview", () => {
  it("has the whole command, with its line feeds", () => {
    const command = `npm test # ${"and so on ".repeat(100)}\necho PWNED`
    assert.deepStrictEqual(whole({ kind: "command", command }), { command })
  })

  it("has the folder of a command, whole", () => {
    assert.deepStrictEqual(whole({ kind: "command", command: "npm test", cwd: "shop/\u202eb" }), {
      command: "npm test",
      cwd: "shop/⟨RIGHT-TO-LEFT OVERRIDE⟩b"
    })
    assert.deepStrictEqual(whole({ kind: "edit", diff: "+a\n", cwd: "shop" }), { diff: "+a\n" })
    const command = "x".repeat(PREVIEW_BYTES - 4)
    assert.deepStrictEqual(whole({ kind: "command", command, cwd: "shop" }), { command, cwd: "shop" })
    assert.match(why({ kind: "command", command, cwd: "shop1" }), /larger than 64 KiB/u)
  })

  it("shows what is hidden in a command by its name", () => {
    assert.deepStrictEqual(whole({ kind: "command", command: "echo \u202e\u001b[8m" }), {
      command: "echo ⟨RIGHT-TO-LEFT OVERRIDE⟩⟨ESC⟩[8m"
    })
  })

  it("is refused when a command cannot be shown whole", () => {
    const largest = "x".repeat(PREVIEW_BYTES)
    assert.deepStrictEqual(whole({ kind: "command", command: largest }), { command: largest })
    assert.match(why({ kind: "command", command: `${largest}x` }), /larger than 64 KiB/u)
    // Larger once it is visible, or in bytes.
    assert.match(why({ kind: "command", command: "\u202e".repeat(3000) }), /larger than 64 KiB/u)
    assert.match(why({ kind: "command", command: "é".repeat(PREVIEW_BYTES / 2 + 1) }), /larger than 64 KiB/u)
    assert.match(why({ kind: "network", url: "https://example.com", command: largest }), /larger than 64 KiB/u)
  })

  it("is refused when the agent does not say what it would do", () => {
    assert.match(why({ kind: "command" }), /does not say/u)
    assert.match(why({ kind: "command", command: " \n" }), /does not say/u)
    assert.match(why({ kind: "edit" }), /does not say/u)
    assert.match(why({ kind: "network" }), /does not say/u)
    assert.match(why({ kind: "network", url: " \n" }), /does not say/u)
    assert.deepStrictEqual(whole({ kind: "network", url: "https://example.com" }), { url: "https://example.com" })
    assert.deepStrictEqual(whole({ kind: "network", command: "curl example.com" }), { command: "curl example.com" })
    assert.deepStrictEqual(whole({ kind: "other" }), {})
    assert.deepStrictEqual(whole({ kind: "edit", paths: ["a"] }), {})
  })

  it("is refused when it touches more files than are shown", () => {
    const paths = Array.from({ length: 101 }, (_, i) => `file-${i}`)
    assert.deepStrictEqual(whole({ kind: "edit", paths: paths.slice(1) }), {})
    assert.match(why({ kind: "edit", paths }), /more files/u)
    assert.deepStrictEqual(whole({ kind: "edit", paths: ["x".repeat(1000)] }), {})
    assert.match(why({ kind: "edit", paths: ["x".repeat(1001)] }), /longer names/u)
    // Longer once it is visible.
    assert.match(why({ kind: "edit", paths: ["a", "\u202e".repeat(42)] }), /longer names/u)
  })

  it("cuts a diff where the room ends, and says so", () => {
    const diff = "+é\n".repeat(PREVIEW_BYTES)
    const { command = "", diff: cut = "" } = whole({ kind: "edit", command: "patch", diff })
    assert.strictEqual(command, "patch")
    assert.isAtMost(bytesOf(command + cut), PREVIEW_BYTES)
    assert.isAbove(bytesOf(cut), PREVIEW_BYTES - 100)
    const longest = "x".repeat(PREVIEW_BYTES - bytesOf(DIFF_CUT))
    assert.deepStrictEqual(whole({ kind: "edit", command: longest, diff }), { command: longest, diff: DIFF_CUT })
    assert.match(why({ kind: "edit", command: `${longest}x`, diff }), /larger than 64 KiB/u)
    assert.match(cut, /the rest of the changes is not shown/u)
    assert.deepStrictEqual(whole({ kind: "edit", diff: "+a\n" }), { diff: "+a\n" })
  })
})

describe("a detail", () => {
  it("has the end of the output", () => {
    const { output = "" } = detail({ output: `${"é line\n".repeat(10_000)}the end` }) ?? {}
    assert.isAtMost(bytesOf(output), OUTPUT_BYTES)
    assert.isAbove(bytesOf(output), OUTPUT_BYTES - 20)
    assert.match(output, /^… what came before is not shown\n[^]*the end$/u)
    assert.deepStrictEqual(detail({ output: "a\u0007" }), { output: "a⟨BEL⟩" })
    const longest = "x".repeat(OUTPUT_BYTES)
    assert.deepStrictEqual(detail({ output: longest }), { output: longest })
  })

  it("has a long command as far as there is room, and the first paths", () => {
    const { command = "", paths = [] } =
      detail({ command: "x".repeat(100_000), paths: Array.from({ length: 200 }, (_, i) => `${i}\u202e`) }) ?? {}
    assert.isAtMost(bytesOf(command), PREVIEW_BYTES)
    assert.match(command, /the rest is not shown/u)
    assert.strictEqual(paths.length, 100)
    assert.strictEqual(paths[0], "0⟨RIGHT-TO-LEFT OVERRIDE⟩")
  })

  it("has only what is known", () => {
    assert.deepStrictEqual(detail({ command: "a", paths: [] }), { command: "a" })
    assert.deepStrictEqual(detail({ paths: ["a"] }), { paths: ["a"] })
    assert.strictEqual(detail({ kind: "other", paths: [] }), undefined)
  })
})

it("a call's kind, preview and detail are stored whole", () => {
  assert.deepStrictEqual(ToolKind.literals, ["edit", "command", "network", "mcp", "other"])
  const mcp = { server: "wiki", tool: "echo", arguments: "{}" }
  const all = { command: "npm ci", diff: "+a\n", cwd: "shop", url: "https://example.com", ...mcp }
  assert.deepStrictEqual(Schema.decodeUnknownSync(Preview)(all), all)
  const done = { command: "npm ci", paths: ["a"], output: "ok", ...mcp }
  assert.deepStrictEqual(Schema.decodeUnknownSync(Detail)(done), done)
})

describe("a title", () => {
  it("is one visible line of 200 characters", () => {
    assert.strictEqual(shownTitle("a \t b\n c"), "a b ⏎ c")
    assert.strictEqual(shownTitle("\u202e"), "⟨RIGHT-TO-LEFT OVERRIDE⟩")
    const longest = "x".repeat(200)
    assert.strictEqual(shownTitle(longest), longest)
    assert.strictEqual(shownTitle(`${longest}x`), `${longest}…`)
    assert.strictEqual(shownTitle(`${"x".repeat(199)}🦜`), `${"x".repeat(199)}\ufffd…`)
  })
})

it("a path has 1,000 visible characters", () => {
  const longest = "x".repeat(1000)
  assert.deepStrictEqual(shownPaths([longest, `${longest}x`, `${"x".repeat(998)}🦜x`]), [
    longest,
    `${"x".repeat(999)}…`,
    `${"x".repeat(998)}\ufffd…`
  ])
})

describe("a diff", () => {
  it("is one hunk with three lines around it", () => {
    const lines = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    const text = (changed: ReadonlyArray<string>) => `${changed.join("\n")}\n`
    assert.strictEqual(
      unifiedDiff("f.txt", text(lines), text(lines.with(4, "E"))),
      [
        "--- f.txt",
        "+++ f.txt",
        "@@ -2,7 +2,7 @@",
        " b",
        " c",
        " d",
        "-e",
        "+E",
        " f",
        " g",
        " h",
        ""
      ].join("\n")
    )
  })

  it("shows what is written to a protected file, and not what it held", () => {
    assert.strictEqual(
      unifiedDiff("repo/.env", "KEY=secret\nA=1\n", "KEY=secret\nA=2\n"),
      "--- repo/.env\n+++ repo/.env\n@@ -0,0 +1,2 @@\n+KEY=secret\n+A=2\n"
    )
    assert.strictEqual(unifiedDiff("repo/.env", "KEY=secret\n", null), "--- repo/.env\n+++ /dev/null\n")
  })

  it("tells a new file, a deleted one, and a last line without an end", () => {
    assert.strictEqual(unifiedDiff("f", null, "hi\n"), "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+hi\n")
    assert.strictEqual(unifiedDiff("f", "hi\n", null), "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-hi\n")
    assert.strictEqual(unifiedDiff("f", "a", "b\n"), "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n")
    assert.strictEqual(unifiedDiff("f", "a\n", "a\n"), "--- f\n+++ f\n")
    assert.strictEqual(unifiedDiff("f", "a\na\n", "a\na\na\n"), "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n")
  })

  it("has as many lines as a preview takes", () => {
    const line = "+xx\n"
    assert.strictEqual(
      unifiedDiff("f", null, "xx\n".repeat(20_000)),
      `--- /dev/null\n+++ f\n@@ -0,0 +1,20000 @@\n${line.repeat(PREVIEW_BYTES / line.length + 1)}`
    )
  })

  it("compares 512 KiB, and says that there is more", () => {
    const text = "x".repeat(512 * 1024)
    const change = (before: string, after: string) => `@@ -1,1 +1,1 @@\n${before}+${after}\n\\ No newline at end of file\n`
    assert.strictEqual(unifiedDiff("f", "a\n", text), `--- f\n+++ f\n${change("-a\n", text)}`)
    assert.strictEqual(unifiedDiff("f", "a\n", `${text}y`), `--- f\n+++ f\n${change("-a\n", text)}${DIFF_CUT}`)
    const created = "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n"
    assert.strictEqual(unifiedDiff("f", null, `${text}y`), `${created}+${text}\n\\ No newline at end of file\n${DIFF_CUT}`)
  })
})

describe("whatever an agent writes", () => {
  it.prop(
    "a preview has at most 64 KiB",
    [Schema.String, Schema.String, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30_000 }))],
    ([command, diff, times]) => {
      const made = preview({ command: command.repeat(times), diff: diff.repeat(times) })
      if (Result.isFailure(made)) return
      assert.isAtMost(bytesOf(Object.values(made.success).join("")), PREVIEW_BYTES)
    },
    { arbitrary: { runs: 50 } }
  )

  it.prop("a detail has at most 64 KiB of a command and 8 KiB of output", [Schema.String,
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))], ([text, times]) => {
    const { command = "", output = "" } = detail({ command: text.repeat(times), output: text.repeat(times) }) ?? {}
    assert.isAtMost(bytesOf(output), OUTPUT_BYTES)
    assert.isAtMost(bytesOf(command), PREVIEW_BYTES)
    assert.isTrue(output.isWellFormed() && command.isWellFormed())
  }, { arbitrary: { runs: 50 } })
})
