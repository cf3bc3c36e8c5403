/** `examples/evaluation` as its user runs it, over sandboxes of a real service. */
import { assert, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, run, serve } from "../../commands/SlipwayProcess.ts"

const LONG = 600_000
const example = path.resolve(import.meta.dirname, "../../../../../examples/evaluation")
const SOLVED = ["camelCase", "chunk", "clamp", "gcd", "leapYear", "median", "palindrome", "range", "slugify", "sum", "truncate", "unique",
  "words", "zip"]
const WHY_NOT = {
  capitalize: "broke: capitalize: keeps what it does",
  flatten: "the turn ended as failed",
  initials: "fails: initials: is fixed",
  modulo: "fails: modulo: is fixed",
  partition: "fails: partition: is fixed",
  roman: "no changes"
}

interface Result {
  readonly instance_id: string
  readonly solved: boolean
  readonly why: string
}

it.live("examples/evaluation scores twenty tasks by their tests, and goes on where it was stopped", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const { key = "", url } = yield* serve(data, { SLIPWAY_ISOLATION: "none" })
    const node = (program: string, ...args: ReadonlyArray<string>) =>
      SpawnedProgram.run(process.execPath, [path.join(example, "src", program), ...args], {
        cwd: data,
        env: { PATH: process.env["PATH"], SLIPWAY_URL: url, SLIPWAY_API_KEY: key }
      })
    const prepared = yield* node("prepare.main.ts", "toolbox")
    assert.match(prepared.stdout, /^20 tasks are in /u, prepared.stderr)
    yield* run(data, ["repos", "add", "acme/toolbox", path.join(data, "toolbox/toolbox")])
    const evaluate = (...more: ReadonlyArray<string>) =>
      node("evaluate.main.ts", "toolbox/tasks.jsonl", "--repo", "acme/toolbox=toolbox/toolbox", "--concurrency", "3", ...more)
    const first = yield* evaluate()
    assert.strictEqual(first.code, 0, first.stderr)
    assert.match(first.stdout, /^14 of 20 solved \(70\.0 %\), \$0\.00 in all, /mu)

    const file = path.join(data, "evaluation/results.jsonl")
    const results = readFileSync(file, "utf8").trim().split("\n").map((line): Result => JSON.parse(line))
    const nameOf = ({ instance_id }: Result) => instance_id.slice("toolbox-".length)
    assert.deepStrictEqual(results.filter(({ solved }) => solved).map(nameOf).sort(), SOLVED)
    const unsolved = results.filter(({ solved }) => !solved)
    assert.deepStrictEqual(Object.fromEntries(unsolved.map((result) => [nameOf(result), result.why])), WHY_NOT)
    const predictions = readFileSync(path.join(data, "evaluation/predictions.jsonl"), "utf8").trim().split("\n")
    assert.lengthOf(predictions, 20)
    assert.lengthOf(new Set(predictions.map((line) => JSON.parse(line).sandbox)), 20)
    assert.include(predictions.map((line) => JSON.parse(line).model_patch).join(""), "+export const sum")

    // Stopped behind eighteen results.
    writeFileSync(file, results.slice(0, 18).map((result) => `${JSON.stringify(result)}\n`).join(""))
    const again = yield* evaluate("--json")
    assert.strictEqual(again.stderr.split("\n").filter((line) => line.includes("solved")).length, 2, again.stderr)
    assert.deepStrictEqual(JSON.parse(again.stdout).map(nameOf).sort(), results.map(nameOf).sort())
    // Their changes were there: no agent worked for them again.
    assert.deepStrictEqual(readFileSync(path.join(data, "evaluation/predictions.jsonl"), "utf8").trim().split("\n"), predictions)
  }), LONG)
