import { assert, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

/** The output of the script for these modules. Each is `<package>/<path>` and its imports; a line with a space is code. */
const check = (
  modules: Readonly<Record<string, ReadonlyArray<string>>>,
  exports: Readonly<Record<string, string | null>> = { "./memory/*": "./memory/*.ts", "./*": "./src/*.ts" }
) => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-imports-test-"))
  try {
    for (const [name, imports] of Object.entries(modules)) {
      const file = path.join(root, "packages", `${name}.ts`)
      mkdirSync(path.dirname(file), { recursive: true })
      writeFileSync(file, imports.map((line) => line.includes(" ") ? `${line}\n` : `import {\n  x\n} from "${line}"\n`).join(""))
      const [folder = ""] = /^(?:adapters\/)?[^/]+/u.exec(name) ?? []
      writeFileSync(path.join(root, "packages", folder, "package.json"), JSON.stringify({ exports }))
    }
    const { status, stderr, stdout } = spawnSync(process.execPath, [path.join(import.meta.dirname, "../imports.mjs"), "--in", root], {
      encoding: "utf8"
    })
    return { status, stderr, lines: stdout.split("\n").filter((line) => line !== "").map((line) => line.replaceAll(/ +/gu, " ")) }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

it("tells how many imports lead from one folder to another", () => {
  const { lines, status } = check({
    "domain/src/Ids": [],
    "domain/src/access/Key": ["../Ids.ts", "./Grant.ts", "effect"],
    "domain/src/access/Grant": ["../Ids.ts"],
    "domain/memory/KeysMemory": ["../src/access/Key.ts"],
    "adapters/postgres/src/keys/Keys": ["@slipway/domain/access/Key", "@slipway/domain/memory/KeysMemory"]
  })
  assert.strictEqual(status, 0)
  assert.deepStrictEqual(lines, [
    "postgres imports domain 2",
    "domain/access imports domain/(root) 2",
    "domain/memory imports domain/access 1",
    "postgres/keys imports domain/access 1, domain/memory 1"
  ])
})

it.each([
  ["of two folders", { "domain/src/a/A": ["../b/B.ts"], "domain/src/b/B": ["../a/A.ts"] }, "domain/a → domain/b → domain/a"],
  [
    "over a third one, by the name of the package",
    { "domain/src/a/A": ["../b/B.ts"], "domain/src/b/B": ["../c/C.ts"], "domain/src/c/C": ["@slipway/domain/a/A"] },
    "domain/a → domain/b → domain/c → domain/a"
  ],
  ["of what lies in src itself", { "domain/src/A": ["./b/B.ts"], "domain/src/b/B": ["../A.ts"] },
    "domain/(root) → domain/b → domain/(root)"],
  ["of packages", { "domain/src/a/A": ["@slipway/http/b/B"], "http/src/b/B": ["@slipway/domain/c/C"], "domain/src/c/C": [] },
    "domain → http → domain"]
])("fails for a circle %s", (_, modules, circle) => {
  const { status, stderr } = check(modules as Readonly<Record<string, ReadonlyArray<string>>>)
  assert.strictEqual(status, 1)
  assert.include(stderr, `a circle: ${circle}`)
})

it.each([
  ["a folder of the domain that comes later", "domain/src/access/rules/User", "../../sandbox/rules/Turn.ts", "access comes before sandbox"],
  ["a use case, in a port", "domain/src/access/ports/KeyStore", "../usecases/MintKey.ts", "ports come before usecases"],
  ["a use case of another folder, in a port", "domain/src/sandbox/ports/Store", "../../access/usecases/MintKey.ts",
    "ports come before usecases"]
])("fails for an import of %s", (_, module, specifier, message) => {
  const { status, stderr } = check({ [module]: [specifier] })
  assert.strictEqual(status, 1)
  assert.include(stderr, message)
})

it.each([
  ["a module that is not exported", "@slipway/domain/access/rules/Secret", "domain does not export"],
  ["a module that is taken out of an exported folder", "@slipway/domain/memory/Steps", "domain does not export"],
  ["what is there for tests of other packages", "@slipway/domain/internal/access/Secret", "is not published"]
])("fails for an import of %s", (_, specifier, message) => {
  const { status, stderr } = check({ "domain/src/access/Secret": [], "domain/memory/Steps": [], "http/src/api/Api": [specifier] }, {
    "./memory/*": "./memory/*.ts",
    "./memory/Steps": null,
    "./internal/*": "./src/*.ts"
  })
  assert.strictEqual(status, 1)
  assert.include(stderr, `packages/http/src/api/Api.ts imports ${specifier}`)
  assert.include(stderr, message)
})

it("fails for a service with the id of another package", () => {
  const root = mkdtempSync(path.join(tmpdir(), "slipway-imports-test-"))
  try {
    const write = (id: string) => {
      mkdirSync(path.join(root, "packages/worker/src"), { recursive: true })
      writeFileSync(path.join(root, "packages/worker/package.json"), JSON.stringify({ exports: {} }))
      writeFileSync(path.join(root, "packages/worker/src/A.ts"), `class A extends Context.Service<A, Shape>()("${id}") {}`)
      return spawnSync(process.execPath, [path.join(import.meta.dirname, "../imports.mjs"), "--in", root], { encoding: "utf8" })
    }
    assert.strictEqual(write("@slipway/worker/A").stderr, "")
    assert.include(write("@slipway/http/A").stderr, "packages/worker/src/A.ts has a service with the id @slipway/http/A")
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

it.each([
  ["by an adapter that may not", { "adapters/agents/src/Turn": ["@slipway/docker/Host"], "adapters/docker/src/Host": [] },
    "agents imports docker"],
  ["by a package that composes nothing", { "http/src/Server": ["@slipway/docker/Host"], "adapters/docker/src/Host": [] },
    "only slipway composes"],
  ["by an adapter that is not listed", { "adapters/tape/src/Store": [] }, "tape is not in ARROWS"]
])("fails for an import of an adapter %s", (_, modules, message) => {
  const { status, stderr } = check(modules as Readonly<Record<string, ReadonlyArray<string>>>)
  assert.strictEqual(status, 1)
  assert.include(stderr, message)
})

it("lets an adapter import a listed one, and slipway import all", () => {
  const { status } = check({
    "adapters/docker/src/Host": ["@slipway/machine/host/Limits"],
    "adapters/machine/src/host/Limits": [],
    "slipway/src/Service": ["@slipway/docker/Host"]
  })
  assert.strictEqual(status, 0)
})

it.each([
  ["a call", "x.on(\"exit\", () => {})"],
  ["an optional call", "x?.postMessage( 1 )"],
  ["a promise that is awaited", "const made = await x()"],
  ["a try", "try { x() } catch {}"]
])("fails for %s in a module that is not named as an entry point", (_, line) => {
  const { status, stderr } = check({ "domain/src/a/Program": ["effect", line] })
  assert.strictEqual(status, 1)
  assert.strictEqual(
    stderr,
    "packages/domain/src/a/Program.ts runs something when it is imported: name it packages/domain/src/a/Program.main.ts\n"
  )
  assert.strictEqual(check({ "domain/src/a/Program.main": ["effect", line] }).status, 0)
})

it("lets a module fill a value of its own when it is imported", () => {
  const lines = ["const list = new x()", "list.add( 1 )", "for (const one of [1]) list.add(one)"]
  assert.strictEqual(check({ "domain/src/a/List": ["effect", ...lines] }).status, 0)
})
