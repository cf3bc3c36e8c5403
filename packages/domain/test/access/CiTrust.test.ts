import { assert, describe, it } from "@effect/vitest"
import { CiClaims, ciKeyLabel, fits } from "@slipway/domain/access/rules/CiTrust"
import { CiIssuer, type CiTrust } from "@slipway/domain/access/schema/CiTrust"
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"

const trust: CiTrust = {
  id: "0192f5a0-5c3e-7b1c-9b7e-2f4a8c6d1e01",
  grantId: "0192f5a0-5c3e-7b1c-9b7e-2f4a8c6d1e02",
  userId: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV",
  issuer: "https://gitlab.example.com",
  audience: "https://slipway.example.com",
  claims: { project_path: "acme/web", ref: "main", ref_type: "branch" },
  scopes: ["sandboxes"],
  createdAt: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
}
const claims = {
  iss: trust.issuer,
  aud: trust.audience,
  project_path: "acme/web",
  ref: "main",
  ref_type: "branch",
  pipeline_id: 4711
}

describe("CiTrust", () => {
  it("fits a token with its issuer, its audience and all of its claims", () => {
    assert.isTrue(fits(trust, claims))
    assert.isTrue(fits(trust, { ...claims, aud: ["other", trust.audience], more: true }))
    for (const name of ["iss", "aud", "project_path", "ref", "ref_type"]) {
      for (const value of [undefined, null, "", "other", ["acme/web", "main", "branch"], true, 1, {}]) {
        assert.isFalse(fits(trust, { ...claims, [name]: value }), `${name} ${String(value)}`)
      }
    }
  })

  it("compares exactly, without patterns and inherited properties", () => {
    assert.isFalse(fits({ ...trust, claims: { project_path: "acme/*" } }, claims))
    assert.isFalse(fits(trust, Object.create(claims)))
  })

  it("names a run's key in one line of visible text of a bounded length", () => {
    assert.strictEqual(ciKeyLabel({ repository: "acme/web", ref: "refs/heads/main", run_id: "4711" }), "ci: acme/web refs/heads/main 4711")
    assert.strictEqual(ciKeyLabel(claims), "ci: acme/web main 4711")
    assert.strictEqual(ciKeyLabel({ repository: "acme/w\u202eb\n\0", ref: ["x"] }), "ci: acme/w?b??")
    assert.isAtMost(ciKeyLabel({ repository: "x".repeat(9000), ref: "x".repeat(9000), run_id: "1".repeat(9000) }).length, 310)
  })

  it("has a claim that names the repository, and no more than ten", () => {
    const isValid = Schema.is(CiClaims)
    for (const name of ["repository", "repository_id", "project_path", "project_id"]) assert.isTrue(isValid({ [name]: "1", ref: "main" }))
    for (const invalid of [{}, { ref: "main" }, { repository: "" }, { repository: "acme/web", "Ref ": "main" }, { repository: "a\0b" }]) {
      assert.isFalse(isValid(invalid), JSON.stringify(invalid))
    }
    const more = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`claim_${i}`, "x"]))
    assert.isFalse(isValid({ repository: "acme/web", ...more }))
  })

  it("has an issuer that is an address without a query and secrets", () => {
    const isValid = Schema.is(CiIssuer)
    for (const issuer of ["https://token.actions.githubusercontent.com", "https://gitlab.example.com:8443/sub"]) {
      assert.isTrue(isValid(issuer))
    }
    for (
      const issuer of ["", "gitlab.example.com", "file:///etc/passwd", "https://a:b@x.example", "https://x.example/?a",
        "https://x.example/#a"]
    ) {
      assert.isFalse(isValid(issuer), issuer)
    }
  })
})
