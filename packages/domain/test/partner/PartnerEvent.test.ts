import { assert, describe, it } from "@effect/vitest"
import { naturalId, PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import * as Schema from "effect/Schema"

const claimId = "0192f5a0-5c3e-7b1c-9b7e-2f4a8c6d1e00"
const at = "2026-11-21T02:41:00.123Z"
const lead = { claimId, leadId: "lead-1", variant: "a" }
const claim = { ...lead, creditAmount: 500, createdAt: at }
const attributed = { ...lead, occurredAt: at }

/** One fact of every type as it is on the wire (docs/interface.md 2.7), and what it is about. */
const samples = [
  [{ type: "credit_claim.created", data: { ...claim, status: "pending", claimedAt: null } }, claimId],
  [{ type: "credit_claim.claimed", data: { ...claim, status: "claimed", claimedAt: at } }, claimId],
  [{ type: "project.connected", data: { ...attributed, projectId: "project-1" } }, "project-1"],
  [{ type: "task.started", data: { ...attributed, taskId: "task-1", projectId: null } }, "task-1"],
  [{ type: "pull_request.opened", data: { ...attributed, pullRequestId: "pr-1", taskId: "task-1", projectId: "project-1" } }, "pr-1"],
  [{ type: "conversion.paid", data: { ...attributed, conversionId: "conversion-1" } }, "conversion-1"]
] as const
const recorded = { id: "0192f5a0-5c3e-7b1c-9b7e-2f4a8c6d1e01", sequence: 1, createdAt: at }

const decodeFact = Schema.decodeUnknownSync(PartnerFact)
const reads = <T, E>(schema: Schema.Codec<T, E>, value: unknown): E | "refused" => {
  try {
    return Schema.encodeSync(schema)(Schema.decodeUnknownSync(schema)(value))
  } catch {
    return "refused"
  }
}
const without = (value: object, key: string) => Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))

describe("a fact", () => {
  it.each(samples)("of %o is read and written with all of its fields, and needs each", (sample) => {
    assert.deepStrictEqual(reads(PartnerFact, sample), sample)
    for (const key of Object.keys(sample)) assert.strictEqual(reads(PartnerFact, without(sample, key)), "refused", key)
    for (const key of Object.keys(sample.data)) {
      assert.strictEqual(reads(PartnerFact, { ...sample, data: without(sample.data, key) }), "refused", key)
    }
  })

  it.each(samples)("of %o is about %s", (sample, id) => assert.strictEqual(naturalId(decodeFact(sample)), id))

  it("of a claim says whether it is claimed, and when exactly then", () => {
    const [[created], [claimed]] = samples
    for (const data of [{ ...created.data, claimedAt: at }, { ...created.data, status: "claimed" }]) {
      assert.strictEqual(reads(PartnerFact, { ...created, data }), "refused")
    }
    for (const data of [{ ...claimed.data, claimedAt: null }, { ...claimed.data, status: "pending" }]) {
      assert.strictEqual(reads(PartnerFact, { ...claimed, data }), "refused")
    }
  })

  it("names its claim by a UUID, and lead and variant by 1 to 200 characters", () => {
    const [sample] = samples[2]
    const accepts = (more: object) => reads(PartnerFact, { ...sample, data: { ...sample.data, ...more } }) !== "refused"
    assert.isFalse(accepts({ claimId: "claim-1" }))
    for (const key of ["leadId", "variant"]) {
      assert.deepStrictEqual([0, 1, 200, 201].map((length) => accepts({ [key]: "x".repeat(length) })), [false, true, true, false], key)
    }
  })

  it("credits a whole number from 1 to 2^53−1", () => {
    const [sample] = samples[0]
    const accepts = (creditAmount: unknown) => reads(PartnerFact, { ...sample, data: { ...sample.data, creditAmount } }) !== "refused"
    assert.deepStrictEqual([1, Number.MAX_SAFE_INTEGER].map(accepts), [true, true])
    assert.deepStrictEqual([0, -1, 1.5, Number.MAX_SAFE_INTEGER + 1, "1"].map(accepts), [false, false, false, false, false])
  })

  it("of another type is invalid", () => {
    assert.strictEqual(reads(PartnerFact, { ...samples[5][0], type: "invoice.paid" }), "refused")
  })
})

describe("an event of the feed", () => {
  it.each(samples)("of %o has its place in the feed beside the fact", (sample) => {
    const event = { ...recorded, ...sample }
    assert.deepStrictEqual(reads(PartnerEvent, event), event)
    for (const key of Object.keys(recorded)) assert.strictEqual(reads(PartnerEvent, without(event, key)), "refused", key)
  })

  it("has a UUID, and a sequence from 1", () => {
    const accepts = (more: object) => reads(PartnerEvent, { ...recorded, ...samples[5][0], ...more }) !== "refused"
    assert.isFalse(accepts({ id: "event-1" }))
    assert.deepStrictEqual([0, 1, 2, 1.5].map((sequence) => accepts({ sequence })), [false, true, true, false])
  })
})
