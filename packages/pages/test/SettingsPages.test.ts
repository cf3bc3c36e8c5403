/** The pages of the settings as HTML: account, members and audit log; whom they serve and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect } from "effect"
import { browserOf, owner, redirected, textOf, visitorAs } from "../testing/Browser.ts"
import { ask, joined, layer as http, type Reply } from "../testing/Harness.ts"

const HOSTILE = `"'><script>alert(1)</script>`

const isPage = (reply: Reply, status = 200, title?: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
}

/** The members of the owner's organization, by name. */
const membersOf = (organizationId: string) =>
  Effect.map(
    MemberStore.use((store) => store.members(organizationId)),
    (all) => new Map(all.map((member) => [member.user.githubLogin ?? member.user.email ?? member.user.name, member]))
  )
const administrators = Effect.map(Effect.flatMap(MemberStore, (store) => store.owner), ({ organizationId }) => organizationId)

/** An owner of an organization that does not run the service, signed in. */
const ownerElsewhere = Effect.gen(function*() {
  const members = yield* Members
  const name = yield* (yield* Ids).uuid7
  const { organization } = yield* members.createOrganization(name)
  const { user } = yield* members.add(organization.id, `owner-${name}@example.com`, "owner")
  yield* members.approve(user.id)
  const { grant } = yield* (yield* Access).createGrant(name, organization.id)
  return { organizationId: organization.id, ...(yield* browserOf(user.id, grant.id)) }
})

layer(http(), { excludeTestServices: true })("the settings", (it) => {
  it.effect("list their pages beside each of them, with those for owners to owners alone", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const member = yield* visitorAs(yield* joined("grace"))
      for (const path of ["/settings", "/keys", "/members", "/repositories", "/secrets", "/webhooks", "/automations", "/audit", "/usage"]) {
        const page = yield* mine.get(path)
        isPage(page)
        assert.include(page.text, `<a href="${path}" aria-current="page">`)
        assert.include(page.text, `<nav aria-label="Settings">`)
        redirected(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
      }
      const seen = (yield* member.get("/settings")).text
      for (const path of ["/settings", "/keys", "/members", "/repositories"]) assert.include(seen, `<a href="${path}"`)
      for (const path of ["/secrets", "/automations", "/audit", "/usage"]) {
        assert.notInclude(seen, `<a href="${path}"`)
        isPage(yield* member.get(path), 403)
      }
    }))

  it.effect("show an account with its role and its sign-outs", () =>
    Effect.gen(function*() {
      const page = yield* (yield* visitorAs(yield* joined("ada"))).get("/settings")
      isPage(page, 200, "Account")
      assert.match(textOf(page), /Name ada .*Role member .*Sign out here Sign out everywhere/u)
    }))
})

