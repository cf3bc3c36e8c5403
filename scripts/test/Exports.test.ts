import { assert, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

/** The output of the script for these files. */
const check = (files: Readonly<Record<string, string>>) => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-exports-test-"))
  try {
    const manifest = JSON.stringify({ exports: { "./*": "./src/*.ts" } })
    const all = { "packages/worker/package.json": manifest, "packages/domain/package.json": manifest, ...files }
    for (const [name, text] of Object.entries(all)) {
      mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
      writeFileSync(path.join(root, name), text)
    }
    spawnSync("git", ["init", "--quiet", root])
    const { status, stderr } = spawnSync(process.execPath, [path.join(import.meta.dirname, "../exports.mjs"), "--in", root], {
      encoding: "utf8"
    })
    assert.strictEqual(status, stderr === "" ? 0 : 1)
    return stderr
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

const IN = "packages/worker/src"
const made = "export const a = 1\nexport interface B {}\nexport class C {}\n"

it("finds exports that no other file imports, but no classes", () => {
  assert.strictEqual(check({ [`${IN}/A.ts`]: `${made}a\n` }), `${IN}/A.ts: no other file uses a, B\n`)
})

it.each([
  ["names", "import { a, type B as D } from \"./A.ts\""],
  ["a namespace", "import * as A from \"./A.ts\"\nconst x: A.B = [...A.a]"],
  ["a namespace as a value", "import * as A from \"./A.ts\"\nf(A)"],
  ["all of it, to hand it on", "export * from \"./A.ts\""],
  ["it when it runs", "const { a } = await import(\"./A.ts\")"]
])("takes for used what a file imports by %s", (_, text) => {
  assert.strictEqual(check({ [`${IN}/A.ts`]: made, [`${IN}/Z.ts`]: text }), "")
})

it("knows modules by the names of packages, and does not check those that are for other programs", () => {
  assert.strictEqual(
    check({
      "packages/domain/src/D.ts": made,
      [`${IN}/A.ts`]: "export const a = 1\nexport const b = 2\n",
      "packages/worker/test/A.test.ts": "import * as A from \"@slipway/worker/A\"\nA.a\n// A.b"
    }),
    ""
  )
})
