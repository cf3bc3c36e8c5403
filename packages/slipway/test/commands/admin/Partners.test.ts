import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { folder, run, serve } from "../SlipwayProcess.ts"

const claimId = "0197f1a0-0000-7000-8000-000000000001"

describe("slipway partners", () => {
  it.live("tells by hand what sign-up and billing tell, and shows what became of it", () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* serve(data)
      const partners = (...args: ReadonlyArray<string>) => run(data, ["partners", ...args])
      const asJson = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
        const ended = yield* partners(...args, "--json")
        assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], ended.stdout)
        return JSON.parse(ended.stdout)
      })
      const { id: grantId, organizationId } = JSON.parse((yield* run(data, ["grants", "create", "acme", "--json"])).stdout)
      const who = ["--recipient", "user_1", "--organization", organizationId]
      const later = ["--at", "2190-01-01T00:00:00.000Z"]

      const offer = ["claims", "create", "--grant", "acme", "--lead", "lead-1", "--variant", "b", "--id", claimId, "--credits"]
      assert.deepInclude(yield* asJson(...offer, "500"), { claimId, grantId, creditAmount: 500, status: "pending", claimedAt: null })
      assert.strictEqual(
        (yield* partners(...offer, "500")).stdout,
        `Claim ${claimId} of grant acme is made: 500 credits, as was known already.\n`
      )
      assert.deepInclude(yield* asJson("claims", "claim", claimId, ...who), { status: "claimed", recipientId: "user_1", organizationId })
      assert.deepInclude(yield* asJson("projects", "connect", "p", ...who, "--repo", "acme/shop", ...later), {
        projectId: "p",
        repo: "acme/shop"
      })
      assert.strictEqual(
        (yield* partners(
          "invoices",
          "paid",
          "in_1",
          "--organization",
          organizationId,
          "--amount-minor",
          "1900",
          "--currency",
          "EUR",
          ...later
        )).stdout,
        "Invoice in_1 is paid.\n"
      )

      assert.deepStrictEqual(
        (yield* asJson("events", "acme", "--after", "1")).map(({ sequence, type }: { sequence: number; type: string }) => [sequence, type]),
        [
          [2, "credit_claim.claimed"],
          [3, "project.connected"],
          [4, "conversion.paid"]
        ]
      )
      const { balance, charges, movements } = yield* asJson("balance", organizationId)
      assert.deepStrictEqual([balance, movements.map(({ claimId, credits }: { claimId: string; credits: number }) => [claimId, credits]),
        charges], [500, [[claimId, 500]], []])
      assert.include((yield* partners("claims", "list", "--grant", "acme")).stdout, claimId)

      const refused: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [[...offer, "501"], `slipway: Claim ${claimId} is known already, with other values.\n`],
        [["claims", "claim", grantId, ...who], `slipway: There is no claim ${grantId}.\n`],
        [["events", "unknown"], "slipway: There is no grant unknown.\n"]
      ]
      for (const [args, told] of refused) assert.deepStrictEqual(yield* partners(...args), { code: 1, stdout: "", stderr: told })
      const misspelt = yield* partners(...offer, "0")
      assert.deepStrictEqual([misspelt.code, misspelt.stderr.includes("credits")], [1, true], misspelt.stderr)
    }).pipe(Effect.scoped))
})
