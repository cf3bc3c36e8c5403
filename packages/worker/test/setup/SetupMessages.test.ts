import { assert, describe, it } from "@effect/vitest"
import { EnvironmentInvalid, readEnvironment } from "@slipway/domain/environment/rules/Environment"
import { Duration, Result } from "effect"
import * as SetupMessages from "../../src/setup/SetupMessages.ts"

const FILE = ".slipway/environment.json"
const environment = Result.getOrThrow(
  readEnvironment(FILE, JSON.stringify({ setup: ["npm ci", "make all"], cache: ["node_modules", "~/.npm"] }))
)
const HEAD = "# Setup of acme/shop (in the folder /work/shop)"
const section = (more: Partial<Parameters<typeof SetupMessages.sectionFor>[0]> = {}) =>
  SetupMessages.sectionFor({
    repo: "acme/shop",
    folder: "/work/shop",
    file: FILE,
    environment,
    cache: "none",
    result: { _tag: "Succeeded" },
    changed: [],
    lastLines: "",
    secretsWithheld: undefined,
    ...more
  })
const failed = (argv: readonly [string, ...Array<string>], exitCode: number | null = 2): SetupMessages.Result => ({
  _tag: "Failed",
  command: { key: "setup[0]", argv },
  exitCode
})
const reason = (result: SetupMessages.Result) => result._tag === "Succeeded" ? "" : SetupMessages.reason(result)

describe("the reason of a failed setup", () => {
  it.each([
    [failed(["make", "all"]), "setup[0], `make all`, ended with exit code 2."],
    [failed(["make"], null), "setup[0], `make`, was ended or could not be started."],
    [failed(["/bin/sh", "-c", "a\n  `b`\u202e"]), "setup[0], `a 'b'⟨RIGHT-TO-LEFT OVERRIDE⟩`, ended with exit code 2."],
    [failed(["x".repeat(200)]), `setup[0], \`${"x".repeat(200)}\`, ended with exit code 2.`],
    [failed(["x".repeat(201)]), `setup[0], \`${"x".repeat(197)}…\`, ended with exit code 2.`],
    [{ _tag: "TimedOut", within: Duration.minutes(10) }, "It took longer than 10 min and was ended."],
    [{ _tag: "TimedOut", within: Duration.millis(90_400) }, "It took longer than 90 s and was ended."],
    [{ _tag: "Invalid", problem: "a\nb" }, "a b"],
    [{ _tag: "Invalid", problem: "x".repeat(2_000) }, "x".repeat(2_000)],
    [{ _tag: "Invalid", problem: "x".repeat(2_001) }, `${"x".repeat(1_997)}…`]
  ] as ReadonlyArray<readonly [SetupMessages.Result, string]>)("%j: %s", (result, sentence) => {
    assert.strictEqual(reason(result), sentence)
  })

  it("is followed by the last lines of the output, if there are any", () => {
    assert.strictEqual(SetupMessages.withOutput("It failed.", ""), "It failed.")
    assert.strictEqual(SetupMessages.withOutput("It failed.", "a\nb"), "It failed.\na\nb")
  })
})

describe("the report of a setup to the agent", () => {
  it("says that it could not start, and why", () => {
    assert.strictEqual(SetupMessages.refused("No room."), "# Setup\n\nThe setup of this sandbox did not run. No room.\n")
    assert.include(SetupMessages.refused("x".repeat(3_000)), `run. ${"x".repeat(1_997)}…\n`)
  })

  it("lists the commands of a setup that succeeded", () =>
    assert.strictEqual(
      section(),
      `${HEAD}\n\nBefore you started, the commands of ${FILE} ran and succeeded: \`npm ci\`, \`make all\`.\n`
    ))

  it("lists the folders of a cache that took the place of a setup", () =>
    assert.strictEqual(
      section({ cache: "hit" }),
      `${HEAD}\n\nThe commands of ${FILE} did not run here: \`npm ci\`, \`make all\`. ` +
        "What they fill was brought back as they left it in an earlier sandbox: `node_modules`, `~/.npm`.\n"
    ))

  it("is empty for a setup without commands", () => assert.strictEqual(section({ environment: { ...environment, setup: [] } }), ""))

  it("has the end of the output of a setup that failed", () => {
    const told = `${HEAD}\n\nThe setup that ${FILE} asks for failed. setup[0], \`make\`, ended with exit code 2. ` +
      "What it installs may be missing."
    assert.strictEqual(section({ result: failed(["make"]) }), `${told}\n`)
    assert.strictEqual(
      section({ result: failed(["make"]), lastLines: "a\nb" }),
      `${told}\n\nThe end of its output:\n\n    a\n    b\n`
    )
  })

  it("has neither output nor commands of an invalid setup", () => {
    const invalid = new EnvironmentInvalid({ file: FILE, key: "", problem: "is no JSON" })
    const told = `${HEAD}\n\nThe setup that ${FILE} asks for failed. It is no JSON. What it installs may be missing.\n`
    assert.strictEqual(
      section({ environment: invalid, result: { _tag: "Invalid", problem: "It is no JSON." }, lastLines: "a" }),
      told
    )
    assert.strictEqual(section({ environment: invalid, cache: "hit" }), "")
  })

  it("says in one line why a setup ran without its secrets", () => {
    assert.strictEqual(SetupMessages.withoutSecrets("a\nb"), "It ran without its secrets. a b")
    assert.strictEqual(SetupMessages.withoutSecrets("x".repeat(2_001)), `It ran without its secrets. ${"x".repeat(1_997)}…`)
    assert.isTrue(section({ secretsWithheld: "Why." }).endsWith("`make all`.\n\nIt ran without its secrets. Why.\n"))
  })

  it("names twenty of the files that a setup changed", () => {
    const files = Array.from({ length: 21 }, (_, i) => `f${i}`)
    const names = (count: number) => files.slice(0, count).map((name) => `\`${name}\``).join(", ")
    const told = "Setup changed files of the repository, which are among the changes of this sandbox: "
    assert.isTrue(section({ changed: files.slice(0, 1) }).endsWith(`\n\n${told}\`f0\`.\n`))
    assert.isTrue(section({ changed: files.slice(0, 20) }).endsWith(`${told}${names(20)}.\n`))
    assert.isTrue(section({ changed: files }).endsWith(`${told}${names(20)}, and 1 more.\n`))
  })
})
