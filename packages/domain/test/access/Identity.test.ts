import { assert, describe, it } from "@effect/vitest"
import type { Action, SecurityEvent } from "@slipway/domain/access/ports/AuditLog"
import { type BoundUser, type Identity, recognize } from "@slipway/domain/access/rules/Identity"
import * as DateTime from "effect/DateTime"

const before = DateTime.makeUnsafe("2026-11-20T00:00:00Z")
const at = DateTime.makeUnsafe("2026-11-22T03:40:00Z")
const fresh = { id: "user_01ARZ3NDEKTSV4RRFFQ69G5FA0", at }
const ada: Identity = { subject: "1", login: "Ada", name: "Ada Lovelace", email: "ada@example.com" }

const user = (last: string, more: Partial<BoundUser>): BoundUser => ({
  id: `user_01ARZ3NDEKTSV4RRFFQ69G5FA${last}`,
  name: "ada",
  email: null,
  githubLogin: null,
  githubId: null,
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
    const added = { id: fresh.id, name: "Ada Lovelace", email: null, githubLogin: "Ada", githubId: "1", createdAt: at, approvedAt: null }
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
