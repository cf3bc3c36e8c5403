import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import path from "node:path"
import { assert, describe, it } from "vitest"
import { ARTIFACTS_VARIABLE } from "../../packages/domain/src/files/rules/ArtifactsFolder.ts"
import { all, OF_PROGRAMS } from "../../packages/slipway/src/settings/Settings.ts"

const root = path.resolve(import.meta.dirname, "../..")

/** Published sources, except the declarations. */
const sources = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "packages"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((file) => /^packages\/(?:\w+\/src|domain\/(?:memory|testing))\//u.test(file) && existsSync(path.join(root, file)))
  .filter((file) => !file.startsWith("packages/slipway/src/settings/"))

/** Variables of programs that use the API, and of processes in a box. */
const OTHERS = [...OF_PROGRAMS, ARTIFACTS_VARIABLE]

const named = (text: string): ReadonlyArray<string> =>
  (text.match(/\b(?:SLIPWAY_[A-Z_]+|OTEL_[A-Z_]+|DATABASE_URL)\b/gu) ?? []).filter((name) => !OTHERS.includes(name))

describe("names of settings", () => {
  it("are in the declarations of settings alone: other modules get the name of an option from their caller", () => {
    assert.isAbove(sources.length, 300)
    const found = sources.flatMap((file) => named(readFileSync(path.join(root, file), "utf8")).map((name) => `${file}: ${name}`))
    assert.deepStrictEqual(found, [])
  })

  it("are all of a form that this finds", () => {
    // Variables of AWS and of proxies have the names that other tools give them.
    for (const { name } of all.filter(({ name }) => !/^AWS_|_PROXY$/u.test(name))) assert.deepStrictEqual(named(`${name}.`), [name])
  })
})
