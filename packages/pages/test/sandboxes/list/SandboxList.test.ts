/** The list of sandboxes: what it says of each, what it finds, how it is watched, and ending several at once. */
import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { checkpointed } from "@slipway/http/testing/Checkpointed"
import { DateTime, Effect, Result } from "effect"
import { redirected, textOf, visitor, visitorIn } from "../../../testing/Browser.ts"
import { ask, create, drive, joined, layer as http, mintKey, type Reply, running } from "../../../testing/Harness.ts"

const HOSTILE = `"></th><script>alert("1")</script>\u202e'&`

const HTML = { accept: "text/html" }

/** The cells of a row, without markup. */
const rowOf = ({ text }: Reply, id: string): ReadonlyArray<string> => {
  const [, row = ""] = new RegExp(`<tr id="row-${id}"[^>]*>([^]*?)</tr>`, "u").exec(text) ?? []
  return [...row.matchAll(/<t[hd][^>]*>([^]*?)<\/t[hd]>/gu)].slice(1).map(([, cell = ""]) => cell.replaceAll(/<[^>]*>/gu, "").trim())
}

layer(http(), { excludeTestServices: true })("the list of sandboxes", (it) => {
  it.effect("says what each wants of people, and why", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("states")
      const store = yield* SandboxStore
      const queued = yield* create(key)
      const asking = yield* running(key)
      const approval = { approval_id: "call-1", tool: `write <i>NOTES</i>.md`, kind: "edit" as const, paths: ["NOTES.md"] }
      yield* drive(asking.id, [{ _tag: "RequestApproval", turnId: asking.turn, approval }])
      const ready = yield* running(key)
      yield* drive(ready.id, [{ _tag: "EndTurn", turnId: ready.turn, state: "succeeded" }])
      const now = yield* DateTime.now
      yield* store.change(ready.id, "policy", () =>
        Result.succeed([{
          type: "pull_request.updated" as const,
          data: {
            repo: RepoName.make("acme/shop"),
            action_state: "idle" as const,
            number: 12,
            url: "https://example.com/pull/12",
            state: "open" as const,
            draft: true,
            merged: false
          }
        }]), now)
      const failed = yield* create(key)
      yield* drive(failed, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No <disk>.", retryable: false }])
      const page = yield* get("/sandboxes")
      const state = (id: string) => rowOf(page, id)[1]
      assert.strictEqual(state(queued), "Starting 1st, 0 busy, no worker connected")
      assert.match(state(asking.id) ?? "", /^Needs you Asks for approval: write &lt;i&gt;NOTES&lt;\/i&gt;\.md\s+Review Say hello\.…$/u)
      assert.strictEqual(state(ready.id), "Ready")
      assert.strictEqual(rowOf(page, ready.id)[4], "#12 draft")
      assert.include(page.text, `<a href="https://example.com/pull/12" rel="noreferrer">#12</a>`)
      assert.strictEqual(state(failed), "Failed No &lt;disk&gt;.")
      assert.match(rowOf(page, failed)[5] ?? "", /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/u)
      // Whatever else a look asks for: it is one request, and nothing of it comes again while all stays the same.
      for (const path of ["/sandboxes", "/sandboxes/rows?state=starting"]) {
        const [, list = ""] = /<div id="waiting" data-piece="waiting" hidden data-list="([^"]*)"><\/div>/u.exec((yield* get(path)).text) ??
          []
        assert.deepStrictEqual(
          JSON.parse(list.replaceAll("&quot;", "\"")),
          [{ id: asking.id, title: "Say hello.", asks: ["call-1"] }],
          path
        )
      }
    }))

  it.effect("says how many lines differ in the newest checkpoint, and nothing where that is not known", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("lines")
      const [{ id }, unknown] = [yield* checkpointed(key, 2), yield* create(key)]
      const page = yield* get("/sandboxes")
      assert.strictEqual(rowOf(page, id)[3]?.replaceAll(/\s+/gu, " "), "+2 lines added −1 lines removed")
      assert.strictEqual(rowOf(page, unknown)[3], "")
    }))

  it.effect("gives the palette at most twenty sandboxes of the reader's grant by their titles, and the pages of the reader's role", () =>
    Effect.gen(function*() {
      const [member, owner] = [yield* visitor("palette"), yield* visitorIn("palette-of-owner", "owner", "palette")]
      const id = yield* create(member.key, { title: HOSTILE })
      for (let i = 0; i < 21; i++) yield* create(member.key, { title: `Fix the cart ${i}` })
      yield* create(owner.key, { title: "Fix the cart of another grant" })
      const optionsOf = ({ text }: Reply) => [...text.matchAll(/<a role="option"[^>]* href="([^"]*)"/gu)].map(([, href]) => href)
      const found = yield* member.get("/sandboxes/titles?search=the+CART")
      assert.lengthOf(optionsOf(found), 20)
      assert.notInclude(found.text, "another grant")
      assert.notInclude(found.text, "<html")
      const hostile = yield* member.get(`/sandboxes/titles?${new URLSearchParams({ search: HOSTILE })}`)
      assert.deepStrictEqual(optionsOf(hostile), [`/sandboxes/${id}`])
      assert.notInclude(hostile.text, "<script")
      assert.strictEqual((yield* member.get(`/sandboxes/titles?search=${"a".repeat(121)}`)).status, 400)

      const pages = optionsOf(yield* member.get("/pulls"))
      assert.includeMembers(pages, ["/new", "/sandboxes", "/pulls", "/keys"])
      assert.notInclude(pages, "/usage")
      const all = yield* owner.get("/pulls")
      assert.include(optionsOf(all), "/usage")
      assert.include(all.text, `<a href="/usage" data-keys="g u">`)
      assert.include(all.text, `<a class="search" href="/sandboxes?search=#search"`)
    }))

  it.effect("has a rail of the grant's twenty newest sandboxes by state, which marks the one it is beside", () =>
    Effect.gen(function*() {
      const [{ get, key }, other] = [yield* visitor("rail"), yield* visitor("beside-rail")]
      yield* create(other.key, { title: "Of another grant" })
      const oldest = yield* create(key, { title: "The oldest" })
      for (let i = 0; i < 19; i++) yield* create(key)
      const { id } = yield* running(key, { title: HOSTILE })
      const railOf = ({ text }: Reply) => /<div class="rail"[^]*?<\/div>/u.exec(text)?.[0] ?? ""
      const rail = railOf(yield* get(`/sandboxes/${id}`))
      const links = [...rail.matchAll(/href="\/sandboxes\/(c_\w+)"[^>]*?( aria-current="page")?>/gu)]
      assert.lengthOf(links, 20)
      assert.deepStrictEqual(links.flatMap(([, to, isCurrent]) => isCurrent === undefined ? [] : [to]), [id])
      assert.match(rail, /Working<\/span><\/p>\n<ul aria-label="Working">[^]*<ul aria-label="Starting">/u)
      for (const absent of ["Of another grant", oldest, "<script"]) assert.notInclude(rail, absent)
      assert.strictEqual(railOf(yield* get(`/sandboxes/waiting?at=${id}`)), rail)
      const onList = railOf(yield* get("/sandboxes"))
      assert.notInclude(onList, "aria-current")
      assert.strictEqual(railOf(yield* get("/sandboxes/rows")), onList)
      for (const path of ["/pulls", "/new", "/settings", "/keys", "/members"]) {
        assert.strictEqual(railOf(yield* get(path)), onList, path)
      }
      const errors = [yield* get("/nope", HTML), yield* get("/sandboxes?state=none"), yield* get("/usage"), yield* get("/new/sample")]
      assert.deepStrictEqual(errors.map(({ status }) => status), [404, 400, 403, 405])
      for (const [i, error] of errors.entries()) assert.strictEqual(railOf(error), onList, `error ${i}`)
      for (const path of ["/nope", "/new/sample", "/sign-in"]) {
        const page = yield* ask(path, { headers: HTML })
        assert.include(page.text, "<html", path)
        assert.strictEqual(railOf(page), "", path)
      }
    }))

  it.effect("decides on a short command in its row, and leads back to the same list", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("quick")
      const asking = Effect.fnUntraced(function*(title: string, command: string, more: object = {}) {
        const { id, turn } = yield* running(key, { title })
        const approval = { approval_id: "call-1", tool: "run", kind: "command" as const, preview: { command, ...more } }
        yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval }])
        return id
      })
      const short = yield* asking("Short", "npm test && rm -rf 'a'")
      const long = [
        yield* asking("Long", `echo ${"x".repeat(100)}`),
        yield* asking("Lines", "a\nb"),
        yield* asking("Hidden", "echo \u202e"),
        yield* asking("Elsewhere", "npm test", { cwd: "shop" })
      ]
      const page = yield* get("/sandboxes?state=asking&repo=ACME%2Fshop")
      assert.include(page.text, "$ npm test &amp;&amp; rm -rf &#39;a&#39;</code>")
      assert.include(page.text, `action="/sandboxes/${short}/approvals/call-1"`)
      for (const id of long) {
        assert.notInclude(page.text, `action="/sandboxes/${id}/approvals/call-1"`)
        assert.include(page.text, `href="/sandboxes/${id}#approvals"`)
      }
      const next = "/sandboxes?state=asking&repo=ACME%2Fshop"
      assert.include(page.text, `name="next" value="${next.replaceAll("&", "&amp;")}"`)
      const decided = yield* post(`/sandboxes/${short}/approvals/call-1`, { decision: "approve", next })
      assert.deepStrictEqual([decided.status, decided.headers["location"]], [303, `${next}&done=approved`])
      assert.include(textOf(yield* get(`${next}&done=approved`)), "Approved.")
      for (const elsewhere of ["//evil.test", "/keys", "/sandboxes/x"]) {
        const reply = yield* post(`/sandboxes/${long[0]}/approvals/call-1`, { decision: "approve", next: elsewhere })
        assert.match(String(reply.headers["location"]), /^\/sandboxes\/c_/u)
      }
    }))

  it.effect("has a group for each state, what needs a person first, and the number of each as a link", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("groups")
      yield* create(key, { title: "Starts" })
      yield* running(key, { title: "Works" })
      const asking = yield* running(key, { title: "Asks" })
      const approval = { approval_id: "call-1", tool: "write", kind: "edit" as const, paths: ["a.md"] }
      yield* drive(asking.id, [{ _tag: "RequestApproval", turnId: asking.turn, approval }])
      const text = textOf(yield* get("/sandboxes"))
      assert.match(text, / All 3 Needs you 1 Working 1 Starting 1 /u)
      assert.match(text, / Needs you Pin Asks .* Working Pin Works .* Starting Pin Starts /u)
      const working = yield* get("/sandboxes?state=working")
      assert.include(working.text, `<a href="/sandboxes?state=working" aria-current="page">Working 1</a>`)
      for (const other of ["Asks", "Starts"]) assert.notInclude(working.text, `aria-label="Select ${other}"`)
    }))

  it.effect("is where everybody begins, and where links to the former overview lead", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("homes")
      for (const path of ["/", "/overview"]) redirected(yield* get(path, { accept: "text/html" }), "/sandboxes")
    }))

  it.effect("searches titles, keeps what was asked for in the address, and shows hostile titles as text", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("searcher")
      const hostile = yield* create(key, { title: HOSTILE })
      const plain = yield* create(key, { title: "Plain" })
      const shown = Effect.fnUntraced(function*(search: string) {
        const { text } = yield* get(`/sandboxes?search=${encodeURIComponent(search)}&state=starting`)
        for (const hidden of ["<script>alert", "\u202e"]) assert.notInclude(text, hidden)
        return [text.includes(`row-${hostile}`), text.includes(`row-${plain}`)]
      })
      assert.deepStrictEqual(yield* shown("SCRIPT>"), [true, false])
      assert.deepStrictEqual(yield* shown("pla"), [false, true])
      const { text } = yield* get("/sandboxes?search=%22%3Ex&state=starting&repo=acme%2Fshop")
      assert.include(text, "name=\"search\" type=\"search\" value=\"&quot;&gt;x\"")
      assert.include(text, "<input type=\"hidden\" name=\"state\" value=\"starting\">")
      assert.include(text, "data-look=\"/sandboxes/rows?search=%22%3Ex&amp;state=starting&amp;repo=acme%2Fshop\"")
      assert.strictEqual((yield* get(`/sandboxes?search=${"x".repeat(121)}`)).status, 400)
      // Text that no database stores is refused.
      for (const page of ["/sandboxes", "/new/repositories", "/pulls"]) {
        assert.strictEqual((yield* get(`${page}?search=a%00b`)).status, 400, page)
      }
    }))

  it.effect("finds what was asked and said, shows where as text, and nothing of other grants", () =>
    Effect.gen(function*() {
      const [{ get, key }, other] = [yield* visitor("words"), yield* visitor("beside-words")]
      const { id, turn } = yield* running(key, { title: "Cart" })
      const said = `Then <b>the</b> zebra\u202e crossed ${"the road ".repeat(40)}`
      const data = { message_id: "m1", part_id: "m1:text", kind: "text" as const, text: said }
      yield* (yield* SandboxStore).change(id, "policy", () =>
        Result.succeed([
          { type: "message.updated", turn_id: turn, data },
          { type: "message.completed", turn_id: turn, data: { message_id: "m1", finish: "end_turn" } }
        ]), yield* DateTime.now)
      const titled = yield* create(key, { title: "Zebra" })
      yield* create(other.key, { title: "Zebra", prompt: "A zebra" })
      const idsOf = ({ text }: Reply) => Array.from(text.matchAll(/<tr id="row-(\w+)"/gu), ([, found]) => found)
      const found = yield* get("/sandboxes?search=zebra+cross")
      assert.deepStrictEqual(idsOf(found), [id])
      assert.include(found.text, `<span class="excerpt">Then &lt;b&gt;the&lt;/b&gt; zebra⟨RIGHT-TO-LEFT OVERRIDE⟩ crossed the road`)
      assert.notInclude(found.text, "the road ".repeat(30))
      // A title that was found needs no excerpt.
      const both = yield* get("/sandboxes?search=ZEBRA")
      assert.deepStrictEqual(idsOf(both).toSorted(), [id, titled].toSorted())
      assert.lengthOf([...both.text.matchAll(/class="excerpt"/gu)], 1)
      const palette = yield* get("/sandboxes/titles?search=zebra+cross")
      assert.include(palette.text, `href="/sandboxes/${id}"`)
      assert.match(palette.text, /<span class="what">Cart<span class="excerpt">Then &lt;b&gt;/u)
      for (const search of ["'", "\\", "a & !b | (c", ":*", "\u202e", "%", "\ud800", "x".repeat(120)]) {
        for (const page of ["/sandboxes", "/sandboxes/rows", "/sandboxes/titles"]) {
          const reply = yield* get(`${page}?${new URLSearchParams({ search })}`)
          assert.deepStrictEqual([reply.status, idsOf(reply)], [200, []], `${page} ${search}`)
        }
      }
      for (
        const query of ["search=%00", `search=${"a".repeat(10_000)}`, "metadata.a=%00", `metadata.a=${"a".repeat(4097)}`,
          Array.from({ length: 17 }, (_, i) => `metadata.${i}=x`).join("&")]
      ) {
        for (const page of ["/sandboxes", "/sandboxes/rows"]) assert.strictEqual((yield* get(`${page}?${query}`)).status, 400, query)
      }
    }))

  it.effect("is filtered by repository, person, metadata, state and words together, all of it in the address", () =>
    Effect.gen(function*() {
      const one = yield* visitor("filters")
      const theirId = yield* joined("another-person")
      const two = yield* mintKey({ grant: "filters", userId: theirId })
      const metadata = { ticket: HOSTILE, "a b": "", long: "x".repeat(1000) }
      const mine = yield* create(one.key, { title: "Mine", metadata })
      const theirs = yield* create(two.key, { title: "Theirs", metadata: { ticket: "SHOP-42" } })
      const shown = Effect.fnUntraced(function*(query: Record<string, string>) {
        const reply = yield* one.get(`/sandboxes?${new URLSearchParams(query)}`)
        assert.notInclude(reply.text, "<script>alert")
        return { text: reply.text, found: [mine, theirs].map((id) => reply.text.includes(`row-${id}`)) }
      })
      const people = Array.from((yield* shown({})).text.matchAll(/<option value="(user_\w+)">/gu), ([, id = ""]) => id)
      assert.lengthOf(people, 2)
      const mineId = people.find((id) => id !== theirId) ?? ""
      assert.deepStrictEqual((yield* shown({ person: theirId })).found, [false, true])
      assert.deepStrictEqual((yield* shown({ person: mineId, "metadata.ticket": HOSTILE, "metadata.a b": "" })).found, [true, false])
      assert.deepStrictEqual((yield* shown({ person: mineId, "metadata.ticket": "SHOP-42" })).found, [false, false])
      assert.deepStrictEqual((yield* shown({ person: "<unknown>" })).found, [false, false])
      const others = { search: "hello", repo: "acme/shop", person: theirId, "metadata.ticket": "SHOP-42" }
      const { found, text } = yield* shown({ state: "starting", ...others })
      assert.deepStrictEqual(found, [false, true])
      assert.include(text, `href="/sandboxes?${new URLSearchParams(others)}">All 2<`.replaceAll("&", "&amp;"))
      assert.include(text, `<option value="${theirId}" selected>`)
      assert.include(text, `<input type="hidden" name="metadata.ticket" value="SHOP-42">`)
      assert.include(text, `<span class="unseen">Remove </span>ticket: SHOP-42`)
      // The page of a sandbox leads to others like it.
      const page = yield* one.get(`/sandboxes/${mine}`)
      const like = `/sandboxes?${new URLSearchParams({ "metadata.ticket": HOSTILE })}`.replaceAll("&", "&amp;").replaceAll("'", "&#39;")
      assert.include(page.text, `<a href="${like}">`)
      assert.include(page.text, `<a href="/sandboxes?repo=acme%2Fshop">acme/shop</a>`)
      assert.include(page.text, `, long: ${"x".repeat(200)}…`)
    }))

  it.effect("is sent again by itself only when it changed", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("watcher")
      const id = yield* create(key)
      const first = yield* get("/sandboxes/rows")
      assert.include(first.text, `row-${id}`)
      assert.notInclude(first.text, "<h1")
      const etag = String(first.headers["etag"])
      const same = yield* get("/sandboxes/rows", { "if-none-match": etag })
      assert.deepStrictEqual([same.status, same.text], [304, ""])
      yield* drive(id, [{ _tag: "StartBoot" }])
      const changed = yield* get("/sandboxes/rows", { "if-none-match": etag })
      assert.strictEqual(changed.status, 200)
      assert.strictEqual(rowOf(changed, id)[1], "Starting")
    }))

  it.effect("ends the chosen ones after asking, all of them or none", () =>
    Effect.gen(function*() {
      const { get, grantId, key, post } = yield* visitor("ending")
      const terminate = (id: ReadonlyArray<string>) => post("/sandboxes/terminate", { id })
      const other = yield* visitor("not-ending")
      const store = yield* SandboxStore
      const [one, two, kept] = [yield* create(key, { title: HOSTILE }), (yield* running(key)).id, yield* create(key)]
      const theirs = yield* create(other.key)
      const asked = yield* get(`/sandboxes/terminate?id=${one}&id=${two}&id=${one}`)
      assert.include(asked.text, "<h1>End these 2 sandboxes?</h1>")
      assert.notInclude(asked.text, "<script>alert")
      for (const wrong of ["", "?id=x", `?id=${theirs}`]) assert.isAtLeast((yield* get(`/sandboxes/terminate${wrong}`)).status, 400)
      const status = Effect.fnUntraced(function*(id: typeof one) {
        return (yield* store.find({ grantId, id })).status
      })
      assert.strictEqual((yield* terminate([one, theirs])).status, 404)
      assert.strictEqual((yield* terminate([])).status, 400)
      assert.strictEqual(yield* status(one), "queued")
      const done = yield* terminate([one, two])
      assert.deepStrictEqual([done.status, done.headers["location"]], [303, "/sandboxes?done=terminated"])
      assert.deepStrictEqual([yield* status(one), yield* status(two), yield* status(kept)], ["terminated", "terminating", "queued"])
    }))

  it.effect("archives the chosen ones, which are listed apart then, and shows them again", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("archivist")
      const [one, two] = [yield* create(key, { title: HOSTILE }), yield* create(key)]
      const other = yield* visitor("not-archivist")
      const theirs = yield* create(other.key)
      const asked = yield* get(`/sandboxes/archive?id=${one}`)
      assert.include(asked.text, "<h1>Archive this sandbox?</h1>")
      assert.strictEqual((yield* post("/sandboxes/archive", { id: [one, theirs] })).status, 404)
      const done = yield* post("/sandboxes/archive", { id: [one] })
      assert.deepStrictEqual([done.status, done.headers["location"]], [303, "/sandboxes?done=archived"])
      const rowsOf = Effect.fnUntraced(function*(path: string) {
        const { text } = yield* get(path)
        return [one, two].map((id) => text.includes(`row-${id}`))
      })
      assert.deepStrictEqual(yield* rowsOf("/sandboxes"), [false, true])
      assert.deepStrictEqual(yield* rowsOf("/sandboxes?archived=yes"), [true, false])
      assert.notInclude((yield* get("/sandboxes/titles?search=")).text, one)
      assert.include((yield* get(`/sandboxes/${one}`)).text, `/sandboxes/unarchive?id=${one}`)
      assert.strictEqual((yield* post("/sandboxes/unarchive", { id: [one] })).headers["location"], "/sandboxes?done=unarchived")
      assert.deepStrictEqual(yield* rowsOf("/sandboxes"), [true, true])
    }))

  it.effect("deletes the chosen ones for owners, once they ended", () =>
    Effect.gen(function*() {
      const { get, grantId, key, post } = yield* visitorIn("deleter", "owner")
      const member = yield* visitorIn("deleter", "member")
      const store = yield* SandboxStore
      const [live, ended] = [yield* create(key), yield* create(key)]
      yield* post("/sandboxes/terminate", { id: [ended] })
      assert.include((yield* get("/sandboxes")).text, `formaction="/sandboxes/delete"`)
      assert.include((yield* get(`/sandboxes/${ended}`)).text, `/sandboxes/delete?id=${ended}`)
      assert.notInclude((yield* get(`/sandboxes/${live}`)).text, `/sandboxes/delete?id=${live}`)
      assert.include((yield* get(`/sandboxes/delete?id=${ended}`)).text, "<h1>Delete this sandbox?</h1>")
      assert.notInclude((yield* member.get("/sandboxes")).text, "/sandboxes/delete")
      assert.notInclude((yield* member.get(`/sandboxes/${ended}`)).text, "/sandboxes/delete")
      assert.strictEqual((yield* member.get(`/sandboxes/delete?id=${ended}`)).status, 403)
      assert.strictEqual((yield* member.post("/sandboxes/delete", { id: [ended] })).status, 403)
      assert.strictEqual((yield* post("/sandboxes/delete", { id: [live] })).status, 409)
      assert.strictEqual((yield* post("/sandboxes/delete", { id: [ended] })).headers["location"], "/sandboxes?done=deleted")
      assert.strictEqual((yield* get(`/sandboxes/${ended}`)).status, 404)
      assert.strictEqual((yield* Effect.flip(store.find({ grantId, id: ended })))._tag, "SandboxNotFound")
    }))
})
