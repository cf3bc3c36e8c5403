import { assert, describe, it } from "@effect/vitest"
import { AS_INVITED, entryOf, type EntryRules, verifiedEmailOf } from "@slipway/domain/access/rules/Entry"

const anybody: EntryRules = { emailDomains: [], claim: null, groupsClaim: "groups", roles: [] }
const ada = { sub: "1", email: "ada@Example.com", email_verified: true }
const refused = (rules: Partial<EntryRules>, claims: Readonly<Record<string, unknown>>) =>
  entryOf({ ...anybody, ...rules }, claims)._tag === "Refused"

describe("a person with an account of OpenID Connect", () => {
  it("enters as an administrator has it, where no rule is set", () => {
    assert.deepStrictEqual(entryOf(anybody, { sub: "1" }), AS_INVITED)
  })

  it("enters by the domain of a verified address, whatever its case, and by no part of a domain", () => {
    const rules = { emailDomains: ["example.com"] }
    assert.isFalse(refused(rules, ada))
    for (
      const claims of [
        { ...ada, email_verified: false },
        { ...ada, email_verified: "true" },
        { sub: "1", email: "ada@example.com" },
        { ...ada, email: undefined },
        { ...ada, email: ["ada@example.com"] },
        { ...ada, email: "ada@evil-example.com" },
        { ...ada, email: "ada@sub.example.com" },
        { ...ada, email: "ada@example.com@evil.test" },
        { ...ada, email: "example.com" },
        { ...ada, email: "a da@example.com" }
      ]
    ) assert.isTrue(refused(rules, claims), JSON.stringify(claims))
  })

  it("enters by a claim with a value, or a list that has it", () => {
    const rules = { claim: { name: "hd", value: "example.com" } }
    for (const hd of ["example.com", ["x", "example.com"]]) assert.isFalse(refused(rules, { sub: "1", hd }))
    for (const hd of [undefined, null, "", "Example.com", { 0: "example.com" }, [["example.com"]]]) {
      assert.isTrue(refused(rules, { sub: "1", hd }), JSON.stringify(hd))
    }
    assert.isFalse(refused({ claim: { name: "employee", value: "true" } }, { sub: "1", employee: true }))
    assert.isTrue(refused({ claim: { name: "constructor", value: "x" } }, { sub: "1" }))
  })

  it("has to satisfy every rule that is set", () => {
    const rules = { emailDomains: ["example.com"], claim: { name: "hd", value: "x" } }
    assert.isTrue(refused(rules, ada))
    assert.isTrue(refused(rules, { sub: "1", hd: "x" }))
    assert.isFalse(refused(rules, { ...ada, hd: "x" }))
  })

  it("has the role with the most rights of all groups, and does not enter without one of them", () => {
    const roles = [{ group: "staff", role: "member" }, { group: "admins", role: "owner" }] as const
    const entry = (groups: unknown) => entryOf({ ...anybody, roles }, { sub: "1", groups })
    assert.deepStrictEqual(entry(["staff"]), { _tag: "InRole", role: "member" })
    assert.deepStrictEqual(entry(["staff", "admins"]), { _tag: "InRole", role: "owner" })
    assert.deepStrictEqual(entry("staff"), { _tag: "InRole", role: "member" })
    for (const groups of [[], undefined, ["Staff"], ["staff "], "staff,admins"]) assert.strictEqual(entry(groups)._tag, "Refused")
    const elsewhere = entryOf({ ...anybody, roles, groupsClaim: "teams" }, { sub: "1", groups: ["staff"], teams: ["admins"] })
    assert.deepStrictEqual(elsewhere, { _tag: "InRole", role: "owner" })
  })

  it("loses a role that groups gave when it is refused, and no other", () => {
    const roles = [{ group: "staff", role: "member" }] as const
    assert.deepInclude(entryOf({ ...anybody, roles }, { sub: "1" }), { leaves: true })
    assert.deepInclude(entryOf({ ...anybody, emailDomains: ["example.com"] }, { sub: "1" }), { leaves: false })
  })

  it("is known by no address that is not verified", () => {
    assert.strictEqual(verifiedEmailOf(ada), "ada@Example.com")
    assert.isNull(verifiedEmailOf({ ...ada, email_verified: 1 }))
    assert.isNull(verifiedEmailOf({ ...ada, email: `${"a".repeat(300)}@example.com` }))
  })
})
