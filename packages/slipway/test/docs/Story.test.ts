/** The story of docs/feedback.md, told again by `examples/feedback`. */
import { assert, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../../../..")

it("docs/feedback.md has what examples/feedback prints", () => {
  const page = readFileSync(path.join(root, "docs/feedback.md"), "utf8")
  const [, shown] = /^```text\n(.*?)^```$/msu.exec(page) ?? []
  const told = execFileSync(process.execPath, [path.join(root, "examples/feedback/story.ts")], { encoding: "utf8", cwd: root })
  assert.deepStrictEqual(told.trim().split("\n"), shown?.trim().split("\n"))
}, 900_000)
