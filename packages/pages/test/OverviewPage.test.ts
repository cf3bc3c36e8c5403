/** The overview: what waits first, and whose it is. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { textOf, visitorIn } from "../testing/Browser.ts"
import { ask, create, drive, layer as http, running } from "../testing/Harness.ts"

const HOSTILE = `</text></title><script>alert("1")</script>'&`

const asking = Effect.fnUntraced(function*(key: string, title: string) {
  const { id, turn } = yield* running(key, { title })
  const approval = { approval_id: "call-1", tool: "write", kind: "edit" as const, paths: ["a.md"], preview: { diff: "+a" } }
  yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval }])
  return id
})

layer(http(), { excludeTestServices: true })("the overview", (it) => {
  it.effect("has what waits for a person first, with its whole preview, and comes back when it is decided", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitorIn("deciding", "owner")
      const id = yield* asking(key, HOSTILE)
      yield* create(key, { title: "Waits for a worker" })
      const page = yield* get("/overview")
      assert.strictEqual(page.status, 200)
      assert.notInclude(page.text, "<script>alert")
      assert.include(page.text, "<pre data-field=\"diff\">+a</pre>")
      const text = textOf(page)
      assert.isBelow(text.indexOf("Needs you"), text.indexOf("Working"))
      assert.match(text, /Starting .* Waits for a worker \d+(?:st|nd|rd|th), 0 at work, no worker is there/u)
      const decided = yield* post(`/sandboxes/${id}/approvals/call-1`, { decision: "approve", next: "/overview" })
      assert.deepStrictEqual([decided.status, decided.headers["location"]], [303, "/overview?done=approved"])
      assert.include(textOf(yield* get("/overview?done=approved")), "Approved. ")
      assert.include(textOf(yield* get("/overview")), "Nothing waits for you.")
      const elsewhere = yield* post(`/sandboxes/${id}/approvals/call-1`, { decision: "approve", next: "//evil.test" })
      assert.match(String(elsewhere.headers["location"]), /^\/sandboxes\/c_/u)
    }))

  it.effect("shows members what they asked for themselves, and owners all of it", () =>
    Effect.gen(function*() {
      const owner = yield* visitorIn("shared", "owner")
      const member = yield* visitorIn("shared", "member")
      yield* asking(owner.key, "Of the owner")
      yield* asking(member.key, "Of the member")
      const [all, own] = [textOf(yield* owner.get("/overview")), textOf(yield* member.get("/overview"))]
      assert.include(all, "Of the owner")
      assert.include(all, "Of the member")
      assert.notInclude(own, "Of the owner")
      assert.include(own, "Of the member")
    }))

  it.effect("is where owners begin; members begin with the form of a new sandbox, and strangers by signing in", () =>
    Effect.gen(function*() {
      for (const [role, home] of [["owner", "/overview"], ["member", "/new"]] as const) {
        const { headers } = yield* (yield* visitorIn("homes", role)).get("/", { accept: "text/html" })
        assert.strictEqual(headers["location"], home)
      }
      const away = yield* ask("/overview")
      assert.deepStrictEqual([away.status, away.headers["location"]], [303, "/sign-in?next=%2Foverview"])
    }))

  it.effect("shows the place in line of a sandbox that waits, as its own page and the list do", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitorIn("lines", "owner")
      const id = yield* create(key, { title: "Queued" })
      for (const path of ["/overview", "/sandboxes", `/sandboxes/${id}`]) {
        assert.match(textOf(yield* get(path)), /\d+(?:st|nd|rd|th), 0 at work, no worker is there/u, path)
      }
    }))

  it.effect("is narrowed by its address, which what is looked at again and what is decided there keep", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitorIn("narrowed", "owner")
      const id = yield* asking(key, "The lamp")
      yield* asking(key, "The chair")
      yield* create(key, { title: "A lamp of another", repos: [{ fullName: "acme/other" }] })
      const query = "?search=lamp&repo=ACME%2Fshop"
      const page = yield* get(`/overview${query}`)
      const text = textOf(page)
      assert.include(text, "The lamp")
      for (const hidden of ["The chair", "of another", "acme/other"]) assert.notInclude(text, hidden)
      const escaped = query.replaceAll("&", "&amp;")
      assert.include(page.text, `data-look="/overview/present${escaped}"`)
      assert.include(page.text, `name="next" value="/overview${escaped}"`)
      const again = textOf(yield* get(`/overview/present${query}`))
      assert.include(again, "The lamp")
      assert.notInclude(again, "The chair")
      const decided = yield* post(`/sandboxes/${id}/approvals/call-1`, { decision: "deny", next: `/overview${query}` })
      assert.strictEqual(decided.headers["location"], `/overview${query}&done=denied`)
      const none = yield* get("/overview?repo=none")
      assert.strictEqual(none.status, 400)
      assert.include(textOf(none), "A repository is named owner/name.")
      assert.notInclude(textOf(none), "The chair")
      assert.strictEqual((yield* get(`/overview?search=${"x".repeat(121)}`)).status, 400)
    }))
})