layer(http(), { excludeTestServices: true })("the members page", (it) => {
  it.effect("lets an owner add a person, who may sign in at once where owners run the service", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const organizationId = yield* administrators
      redirected(yield* mine.post("/members", { user: " New-Login ", role: "owner" }), "/members?done=added")
      redirected(yield* mine.post("/members", { user: "new@example.com", role: "member" }), "/members?done=added")
      const members = yield* membersOf(organizationId)
      assert.deepStrictEqual([members.get("New-Login")?.role, members.get("new@example.com")?.role], ["owner", "member"])
      assert.isNotNull(members.get("New-Login")?.user.approvedAt ?? null)
      const page = yield* mine.get("/members?done=added")
      isPage(page, 200, "Members")
      assert.match(textOf(page), /Member added\..*New-Login .*Owner Active Make member Make viewer Remove…/u)
    }))

  it.effect("approves no person whose approval was withdrawn, and none for an organization that does not run the service", () =>
    Effect.gen(function*() {
      const members = yield* Members
      const mine = yield* owner
      const { id } = yield* members.user(yield* joined("withdrawn"))
      yield* members.disapprove(id)
      redirected(yield* mine.post("/members", { user: id, role: "member" }), "/members?done=waiting")
      const elsewhere = yield* ownerElsewhere
      redirected(yield* elsewhere.post("/members", { user: "stranger@example.com", role: "member" }), "/members?done=waiting")
      const all = yield* membersOf(elsewhere.organizationId)
      assert.isNull(all.get("stranger@example.com")?.user.approvedAt)
      assert.isNull((yield* members.user(id)).approvedAt)
      assert.include(textOf(yield* elsewhere.get("/members")), "Waiting for approval")
    }))

  it.effect("lets an owner change another's role, remove a member and add that member again", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const organizationId = yield* administrators
      const user = yield* joined("linus")
      const found = Effect.map(MemberStore.use((store) => store.members(organizationId)), (all) => all.find((one) => one.user.id === user))
      redirected(yield* mine.post("/members/role", { user, role: "owner" }), "/members?done=role")
      assert.strictEqual((yield* found)?.role, "owner")
      const asked = yield* mine.get(`/members/remove?user=${user}`)
      isPage(asked, 200)
      assert.include(textOf(asked), "Remove linus?")
      redirected(yield* mine.post("/members/remove", { user }), "/members?done=removed")
      assert.isFalse((yield* found)?.active)
      redirected(yield* mine.post("/members/role", { user, role: "member" }), "/members?done=role")
      assert.deepInclude(yield* found, { role: "member", active: true })
    }))

  it.effect("refuses what is no person or no role, and changes of one's own membership", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { userId } = yield* (yield* MemberStore).owner
      const before = yield* membersOf(yield* administrators)
      for (const user of ["", "two words", HOSTILE, "a".repeat(300), "-x"]) {
        const reply = yield* mine.post("/members", { user, role: "member" })
        isPage(reply, 400, "Members")
        assert.include(textOf(reply), "Enter a GitHub login or an e-mail address.")
      }
      isPage(yield* mine.post("/members", { user: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV", role: "member" }), 404)
      for (const role of ["", "admin", "Owner"]) isPage(yield* mine.post("/members", { user: "someone", role }), 400)
      isPage(yield* mine.post("/members", { user: userId, role: "member" }), 409)
      isPage(yield* mine.post("/members/role", { user: userId, role: "member" }), 409)
      isPage(yield* mine.post("/members/remove", { user: userId }), 409)
      for (const user of ["", HOSTILE, "user_01ARZ3NDEKTSV4RRFFQ69G5FAV"]) {
        isPage(yield* mine.post("/members/remove", { user }), 404)
        isPage(yield* mine.get(`/members/remove?user=${encodeURIComponent(user)}`), 404)
      }
      assert.deepStrictEqual(yield* membersOf(yield* administrators), before)
    }))

  it.effect("shows members to a member, without forms, and takes none from one or from another site", () =>
    Effect.gen(function*() {
      const member = yield* visitorAs(yield* joined("grace"))
      const page = yield* member.get("/members")
      isPage(page, 200, "Members")
      assert.notInclude(page.text, "<button class=\"quiet\" aria-label=")
      const user = yield* joined("other")
      for (const path of ["/members", "/members/role", "/members/remove"]) {
        isPage(yield* member.post(path, { user, role: "member" }), 403, "Only owners can change members")
        isPage(yield* (yield* owner).post(path, { user, role: "owner", csrf: "x" }), 403)
      }
    }))

  it.effect("never shows or changes members of another organization", () =>
    Effect.gen(function*() {
      const elsewhere = yield* ownerElsewhere
      const user = yield* joined("outsider")
      assert.notInclude((yield* elsewhere.get("/members")).text, "outsider")
      isPage(yield* elsewhere.post("/members/remove", { user }), 404)
      isPage(yield* elsewhere.post("/members/role", { user, role: "owner" }), 404)
    }))
})

layer(http(), { excludeTestServices: true })("the audit page", (it) => {
  it.effect("shows an owner what happened, by name, newest first, and filters it", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* mine.post("/members", { user: "first-one", role: "member" })
      yield* mine.post("/members", { user: "second-one", role: "member" })
      const page = yield* mine.get("/audit?days=1&action=member.added")
      isPage(page, 200, "Audit")
      assert.match(textOf(page), /member\.added .* second-one .*member\.added .* first-one/u)
      const rows = page.text.slice(page.text.indexOf("<tbody>"))
      assert.notInclude(rows, "key.minted")
      assert.include((yield* mine.get("/audit")).text.split("<tbody>")[1] ?? "", "key.minted")
    }))

  it.effect("shows nothing of another organization", () =>
    Effect.gen(function*() {
      const elsewhere = yield* ownerElsewhere
      const mine = yield* owner
      yield* mine.post("/members", { user: "private-one", role: "member" })
      const page = yield* elsewhere.get("/audit")
      isPage(page, 200)
      assert.notInclude(page.text, "private-one")
      assert.notInclude(page.text, mine.grantId)
      assert.include(page.text, elsewhere.grantId)
      // Nor of a person who belongs to none of its members: what happened to them names no organization and no grant.
      const { id } = yield* (yield* Members).user("private-one")
      assert.include((yield* mine.get("/audit?action=user.approved")).text, "private-one")
      assert.notInclude(page.text, id)
    }))

  it.effect("refuses an unknown filter", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      for (const query of ["days=2", "days=", "action=key", `action=${encodeURIComponent(HOSTILE)}`]) {
        isPage(yield* mine.get(`/audit?${query}`), 400)
      }
    }))
})
