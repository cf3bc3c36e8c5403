import { assert, describe, it } from "@effect/vitest"
import { outcomeOf } from "@slipway/domain/sandbox/rules/Approval"
import { Approval, ApprovalDecision, ApprovalId, Decision } from "@slipway/domain/sandbox/schema/Approval"
import { ApprovalOutcome, ApprovalRequest, ApprovalResolver } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { createdAt } from "@slipway/testing/histories/Histories"
import * as Schema from "effect/Schema"

describe("an approval", () => {
  it("is named by 1 to 300 characters", () => {
    const accepts = Schema.is(ApprovalId)
    assert.deepStrictEqual([0, 1, 300, 301].map((length) => accepts("x".repeat(length))), [false, true, true, false])
  })

  it("is decided by approve or deny, which is all there is", () => {
    assert.deepStrictEqual(Decision.literals, ["approve", "deny"])
    assert.deepStrictEqual(outcomeOf, { approve: "approved", deny: "denied" })
    assert.deepStrictEqual(ApprovalOutcome.literals, ["approved", "denied"])
    assert.deepStrictEqual(ApprovalResolver.literals, ["user", "policy", "timeout", "interrupt", "terminate", "turn_end"])
  })

  it("has neither outcome nor resolver while it is pending, and both in storage afterwards", () => {
    const [read, write] = [Schema.decodeUnknownSync(Approval), Schema.encodeSync(Approval)]
    for (
      const approval of [
        { approvalId: "c", outcome: null, by: null },
        { approvalId: "c", outcome: "denied", by: "timeout" },
        { approvalId: "c", outcome: "denied", by: "user", reason: "Not now." }
      ] as const
    ) {
      assert.deepStrictEqual(read(write(approval)), approval)
    }
    for (const missing of ["approvalId", "outcome", "by"] as const) {
      const { [missing]: _, ...rest } = { approvalId: "c", outcome: null, by: null }
      assert.isFalse(Schema.is(Approval)(rest), missing)
    }
  })

  it.each([
    [true, { decision: "approve" }],
    [true, { decision: "approve", scope: "turn" }],
    [true, { decision: "deny" }],
    [true, { decision: "deny", reason: "n" }],
    [true, { decision: "deny", reason: "n".repeat(2000) }],
    [false, { decision: "deny", reason: "" }],
    [false, { decision: "deny", reason: "n".repeat(2001) }],
    [false, { decision: "deny", scope: "turn" }],
    [false, { decision: "approve", reason: "n" }],
    [false, {}]
  ])("has a scope only if it is approved and a reason only if it is denied: %j, %j", (isValid, decision) => {
    assert.strictEqual(Schema.is(ApprovalDecision)(decision), isValid)
  })

  it("is asked for with its tool and its deadline; kind and paths may be missing", () => {
    const request = { approval_id: "c", tool: "write", expires_at: createdAt }
    const accepts = Schema.is(ApprovalRequest)
    assert.isTrue(accepts(request))
    for (const missing of ["approval_id", "tool", "expires_at"] as const) {
      const { [missing]: _, ...rest } = request
      assert.isFalse(accepts(rest), missing)
    }
  })
})
