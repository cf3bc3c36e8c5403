import { deepEqual, equal, rejects, throws } from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { after, before, test } from "node:test"
import { filesOf, resultsOf, score } from "../src/Score.ts"
import { parseTask, type Task } from "../src/Task.ts"

const folder = mkdtempSync(path.join(tmpdir(), "evaluation-test-"))
let tasks: ReadonlyArray<Task> = []
before(() => {
  execFileSync(process.execPath, [path.join(import.meta.dirname, "../src/prepare.main.ts"), folder])
  tasks = readFileSync(path.join(folder, "tasks.jsonl"), "utf8").trim().split("\n").map(parseTask)
})
after(() => rmSync(folder, { recursive: true, force: true }))

const taskOf = (name: string): Task =>
  tasks.find(({ instance_id }) => instance_id === `toolbox-${name}`) ?? (() => {
    throw new Error(name)
  })()
const scored = (task: Task, patch: string) =>
  score(task, patch, { addressOf: () => path.join(folder, "toolbox"), testCommand: undefined, runIn: [], minutes: 1 })
const patchOf = (file: string, from: string, to: string) => `--- a/${file}\n+++ b/${file}\n@@ -1 +1 @@\n-${from}\n+${to}\n`

test("a patch that mends the tests solves its task, unless it breaks another test", async () => {
  const faulty = "export const sum = (numbers) => numbers.reduce((a, b) => a + b)"
  const patched = (to: string) => scored(taskOf("sum"), patchOf("src/sum.mjs", faulty, to))
  deepEqual(await patched("export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)"), { solved: true, why: "" })
  deepEqual(await patched("export const sum = () => 0"), { solved: false, why: "broke: sum: keeps what it does" })
  deepEqual(await patched("export const sum = (numbers) => numbers[0]"), { solved: false, why: "fails: sum: is fixed" })
  deepEqual(await patched("process.exit(0)"), { solved: false, why: "fails: sum: is fixed" })
})

test("a patch cannot bring tests of its own, and solves nothing if it does not apply", async () => {
  const { why } = await scored(
    taskOf("sum"),
    patchOf("test/sum.test.mjs", "import { deepEqual, equal } from \"node:assert/strict\"", "// gone")
  )
  equal(why, "fails: sum: is fixed")
  equal((await scored(taskOf("sum"), patchOf("src/none.mjs", "a", "b"))).why, "the patch does not apply")
  equal((await scored(taskOf("sum"), "")).why, "no changes")
  await rejects(scored({ ...taskOf("sum"), base_commit: "0".repeat(40) }, "x"), /cannot be had/u)
})

test("results are read from TAP and from pytest", () => {
  deepEqual([...resultsOf("TAP version 13\nok 1 - a b\n    not ok 2 - c # todo\nok 3 - c\n# pass 2")], [["a b", true], ["c", false]])
  deepEqual([...resultsOf("PASSED t/x.py::a\nFAILED t/x.py::b - assert 0\nXFAIL t/x.py::c")], [["t/x.py::a", true], ["t/x.py::b", false], [
    "t/x.py::c",
    true
  ]])
  deepEqual(filesOf("--- a/x y\t\n+++ b/x y\t\n--- /dev/null\n+++ b/z\n"), ["x y", "z"])
})

test("lists may be JSON in a text, as SWE-bench has them, and mistakes are named", () => {
  const row = { ...taskOf("sum"), FAIL_TO_PASS: JSON.stringify(["a"]), PASS_TO_PASS: "[]" }
  deepEqual(parseTask(JSON.stringify(row)).FAIL_TO_PASS, ["a"])
  for (const wrong of [{ instance_id: "../x" }, { base_commit: "main" }, { repo: 1 }, { FAIL_TO_PASS: "{}" }]) {
    throws(() => parseTask(JSON.stringify({ ...row, ...wrong })))
  }
})
