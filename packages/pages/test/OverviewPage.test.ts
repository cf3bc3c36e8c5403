/** The overview: what waits first, whose it is, and what the last weeks came to. */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { DateTime, Effect, Result } from "effect"
import { browserOf, textOf } from "../testing/Browser.ts"
import { ask, create, drive, joined, layer as http, mintKey, running } from "../testing/Harness.ts"

const HOSTILE = `</text></title><script>alert("1")</script>'&`

/** `organization`: `null` is the operator's. */
const visitor = Effect.fnUntraced(function*(grant: string, role: "owner" | "member", organization: string | null = null) {
  const members = yield* Members
  const login = `${role}-of-${grant}`
  const userId = yield* joined(login)
  const of = organization === null ? null : (yield* members.createOrganization(organization)).organization
  if (of !== null) yield* (yield* Access).createGrant(grant, of.id)
  if (role === "owner" || of !== null) yield* members.add(of?.id ?? null, login, role)
  const key = yield* mintKey({ grant, userId })
  return { key: key.key, ...(yield* browserOf(userId, key.grant.id)) }
})

const asking = Effect.fnUntraced(function*(key: string, title: string) {
  const { id, turn } = yield* running(key, { title })
  const approval = { approval_id: "call-1", tool: "write", kind: "edit" as const, paths: ["a.md"], preview: { diff: "+a" } }
  yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval }])
  return id
})

layer(http(), { excludeTestServices: true })("the overview", (it) => {
  it.effect("has what waits for a person first, with its whole preview, and comes back when it is decided", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("deciding", "owner")
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

  it.effect("shows members what they asked for themselves, and owners all of it with its cost and its failures", () =>
    Effect.gen(function*() {
      const owner = yield* visitor("shared", "owner")
      const member = yield* visitor("shared", "member")
      yield* asking(owner.key, "Of the owner")
      yield* asking(member.key, "Of the member")
      const failed = yield* create(owner.key)
      yield* drive(failed, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      const store = yield* SandboxStore
      const { id } = yield* running(owner.key, { repos: [{ fullName: "acme/costly" }] })
      const now = yield* DateTime.now
      yield* store.change(id, "policy", () =>
        Result.succeed([{
          type: "usage.updated" as const,
          data: {
            usage: { llmRequestCount: 1, costMicroUsd: 1_250_000, creditsChargedMicros: 0 },
            tokens: { input: 12_345, cachedInput: 9000, output: 678 }
          }
        }]), now)
      const [all, own] = [textOf(yield* owner.get("/overview")), textOf(yield* member.get("/overview"))]
      assert.include(all, "Of the owner")
      assert.include(all, "Of the member")
      assert.match(all, /Cost by repository, as a table Cost by repository Repository Cost acme\/costly \$1\.2500 acme\/shop \$0\.0000/u)
      assert.include(all, "In all $1.2500 · tokens: 12,345 in, 9,000 of them cached, 678 out.")
      assert.match(all, /Failures by reason Reason Sandboxes It could not boot\. 1/u)
      assert.include(all, `${DateTime.formatIsoDateUtc(now)} $1.2500, 4 sandboxes`)
      assert.notInclude(own, "Of the owner")
      assert.include(own, "Of the member")
      assert.notInclude(own, "Cost by")
      assert.notInclude(own, "tokens")
    }))

  it.effect("is where owners begin; members begin with the form of a new sandbox, and strangers by signing in", () =>
    Effect.gen(function*() {
      for (const [role, home] of [["owner", "/overview"], ["member", "/new"]] as const) {
        const { headers } = yield* (yield* visitor("homes", role)).get("/", { accept: "text/html" })
        assert.strictEqual(headers["location"], home)
      }
      const away = yield* ask("/overview")
      assert.deepStrictEqual([away.status, away.headers["location"]], [303, "/sign-in?next=%2Foverview"])
    }))

  it.effect("shows the machines to owners of the organization that runs the service, and totals to everybody", () =>
    Effect.gen(function*() {
      const workers = yield* Workers
      const room = { agents: { all: 32, taken: 9 }, boots: { all: 4, taken: 1 } }
      yield* workers.report({ worker: "w-1", machine: "big-<b>one</b>", slots: { all: 6, taken: 2 }, isDraining: false, ...room })
      yield* workers.report({ worker: "w-2", machine: "other", slots: { all: 2, taken: 3 }, isDraining: true, ...room })
      const owner = yield* visitor("runs-it", "owner")
      const others = [yield* visitor("runs-it", "member"), yield* visitor("theirs", "owner", "Theirs")]
      yield* create(owner.key, { title: "Work of the owner" })
      const id = yield* create(others[1]?.key ?? "", { title: "Queued" })
      const all = yield* owner.get("/overview")
      assert.include(all.text, "big-&lt;b&gt;one&lt;/b&gt;")
      const text = textOf(all)
      assert.match(text, /w-1 Takes on work 2 of 6, 4 free 9 of 32, 23 free 1 of 4, 3 free/u)
      assert.match(text, /w-2 Draining 3 of 2, 0 free/u)
      for (const other of others) {
        const page = textOf(yield* other.get("/overview"))
        assert.include(page, "In all grants together: 0 of 6 at work.")
        for (const hidden of ["big-", "w-1", "Draining", "Work of"]) assert.notInclude(page, hidden)
      }
      // A waiting sandbox shows its place in line, on the list and on its own page.
      for (const path of ["/overview", "/sandboxes", `/sandboxes/${id}`]) {
        assert.match(textOf(yield* others[1]!.get(path)), /\d+(?:st|nd|rd|th), 0 of 6 at work/u, path)
      }
      for (const worker of ["w-1", "w-2"]) yield* workers.leave(worker)
    }))

  it.effect("is narrowed by its address, which what is looked at again and what is decided there keep", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("narrowed", "owner")
      const id = yield* asking(key, "The lamp")
      yield* asking(key, "The chair")
      yield* create(key, { title: "A lamp of another", repos: [{ fullName: "acme/other" }] })
      const query = "?search=lamp&repo=ACME%2Fshop&days=7"
      const page = yield* get(`/overview${query}`)
      const text = textOf(page)
      assert.include(text, "The lamp")
      for (const hidden of ["The chair", "of another", "acme/other"]) assert.notInclude(text, hidden)
      assert.include(text, "The last 7 days What sandboxes cost so far")
      const escaped = query.replaceAll("&", "&amp;")
      assert.include(page.text, `data-look="/overview/present${escaped}"`)
      assert.include(page.text, `name="next" value="/overview${escaped}"`)
      const again = textOf(yield* get(`/overview/present${query}`))
      assert.include(again, "The lamp")
      assert.notInclude(again, "The chair")
      const decided = yield* post(`/sandboxes/${id}/approvals/call-1`, { decision: "deny", next: `/overview${query}` })
      assert.strictEqual(decided.headers["location"], `/overview${query}&done=denied`)
      const none = yield* get("/overview?repo=none&days=1000000")
      assert.strictEqual(none.status, 400)
      assert.include(textOf(none), "A repository is named owner/name.")
      assert.notInclude(textOf(none), "The chair")
      assert.strictEqual((yield* get(`/overview?search=${"x".repeat(121)}`)).status, 400)
    }))
})
