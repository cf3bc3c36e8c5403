import { assert, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

interface Allowed {
  readonly circles?: Readonly<Record<string, number>>
  readonly folders?: Readonly<Record<string, number>>
  readonly functions?: Readonly<Record<string, number>>
  readonly docstrings?: Readonly<Record<string, number>>
  readonly words?: Readonly<Record<string, number>>
}

/** Runs the script on a checkout with these files, and returns what it printed and the list that `--write` leaves. */
const check = (files: Readonly<Record<string, string>>, allowed: Allowed = {}, ...options: ReadonlyArray<string>) => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-structure-test-"))
  try {
    const list = path.join(root, "scripts/structure.json")
    const all = { "scripts/structure.json": JSON.stringify(allowed), "packages/domain/package.json": `{"exports":{}}`, ...files }
    for (const [name, text] of Object.entries(all)) {
      mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
      writeFileSync(path.join(root, name), text)
    }
    spawnSync("git", ["init", "--quiet", root])
    const script = path.join(import.meta.dirname, "../structure.mjs")
    const { status, stderr, stdout } = spawnSync(process.execPath, [script, "--in", root, ...options], { encoding: "utf8" })
    return { status, stderr, stdout, list: JSON.parse(readFileSync(list, "utf8")) as Allowed }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

const IN = "packages/domain/src"

const circle = {
  [`${IN}/a/b/c/A.ts`]: `import { b } from "../d/B.ts"\n`,
  [`${IN}/a/b/d/B.ts`]: `import { c } from "../e/C.ts"\n`,
  [`${IN}/a/b/e/C.ts`]: `import { a } from "../c/A.ts"\n`
}

const folderOf = (count: number, folder = "wide") =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${IN}/${folder}/File${index}.ts`, ""]))

const functionOf = (lines: number, name = "long") => `const ${name} = Effect.gen(function*() {\n${"  yield* x\n".repeat(lines - 2)}})\n`

it("prints one line for each check", () => {
  const { status, stderr, stdout } = check({ ...folderOf(20), [`${IN}/A.ts`]: functionOf(100) })
  assert.strictEqual(stderr, "")
  assert.strictEqual(status, 0)
  assert.deepStrictEqual(stdout.trim().split("\n"), [
    "folders in circles of imports: 0",
    "folders with more than 20 source files: 0",
    "functions with more than 100 lines: 0",
    "exports without a docstring: 0",
    "counted words: 0"
  ])
})

it.each<[string, Readonly<Record<string, string>>, string]>([
  ["a circle of folders at depth 3", circle, `${IN}/a/b (c, d, e): 3 folders in a circle of imports, and 0 is the limit`],
  [
    "a circle of a folder's own files and the files below it",
    { [`${IN}/a/A.ts`]: `import { b } from "./b/B.ts"\n`, [`${IN}/a/b/B.ts`]: `import type { a } from "../A.ts"\n` },
    `${IN}/a ((files), b): 2 folders in a circle of imports, and 0 is the limit`
  ],
  ["a folder with 21 files", folderOf(21), `${IN}/wide: 21 source files, and 20 is the limit`],
  ["a function with 101 lines", { [`${IN}/A.ts`]: functionOf(101) }, `${IN}/A.ts long: 101 lines, and 100 is the limit`],
  [
    "a function with 101 lines that only contains another one",
    { [`${IN}/A.ts`]: `const outer = () => {\n${functionOf(99, "inner")}}\n` },
    `${IN}/A.ts outer: 101 lines, and 100 is the limit`
  ],
  [
    "an export without a docstring",
    { [`${IN}/A.ts`]: "/** A number. */\n\nexport const a = 1\nexport type a = typeof a\n// A text.\nexport const b = \"\"\n" },
    `${IN}/A.ts b: 1 exports without a docstring, and 0 is the limit`
  ],
  ["a counted word in a comment", { [`${IN}/A.ts`]: "/** A file\n * that nobody reads. */\n" },
    "domain src: nobody: 1 uses, and 0 is the limit"],
  ["a counted word in a string", { [`${IN}/A.ts`]: "const a = `it\nis none of ${b}`\n" },
    "domain src: is none: 1 uses, and 0 is the limit"],
  ["a counted word in a test", { "packages/domain/test/A.test.ts": `it("Whoever asks", () => {})\n` }, "domain tests: whoever: 1 uses"],
  ["a counted word in a page", { "docs/Page.md": "# Page\nThe last one\nthat came.\n" }, "(root) docs: one that: 1 uses"],
  ["a comment that begins with Of", { [`${IN}/A.ts`]: "// Of all files\n// What is read.\n" },
    "domain src: Of …: 1 uses, and 0 is the limit"],
  ["a heading that begins with What", { "docs/Page.md": "# What is read\n" }, "(root) docs: What …: 1 uses, and 0 is the limit"]
])("fails for %s", (_, files, message) => {
  const { status, stderr } = check(files)
  assert.strictEqual(status, 1)
  assert.include(stderr, message)
  assert.lengthOf(stderr.trim().split("\n"), 1)
})

it("needs no docstrings in packages for this service alone", () => {
  const worker = { "packages/worker/package.json": `{"exports":{}}`, "packages/worker/src/A.ts": "export const a = 1\n" }
  assert.strictEqual(check(worker).stderr, "")
})

it("does not count code, or what a comment says after its beginning", () => {
  const { status, stderr } = check({ [`${IN}/A.ts`]: "// A file, if there is none.\n// What it has.\nconst nobody = whoever\n" })
  assert.strictEqual(stderr, "")
  assert.strictEqual(status, 0)
})

const listed = {
  circles: { [`${IN}/a/b`]: 3 },
  folders: { [`${IN}/wide`]: 22 },
  functions: { [`${IN}/A.ts long`]: 110 },
  words: { "domain src: nobody": 2 }
}
const filesOf = (more: number) => ({
  ...circle,
  ...folderOf(22 + more),
  [`${IN}/A.ts`]: `${functionOf(110 + more)}${"// nobody\n\n".repeat(2 + more)}`
})

it("passes what is listed, and fails where a number has risen", () => {
  assert.strictEqual(check(filesOf(0), listed).status, 0)
  const { status, stderr } = check({
    ...filesOf(1),
    [`${IN}/a/b/f/D.ts`]: `import "../c/A.ts"\n`,
    [`${IN}/a/b/c/E.ts`]: `import "../f/D.ts"\n`
  }, listed)
  assert.strictEqual(status, 1)
  assert.deepStrictEqual(stderr.trim().split("\n"), [
    `${IN}/a/b (c, d, e, f): 4 folders in a circle of imports, and 3 is the limit`,
    `${IN}/wide: 23 source files, and 22 is the limit`,
    `${IN}/A.ts long: 111 lines, and 110 is the limit`,
    "domain src: nobody: 3 uses, and 2 is the limit"
  ])
})

it("lowers the list with --write, and never raises it", () => {
  assert.deepStrictEqual(check(filesOf(-1), listed, "--write").list, {
    circles: { [`${IN}/a/b`]: 3 },
    folders: { [`${IN}/wide`]: 21 },
    functions: { [`${IN}/A.ts long`]: 109 },
    docstrings: {},
    words: { "domain src: nobody": 1 }
  })
  assert.deepStrictEqual(check(filesOf(1), listed, "--write").list, { ...listed, docstrings: {} })
  assert.deepStrictEqual(check({}, listed, "--write").list, { circles: {}, folders: {}, functions: {}, docstrings: {}, words: {} })
  assert.deepStrictEqual(check(filesOf(0), {}, "--write").list, { circles: {}, folders: {}, functions: {}, docstrings: {}, words: {} })
})

it("follows what has moved, when it has not become larger", () => {
  const moved = { ...folderOf(22, "moved/wide"), [`${IN}/moved/B.ts`]: functionOf(110) }
  const { list, status } = check(moved, listed, "--write")
  assert.strictEqual(status, 0)
  assert.deepStrictEqual(list.folders, { [`${IN}/moved/wide`]: 22 })
  assert.deepStrictEqual(list.functions, { [`${IN}/moved/B.ts long`]: 110 })
  assert.strictEqual(check({ ...moved, [`${IN}/moved/B.ts`]: functionOf(111) }, listed).status, 1)
  // One entry of the list is one function.
  assert.strictEqual(check({ ...moved, [`${IN}/moved/C.ts`]: functionOf(101) }, listed).status, 1)
})

it("lets a new package have the words that another one lost", () => {
  const words = (domain: number, http: number) => ({
    [`${IN}/A.ts`]: "// nobody\n\n".repeat(domain),
    "packages/http/package.json": `{"exports":{}}`,
    "packages/http/src/A.ts": "// nobody\n\n".repeat(http)
  })
  assert.deepStrictEqual(check(words(1, 1), listed, "--write").list.words, { "domain src: nobody": 1, "http src: nobody": 1 })
  assert.strictEqual(check(words(1, 2), listed).status, 1)
  assert.strictEqual(check(words(2, 1), listed).status, 1)
})
