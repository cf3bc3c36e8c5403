/**
 * Importing the rules loads neither schemas nor Effect's runtime, so that programs that only decide and fold need not load them.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"

const rules = [
  "text/Counters",
  "time/Instant",
  "text/Utf8",
  "text/EscapeInvisible",
  "access/rules/DeviceLogin",
  "access/rules/Identity",
  "access/rules/KeyState",
  "access/rules/Minting",
  "access/rules/Session",
  "access/rules/User",
  "environment/rules/CacheKey",
  "environment/rules/CachePath",
  "environment/rules/Destination",
  "models/rules/Budget",
  "models/rules/Credits",
  "models/rules/Steering",
  "models/rules/Usage",
  "partner/rules/Attribution",
  "publishing/rules/Publication",
  "sandbox/rules/Approval",
  "sandbox/rules/Command",
  "sandbox/rules/Idempotency",
  "sandbox/rules/LeaseRules",
  "sandbox/rules/OutputLimit",
  "sandbox/rules/Policy",
  "sandbox/rules/Question",
  "sandbox/rules/Sandbox",
  "sandbox/rules/SandboxEvent",
  "sandbox/rules/SelectRepo",
  "sandbox/rules/AttentionState",
  "sandbox/rules/SystemCommand",
  "sandbox/rules/TimeLimit",
  "sandbox/rules/ToolCall",
  "sandbox/rules/Transition",
  "sandbox/rules/Turn",
  "sandbox/rules/TurnJournal",
  "sandbox/rules/MessageQueue",
  "source/rules/FileRules",
  "source/schema/Naming"
]

/** The large modules of effect: the barrel, schemas, the runtime. Every other large module loads one of these. */
const LARGE = "/effect/dist/(?:index|Schema|internal/effect)\\.js$"

/** In a process of its own: prints the ways by which imports of the modules lead to a large one. */
const script = `
import { registerHooks } from "node:module"
const importer = new Map()
registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context)
    if (!importer.has(resolved.url)) importer.set(resolved.url, context.parentURL)
    return resolved
  }
})
const [large, ...modules] = process.argv.slice(1)
for (const module of modules) await import("@slipway/domain/" + module)
const name = (url) => url.replace(/^.*\\/(?:domain\\/src|effect\\/dist)\\//u, "")
const wayTo = (url) => {
  const from = importer.get(url)
  return importer.has(from) ? [...wayTo(from), name(url)] : [name(url)]
}
const found = [...importer.keys()].filter((url) => new RegExp(large, "u").test(url))
process.stdout.write(JSON.stringify(found.map((url) => wayTo(url).join(" > "))))
`

const waysToLarge = async (modules: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", script, "--", LARGE, ...modules],
    { cwd: import.meta.dirname }
  )
  return JSON.parse(stdout)
}

describe("importing the rules", () => {
  it("loads neither schemas nor the runtime of Effects, nor all of effect", async () => {
    assert.deepStrictEqual(
      await waysToLarge(rules),
      [],
      "import shapes by type (`import type`) from schema/, reckon with instants by Instant.ts, and make errors of rules with Data"
    )
  })

  it("is told from importing shapes", async () => {
    const ways = await waysToLarge(["sandbox/schema/Turn"])
    assert.include(ways, "sandbox/schema/Turn.ts > Schema.js")
  })
})
