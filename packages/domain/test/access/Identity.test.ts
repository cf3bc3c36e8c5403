import { assert, describe, it } from "@effect/vitest"
import type { Action, SecurityEvent } from "@slipway/domain/access/ports/AuditLog"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import { type BoundUser, type Identity, recognize } from "@slipway/domain/access/rules/Identity"
import * as DateTime from "effect/DateTime"

const before = DateTime.makeUnsafe("2026-11-20T00:00:00Z")
const at = DateTime.makeUnsafe("2026-11-22T03:40:00Z")
const fresh = { id: "user_01ARZ3NDEKTSV4RRFFQ69G5FA0", at }
const ada: Identity = { provider: "github", entry: AS_INVITED, subject: "1", login: "Ada", name: "Ada Lovelace", email: "ada@example.com" }

const user = (last: string, more: Partial<BoundUser>): BoundUser => ({
  id: `user_01ARZ3NDEKTSV4RRFFQ69G5FA${last}`,
  name: "ada",
  email: null,
  githubLogin: null,
  githubId: null,
  oidcSubject: null,
  createdAt: before,
  approvedAt: before,
  ...more
})
const nobody = { bySubject: null, byLogin: null }
const event = (action: Action, userId: string, githubId?: string): SecurityEvent => ({
  action,
  at,
  subjects: { userId, ...(githubId === undefined ? {} : { githubId }) }
})

describe("somebody who signs in with GitHub", () => {
  it("is the user with their id, and nothing changes", () => {
    const known = user("1", { githubId: "1", githubLogin: "Ada" })
    assert.deepStrictEqual(recognize(ada, { bySubject: known, byLogin: known }, fresh), { user: known, without: null, events: [] })
  })

  it("keeps being the same user under another login, or the same in other letters", () => {
    for (
      const [githubLogin, byLogin] of [["countess", null], ["ada", user("1", { githubId: "1", githubLogin: "ada" })], [null, null]] as const
    ) {
      const known = user("1", { githubId: "1", githubLogin })
      assert.deepStrictEqual(recognize(ada, { bySubject: known, byLogin }, fresh), {
        user: { ...known, githubLogin: "Ada" },
        without: null,
        events: [event("user.renamed", known.id)]
      })
    }
  })

  it("is the user an administrator added with the login, if no account signed in as that user yet; approval and name stay", () => {
    const invited = user("1", { githubLogin: "ada" })
    assert.deepStrictEqual(recognize(ada, { bySubject: null, byLogin: invited }, fresh), {
      user: { ...invited, githubId: "1", githubLogin: "Ada" },
      without: null,
      events: [event("user.bound", invited.id, "1")]
    })
  })

  it("is a new user else, not approved, and without the address of a profile, which proves nothing", () => {
    const added = user("0", { name: "Ada Lovelace", githubLogin: "Ada", githubId: "1", createdAt: at, approvedAt: null })
    assert.deepStrictEqual(recognize(ada, nobody, fresh), { user: added, without: null, events: [event("user.added", fresh.id, "1")] })
  })

  it("is a new user with a login that was another's, who has none from then on", () => {
    const former = user("1", { githubId: "2", githubLogin: "ada" })
    const { events, user: added, without } = recognize(ada, { bySubject: null, byLogin: former }, fresh)
    assert.deepInclude(added, { id: fresh.id, githubId: "1", approvedAt: null })
    assert.deepStrictEqual(without, { ...former, githubLogin: null })
    assert.deepStrictEqual(events, [event("user.renamed", former.id), event("user.added", fresh.id, "1")])
  })

  it("never becomes a second user by taking a login, whether that one is bound or only invited", () => {
    const known = user("1", { githubId: "1", githubLogin: "countess" })
    for (const githubId of ["2", null]) {
      const other = user("2", { githubId, githubLogin: "ada", approvedAt: before })
      assert.deepStrictEqual(recognize(ada, { bySubject: known, byLogin: other }, fresh), {
        user: { ...known, githubLogin: "Ada" },
        without: { ...other, githubLogin: null },
        events: [event("user.renamed", other.id), event("user.renamed", known.id)]
      })
    }
  })
})

describe("somebody who signs in with OpenID Connect", () => {
  const login = "Ada@Example.com"
  const grace: Identity = { provider: "oidc", entry: AS_INVITED, subject: "https://id.test 1", login, name: "Ada", email: login }
  const oidcSubject = grace.subject

  it("is the user an administrator added with the verified address, if no account of the provider signed in as that user yet", () => {
    const invited = user("1", { email: "ada@example.com", githubId: "7" })
    assert.deepStrictEqual(recognize(grace, { bySubject: null, byLogin: invited }, fresh), {
      user: { ...invited, oidcSubject, email: login },
      without: null,
      events: [{ action: "user.bound", at, subjects: { userId: invited.id, oidcSubject } }]
    })
  })

  it("takes the address over from another account that had it, and never its user", () => {
    const former = user("1", { email: "ada@example.com", oidcSubject: "https://id.test 2" })
    const { user: added, without } = recognize(grace, { bySubject: null, byLogin: former }, fresh)
    assert.deepInclude(added, { id: fresh.id, email: login, oidcSubject, approvedAt: null })
    assert.deepStrictEqual(without, { ...former, email: null })
  })

  it("keeps the address by which they were added when the provider has verified none", () => {
    const known = user("1", { email: "ada@example.com", oidcSubject })
    assert.deepStrictEqual(recognize({ ...grace, login: null }, { bySubject: known, byLogin: null }, fresh), {
      user: known,
      without: null,
      events: []
    })
  })
})
