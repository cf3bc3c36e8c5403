import { assert, describe, it } from "@effect/vitest"
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import { noChecks, sandboxOf, withoutText } from "@slipway/domain/source/schema/PullRequest"

describe("a pull request", () => {
  it.each(
    [
      [{ state: "open", draft: true, merged: false }, "draft"],
      [{ state: "open", draft: false, merged: false }, "open"],
      [{ state: null, draft: null, merged: null }, "open"],
      [{ state: "closed", draft: true, merged: false }, "closed"],
      [{ state: "closed", draft: false, merged: null }, "closed"],
      [{ state: "closed", draft: true, merged: true }, "merged"]
    ] as const
  )("of %j is in one word %s", (pull, word) => assert.strictEqual(pullStateOf(pull), word))

  it("without checks says so", () => {
    assert.deepStrictEqual(noChecks, { label: "No checks", runs: [], checkRuns: [], state: "idle" })
  })

  it("shows a comment in lists without its text and its place in the code", () => {
    const listed = { id: 1, title: "a.ts", author: "ada", authorAvatarUrl: "u", createdAt: "c", updatedAt: "d", url: "p" }
    assert.deepStrictEqual(withoutText({ ...listed, text: "Why?", isWhole: true, path: "a.ts", line: 3 }), listed)
  })

  it.each(["slipway/c_k3v9p2m7x4qa", "slipway/c_k3v9p2m7x4qa-2", "slipway/c_k3v9p2m7x4qa-123456"])(
    "of the branch %s is of the sandbox",
    (branch) => assert.strictEqual(sandboxOf(branch), "c_k3v9p2m7x4qa")
  )

  it.each([
    "main",
    "feature/c_k3v9p2m7x4qa",
    "slipway/c_k3v9p2m7x4qa-",
    "slipway/c_k3v9p2m7x4qa-x",
    "slipway/c_k3v9p2m7x4qa-1234567",
    "slipway/c_k3v9-1p2m7x4qa",
    "slipway/c_k3v9p2m7x4q"
  ])("of the branch %s is of no sandbox", (branch) => assert.isUndefined(sandboxOf(branch)))
})
