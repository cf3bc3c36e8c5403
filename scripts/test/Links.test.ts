import { assert, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

/** The output of the script for a repository with these pages. */
const check = (pages: Readonly<Record<string, string>>) => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-links-test-"))
  try {
    execFileSync("git", ["init", "--quiet", root])
    for (const [name, text] of Object.entries(pages)) {
      mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
      writeFileSync(path.join(root, name), text)
    }
    const { status, stderr, stdout } = spawnSync(process.execPath, [path.join(import.meta.dirname, "../links.mjs"), "--in", root], {
      encoding: "utf8"
    })
    return { status, stderr, stdout }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

it("is content with links to pages, sections, files and folders, and requests no address of another site", () => {
  assert.deepStrictEqual(
    check({
      "README.md": "[one](docs/a.md) [two](docs/a.md#2-what-a-box-is) [three](#the-end)\n[four](https://nowhere.invalid/x) " +
        "![five](docs/a.png) [six][ref]\n\n[ref]: docs\n\n# The `end`\n",
      "docs/a.md": "# A\n\n## 2. What a [box](../README.md) is\n\n## A\n\n[again](#a-1)\n",
      "docs/a.png": ""
    }),
    { status: 0, stderr: "", stdout: "8 links of 2 pages, 0 citations of sections\n" }
  )
})

it("fails for each link that leads nowhere, and says where it stands", () => {
  const { status, stderr } = check({
    "README.md": "# Start\n\n[gone](docs/b.md)\n[no section](docs/a.md#two)\n[out](../a.md)\n",
    "docs/a.md": "# A\n\n## One\n\n![gone](a.png) [own](#One)\n"
  })
  assert.strictEqual(status, 1)
  assert.deepStrictEqual(stderr.split("\n"), [
    "README.md:3: there is no docs/b.md",
    "README.md:4: docs/a.md has no section #two",
    "README.md:5: leads out of the repository",
    "docs/a.md:5: there is no docs/a.png",
    "docs/a.md:5: docs/a.md has no section #One",
    ""
  ])
})

it("takes nothing that is written as code for a link or a heading", () => {
  assert.deepStrictEqual(
    check({ "README.md": "`[a](b.md)`\n\n```sh\n# Not a section\necho '[a](b.md)'\n```\n\n   ```\n   [a](b.md)\n   ```\n" }).stderr,
    ""
  )
  assert.include(check({ "README.md": "[a](#not-a-section)\n\n```sh\n# Not a section\n```\n" }).stderr, "no section #not-a-section")
})

it("fails for each citation of a section that does not exist, in pages and code", () => {
  const { status, stderr, stdout } = check({
    "docs/decisions/02-states.md": "# 2. States\n\n## 2.1 A\n\n## 2.2 B\n",
    "docs/interface.md": "# I\n\n### 2.4a Envelope\n",
    "src/a.ts": "/** The rule (docs/decisions/2.1 and 2, docs/interface.md\n * 2.4a). See docs/decisions/02-states.md 9 times. */\n",
    "src/b.ts": "// One.\n// docs/decisions/2.1, 2.3 and 4; " + ["docs", "old.md 2.1\n"].join("/")
  })
  assert.strictEqual(status, 1)
  assert.deepStrictEqual(stderr.split("\n"), [
    "src/b.ts:2: docs/decisions/ has no section 2.3",
    "src/b.ts:2: docs/decisions/ has no section 4",
    "src/b.ts:2: docs/old.md has no section 2.1",
    ""
  ])
  assert.include(stdout, "7 citations of sections")
})

it("fails for a rule whose module does not declare the name", () => {
  const { status, stderr } = check({
    "docs/rules.md": "| a | [`one`](../src/a.ts), [`two`](../src/a.ts) | [`three`](../src/b.ts) |\n",
    "src/a.ts": "export const one = 1\n// two\n",
    "src/b.ts": "sql`CREATE FUNCTION three() RETURNS void`\n"
  })
  assert.deepStrictEqual({ status, stderr }, {
    status: 1,
    stderr: "docs/rules.md:1: src/a.ts does not declare two; --write follows it\n"
  })
})

it("follows a rule whose module has moved", () => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-links-test-"))
  try {
    execFileSync("git", ["init", "--quiet", root])
    for (const folder of ["docs", "src/rules", "src/other"]) mkdirSync(path.join(root, folder), { recursive: true })
    writeFileSync(path.join(root, "docs/rules.md"), "[`one`](../src/A.ts) [`two`](../src/B.ts)\n")
    writeFileSync(path.join(root, "src/rules/A.ts"), "export const one = 1\n")
    writeFileSync(path.join(root, "src/other/C.ts"), "export const one = 2\nexport const two = 2\n")
    const script = path.join(import.meta.dirname, "../links.mjs")
    assert.strictEqual(spawnSync(process.execPath, [script, "--in", root, "--write"]).status, 0)
    assert.strictEqual(
      readFileSync(path.join(root, "docs/rules.md"), "utf8"),
      "[`one`](../src/rules/A.ts) [`two`](../src/other/C.ts)\n"
    )
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

it("fails for a file that a page names and that does not exist", () => {
  const { stderr } = check({
    "README.md": "`packages/a.ts`, `packages/b.ts`, `packages/a/test-output/c`, `packages/<name>/d`\n",
    "CHANGELOG.md": "`packages/b.ts`\n",
    "packages/a.ts": ""
  })
  assert.strictEqual(stderr, "README.md:1: there is no packages/b.ts\n")
})
