import { spawnSync } from "node:child_process"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { afterAll, assert, describe, it } from "vitest"

const places: Array<string> = []
afterAll(() => places.forEach((place) => rmSync(place, { recursive: true })))

interface Entry {
  readonly version?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly link?: boolean
}
const good = (name: string): Entry => ({
  version: "1.0.0",
  resolved: `https://registry.npmjs.org/${name}/-/${name}-1.0.0.tgz`,
  integrity: "sha512-AAAA"
})

/** The output of the script for a repository with this lock, in which those builds may lack a digest. */
const check = (packages: Readonly<Record<string, Entry>>, unpinned: ReadonlyArray<string> = []) => {
  const place = mkdtempSync(path.join(tmpdir(), "slipway-lock-"))
  places.push(place)
  mkdirSync(path.join(place, "scripts"))
  const script = path.join(place, "scripts/check-lock.mjs")
  copyFileSync(path.join(import.meta.dirname, "../check-lock.mjs"), script)
  writeFileSync(
    path.join(place, "package-lock.json"),
    JSON.stringify({ packages: { "": { version: "0.0.0" }, "packages/ours": { version: "0.0.0" }, ...packages } })
  )
  writeFileSync(path.join(place, "scripts/check-lock.unpinned.json"), JSON.stringify(unpinned))
  const { status, stderr, stdout } = spawnSync(process.execPath, [script], { encoding: "utf8" })
  return { status, said: stdout + stderr }
}

describe("check-lock", () => {
  it("is content with a lock in which everything that is fetched has a SHA-512; links to our own packages have none", () => {
    const packages = {
      "node_modules/one": good("one"),
      "node_modules/one/node_modules/two": good("two"),
      "node_modules/ours": { resolved: "packages/ours", link: true }
    }
    assert.deepStrictEqual(check(packages), { status: 0, said: "" })
  })

  it("fails on an entry without a SHA-512 and names it, scope and version included", () => {
    for (const integrity of [{}, { integrity: "sha1-AAAA" }]) {
      const { integrity: _integrity, ...bare } = good("tool")
      const { said, status } = check({
        "node_modules/one": good("one"),
        "node_modules/one/node_modules/@scope/tool": { ...bare, ...integrity }
      })
      assert.strictEqual(status, 1)
      assert.strictEqual(said, "package-lock.json has no SHA-512 of @scope/tool@1.0.0. Run: node scripts/check-lock.mjs --fill\n")
    }
  })

  it("lets a build of the list lack one, at that version alone", () => {
    assert.deepStrictEqual(check({ "node_modules/tool-win32": { version: "1.0.0" } }, ["tool-win32@1.0.0"]), { status: 0, said: "" })
    const { said, status } = check({ "node_modules/tool-win32": { version: "1.0.1" } }, ["tool-win32@1.0.0"])
    assert.strictEqual(status, 1)
    assert.include(said, "no SHA-512 of tool-win32@1.0.1")
  })

  it("fails on a build of the list that has one by now, or is no longer there", () => {
    for (const packages of [{ "node_modules/tool": good("tool") }, {}]) {
      assert.deepStrictEqual(check(packages, ["tool@1.0.0"]), {
        status: 1,
        said: "tool@1.0.0 is in scripts/check-lock.unpinned.json for nothing: take it out\n"
      })
    }
  })

  it("fails on an entry of another registry", () => {
    const resolved = "https://registry.invalid/one/-/one-1.0.0.tgz"
    assert.deepStrictEqual(check({ "node_modules/one": { ...good("one"), resolved } }), {
      status: 1,
      said: `package-lock.json names another registry: ${resolved}\n`
    })
  })
})
