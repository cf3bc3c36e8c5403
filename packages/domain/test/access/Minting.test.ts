import { assert, describe, it } from "@effect/vitest"
import { decide, KeysPerUser, mayRevoke, mayUse, MintRefused, rightsOf } from "@slipway/domain/access/rules/Minting"
import type { Member, Role } from "@slipway/domain/access/rules/User"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"

const now = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const user = { id: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV", name: "Ada", email: null, githubLogin: "ada", createdAt: now, approvedAt: now }
const memberAs = (role: Role): Member => ({ user, role, active: true })

type Given = Parameters<typeof decide>[0]
const given: Given = { by: "person", member: memberAs("member"), organization: { suspendedAt: null }, scopes: ["sandboxes"], life: null }
const decided = (more: Partial<Given>) => {
  const result = decide({ ...given, ...more }, now)
  return Result.isSuccess(result) ? result.success : result.failure.because
}

describe("a key is minted", () => {
  it("for an approved user who is an active member of an organization that is not suspended", () => assert.isNull(decided({})))

  it("for no other user, by any minter", () => {
    for (const by of ["person", "operator"] as const) {
      assert.strictEqual(decided({ by, member: { ...memberAs("owner"), user: { ...user, approvedAt: null } } }), "not_approved")
      assert.strictEqual(decided({ by, member: { ...memberAs("owner"), active: false } }), "not_a_member")
      assert.strictEqual(decided({ by, member: null }), "not_a_member")
      assert.strictEqual(decided({ by, organization: { suspendedAt: now } }), "suspended")
    }
  })

  const all: ReadonlyArray<Scope> = ["sandboxes", "partner:ingest", "webhooks", "secrets", "metrics:read", "models", "automations"]
  it.each([
    ["viewer", ["sandboxes"]],
    ["member", ["sandboxes"]],
    ["owner", ["sandboxes", "webhooks", "secrets", "automations"]]
  ] as ReadonlyArray<readonly [Role, ReadonlyArray<Scope>]>)("by a person in the role %s with %j at most", (role, mayGive) => {
    const member = memberAs(role)
    assert.isNull(decided({ member, scopes: [] }))
    assert.isNull(decided({ member, scopes: mayGive }))
    for (const scope of all) assert.strictEqual(decided({ member, scopes: [scope] }), mayGive.includes(scope) ? null : "scope")
    assert.strictEqual(decided({ member, scopes: all }), "scope")
  })

  it("by an operator with any scope, whatever the user's role", () => assert.isNull(decided({ by: "operator", scopes: all })))

  it("to live from a millisecond to 366 days, or until it is revoked", () => {
    const dayInMillis = 86_400_000
    for (const millis of [1, dayInMillis, 366 * dayInMillis]) {
      assert.deepStrictEqual(decided({ life: Duration.millis(millis) }), DateTime.add(now, { milliseconds: millis }))
    }
    assert.strictEqual(decided({ life: Duration.zero }), "already_expired")
    assert.strictEqual(decided({ life: Duration.millis(366 * dayInMillis + 1) }), "expires_too_late")
  })

  it("up to a hundred times for one user, unless the service is told otherwise", () => {
    assert.strictEqual(KeysPerUser.defaultValue(), 100)
    assert.match(new MintRefused({ because: "too_many_keys" }).message, /as many valid keys .* Revoke an unused key\.$/u)
  })

  it("or refused in words that say what to do", () => {
    const messages = [{ member: null }, { organization: { suspendedAt: now } }, { scopes: all }, { life: Duration.zero }, {
      life: Duration.days(400)
    }, { member: { ...memberAs("member"), user: { ...user, approvedAt: null } } }].map((more) => {
      const result = decide({ ...given, ...more }, now)
      return Result.isFailure(result) && result.failure._tag === "MintRefused" ? result.failure.message : ""
    })
    assert.strictEqual(new Set(messages).size, messages.length)
    for (
      const [i, words] of ["active member", "orgs resume", "more than the user may give", "already", "366 days", "users approve"].entries()
    ) {
      assert.include(messages[i], words)
    }
  })
})

it.each(
  [
    ["member", "ada", true],
    ["member", "bob", false],
    ["owner", "ada", true],
    ["owner", "bob", true]
  ] as const
)("ada as %s may revoke a key of %s: %j", (role, userId, may) => {
  assert.strictEqual(mayRevoke({ userId: "ada", role }, { userId }), may)
})

describe("the rights of a key", () => {
  it("are its scopes, but those of a viewer's key only read sandboxes", () => {
    const scopes: ReadonlyArray<Scope> = ["sandboxes", "webhooks"]
    for (const role of ["owner", "member"] as const) assert.deepStrictEqual(rightsOf(role, scopes), new Set(scopes))
    assert.deepStrictEqual(rightsOf("viewer", scopes), new Set(["sandboxes:read"]))
    assert.deepStrictEqual(rightsOf("viewer", ["webhooks"]), new Set())
  })

  it("open what needs their scope, and reading alone what changes nothing", () => {
    const may = (changes: boolean) => (scope: Scope) => mayUse(rightsOf("viewer", ["sandboxes", "webhooks"]), scope, changes)
    assert.deepStrictEqual((["sandboxes", "webhooks"] as const).map(may(false)), [true, false])
    assert.deepStrictEqual((["sandboxes", "webhooks"] as const).map(may(true)), [false, false])
    assert.isTrue(mayUse(new Set(["sandboxes"]), "sandboxes", true))
  })
})
