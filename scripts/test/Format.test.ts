import { assert, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

/** The output of the script for a repository with one module, `a.ts`, and the text of that module afterwards. */
const format = (text: string, ...args: ReadonlyArray<string>) => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-format-test-"))
  try {
    execFileSync("git", ["init", "--quiet", root])
    writeFileSync(path.join(root, "a.ts"), text)
    const script = path.join(import.meta.dirname, "../format.mjs")
    const { status, stdout } = spawnSync(process.execPath, [script, "--in", root, ...args], { encoding: "utf8" })
    return { status, stdout, text: readFileSync(path.join(root, "a.ts"), "utf8") }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** A line of so many columns, of which each character is one. */
const line = (columns: number) => `// ${"ü".repeat(columns - 3)}\n`

it("fails for a module that is not formatted, and writes it so when it is told to", () => {
  const unformatted = "export const a = 'b';\n"
  assert.deepStrictEqual(format(unformatted), { status: 1, stdout: "a.ts\n", text: unformatted })
  assert.deepStrictEqual(format(unformatted, "--write"), { status: 0, stdout: "a.ts\n", text: "export const a = \"b\"\n" })
})

it("fails for a line of more than 140 columns, which it cannot break", () => {
  assert.deepStrictEqual(format(line(140)), { status: 0, stdout: "", text: line(140) })
  assert.deepStrictEqual(format(line(141)), { status: 1, stdout: "a.ts:1: 141 columns\n", text: line(141) })
})

it("fails for a template that it broke at an interpolation to make it fit", () => {
  const template = `export const a = (name: string) => \`${"x".repeat(60)}\${name === "" ? "nobody" : name}${"y".repeat(60)}\`\n`
  const { status, stdout } = format(template, "--write")
  assert.deepStrictEqual([status, stdout], [1, "a.ts\na.ts:2: a template is broken at an interpolation\n"])
})
