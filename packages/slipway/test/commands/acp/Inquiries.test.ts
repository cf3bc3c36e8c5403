/** Approvals, questions and patches as an editor gets them, without a service. */
import { assert, describe, it } from "@effect/vitest"
import type { Question } from "@slipway/client"
import * as Inquiries from "../../../src/commands/acp/Inquiries.ts"
import { fenced, ofPatch } from "../../../src/commands/acp/PatchContent.ts"

const question = (more: Partial<Question> = {}): Question => ({
  id: "db",
  text: "Which database?",
  options: [{ label: "Postgres" }, { label: "SQLite" }],
  multiple: false,
  allows_text: true,
  ...more
})
const request = (...questions: ReadonlyArray<Question>) => ({ question_id: "q", questions, expires_at: "2026-11-30T00:00:00.000Z" })

it("decides as the chosen option says, and not at all by an option that was not offered", () => {
  const decisions = ["approve", "approve_turn", "deny", Inquiries.DENY_WITH_REASON, "allow_always"].map((option) =>
    Inquiries.decisionOf(option, "Not here")
  )
  assert.deepStrictEqual(decisions, [
    { decision: "approve" },
    { decision: "approve", scope: "turn" },
    { decision: "deny", reason: "Not here" },
    { decision: "deny", reason: "Not here" },
    null
  ])
})

describe("the answers of a form", () => {
  it("are one option or own words where the question takes one, and both where it takes several", () => {
    const content = { question_1: "SQLite", question_1_text: " MariaDB ", question_2: ["Postgres", "SQLite"], question_2_text: "both" }
    assert.deepStrictEqual(Inquiries.replyOf(request(question(), question({ id: "all", multiple: true })), content), {
      answers: { db: { text: "MariaDB" }, all: { labels: ["Postgres", "SQLite"], text: "both" } }
    })
    assert.deepStrictEqual(Inquiries.replyOf(request(question()), { question_1: "SQLite" }), { answers: { db: { labels: ["SQLite"] } } })
  })

  it("leave out an option that was not offered, and dismiss the request without any answer", () => {
    assert.deepStrictEqual(Inquiries.replyOf(request(question()), { question_1: "Oracle" }), { dismiss: true })
    assert.deepStrictEqual(Inquiries.replyOf(request(question()), {}), { dismiss: true })
  })
})

describe("the options of an approval", () => {
  const asked = { approval_id: "a", tool: "Run", expires_at: "2026-11-30T00:00:00.000Z" }

  it("cover the rest of the turn only for calls that the service approves so", () => {
    const kinds = (kind: "command" | "other") => Inquiries.optionsOf({ ...asked, kind }, false).map(({ optionId }) => optionId)
    assert.deepStrictEqual(kinds("command"), ["approve", "approve_turn", "deny"])
    assert.deepStrictEqual(kinds("other"), ["approve", "deny"])
  })

  it("decide nothing when an editor names another option", () => {
    assert.isNull(Inquiries.decisionOf("allow_everything"))
    assert.deepStrictEqual(Inquiries.decisionOf("deny_with_reason", "no"), { decision: "deny", reason: "no" })
  })
})

describe("a patch", () => {
  const locate = (path: string) => `/here/${path}`

  it("becomes a comparison for each hunk, also where a removed line looks like a header", () => {
    const patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n--- two\n+++ 2\n@@ -9 +9 @@\n-nine\n+9\n" +
      "diff --git a/y b/y\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    assert.deepStrictEqual(ofPatch(patch, locate), [
      { type: "diff", path: "/here/x", oldText: "one\n-- two\n", newText: "one\n++ 2\n" },
      { type: "diff", path: "/here/x", oldText: "nine\n", newText: "9\n" },
      { type: "diff", path: "/here/y", oldText: "gone\n", newText: "" }
    ])
  })

  it("is text without hunks, in a fence that the text cannot close", () => {
    assert.deepStrictEqual(ofPatch("Binary files differ", locate), [{
      type: "content",
      content: { type: "text", text: "```diff\nBinary files differ\n```" }
    }])
    assert.strictEqual(fenced("a\n```\nb"), "````\na\n```\nb\n````")
  })
})
