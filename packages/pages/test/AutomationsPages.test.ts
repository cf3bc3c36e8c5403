/** The pages of automations as HTML: whom they serve, what they show and escape, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { DateTime, Effect } from "effect"
import { type Fields, owner, redirected, textOf, type Visitor, visitorAs } from "../testing/Browser.ts"
import { joined, layer as http, type Reply } from "../testing/Harness.ts"

const HOSTILE = `"'><script>alert(1)</script>\u202e`
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"
const filled: Fields = {
  name: "Nightly",
  trigger: "schedule",
  cron: "0 7 * * 1-5",
  timeZone: "Europe/Berlin",
  label: "slipway",
  repos: "acme/shop\r\nacme/other@main",
  prompt: "Line one\r\nline two {{run.time}}",
  model: "",
  effort: "",
  comments: "",
  checks: "",
  approvals: "prompt",
  maxRunning: "2",
  maxPerDay: "30"
}

const isPage = (reply: Reply, status = 200, title?: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.deepStrictEqual([reply.headers["content-type"], reply.headers["cache-control"]], ["text/html; charset=utf-8", "no-store"])
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
}
const automationsOf = ({ grantId }: Visitor) => Effect.flatMap(AutomationStore, (store) => store.list(grantId))
const add = Effect.fnUntraced(function*(visitor: Visitor, more: Fields = {}) {
  const reply = yield* visitor.post("/automations", { ...filled, ...more })
  return { reply, automation: (yield* automationsOf(visitor)).at(-1) ?? assert.fail(reply.text) }
})

layer(http(), { excludeTestServices: true })("the pages of automations", (it) => {
  it.effect("are an owner's: a member is told so, and changes nothing", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { automation: { id } } = yield* add(mine)
      const member = yield* visitorAs(yield* joined("grace"))
      for (const path of ["", `/${id}`, `/${absent}`, "/x", `/${id}/rotate-secret`, `/${id}/remove`]) {
        isPage(yield* member.get(`/automations${path}`), 403, "Automations are for owners")
      }
      for (const path of ["", `/${id}`, `/${id}/rotate-secret`, `/${id}/remove`, `/${id}/enable`, `/${id}/pause`, `/${id}/run`]) {
        isPage(yield* member.post(`/automations${path}`, filled), 403, "Automations are for owners")
      }
      assert.lengthOf(yield* automationsOf(mine), 1)
      yield* mine.post(`/automations/${id}/remove`, {})
    }))

  it.effect("make one from the fields, and show it", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      assert.include(textOf(yield* mine.get("/automations")), "No automations yet.")
      const { automation, reply } = yield* add(mine)
      redirected(reply, `/automations/${automation.id}?done=saved`)
      assert.deepStrictEqual(automation.settings, {
        name: "Nightly",
        trigger: { type: "schedule", cron: "0 7 * * 1-5", timeZone: "Europe/Berlin" },
        repos: [{ fullName: "acme/shop" }, { fullName: "acme/other", ref: "main" }],
        prompt: "Line one\nline two {{run.time}}",
        toolApprovalMode: "prompt",
        maxRunning: 2,
        maxPerDay: 30
      })
      assert.strictEqual(automation.createdBy, (yield* (yield* MemberStore).owner).userId)
      const list = yield* mine.get("/automations")
      isPage(list, 200, "Automations")
      assert.include(list.text, `<a href="/automations/${automation.id}">Nightly</a>`)
      const page = yield* mine.get(`/automations/${automation.id}`)
      isPage(page, 200, "Automation")
      assert.include(textOf(page), "No runs yet.")
      assert.include(page.text, "acme/shop\nacme/other@main")
      yield* mine.post(`/automations/${automation.id}/remove`, {})
    }))

  it.effect("show the secret of a webhook once, and its address always", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { automation: { id }, reply } = yield* add(mine, { trigger: "webhook", prompt: "{{payload.title}}" })
      isPage(reply, 200, "Automation created")
      assert.match(reply.text, /id="secret" [^>]*value="whsec_/u)
      const page = yield* mine.get(`/automations/${id}`)
      assert.notInclude(page.text, "whsec_")
      assert.include(page.text, `/api/internal/v1/automations/${id}/trigger</code>`)
      isPage(yield* mine.get(`/automations/${id}/rotate-secret`), 200, "Replace the secret?")
      const rotated = yield* mine.post(`/automations/${id}/rotate-secret`, {})
      assert.match(rotated.text, /id="secret" [^>]*value="whsec_/u)
      yield* mine.post(`/automations/${id}/remove`, {})
    }))

  it.effect("refuse what is invalid, in the form as it was filled in, and store nothing", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const faults: ReadonlyArray<readonly [Fields, string]> = [
        [{ prompt: "{{issue.title}}" }, "unknown placeholder {{issue.title}}"],
        [{ cron: "0 0 30 2 *" }, "trigger.cron"],
        [{ timeZone: "Mars/Olympus" }, "trigger.timeZone"],
        [{ repos: "shop" }, "repos[0].fullName"],
        [{ maxRunning: "0" }, "maxRunning"],
        [{ maxPerDay: "many" }, "maxPerDay"],
        [{ model: "absent/model" }, "There is no such model."],
        [{ trigger: "push" }, "trigger"],
        [{ name: " " }, "name"]
      ]
      for (const [more, problem] of faults) {
        const reply = yield* mine.post("/automations", { ...filled, ...more })
        isPage(reply, 400, "Automations")
        assert.include(textOf(reply), problem)
        assert.include(reply.text, `role="alert"`)
        assert.include(reply.text, more["prompt"] === undefined ? "Line one" : "{{issue.title}}</textarea>")
      }
      isPage(yield* mine.post("/automations", { name: "only" }), 400)
      assert.deepStrictEqual(yield* automationsOf(mine), [])
    }))

  it.effect("escape what people and runs say", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const store = yield* AutomationStore
      const { automation } = yield* add(mine, { name: HOSTILE, trigger: "label", label: HOSTILE, prompt: `${HOSTILE} {{label}}` })
      const { id } = automation
      const at = yield* DateTime.now
      const request = { repos: [{ fullName: "acme/shop" }], prompt: "x", toolApprovalMode: "auto" as const, metadata: {} }
      const { taken } = yield* store.begin(automation, { triggerId: "label/1", at, request }, false)
      assert(taken !== null)
      yield* store.record(taken, { type: "refused", code: "repo_not_accessible", message: HOSTILE }, at)
      for (const path of ["", `/${id}`, `/${id}/remove`]) {
        const page = yield* mine.get(`/automations${path}`)
        isPage(page)
        assert.notInclude(page.text, "<script>alert")
      }
      const page = yield* mine.get(`/automations/${id}`)
      assert.include(textOf(page), "not started")
      assert.include(page.text, "⟨RIGHT-TO-LEFT OVERRIDE⟩")
      yield* mine.post(`/automations/${id}/remove`, {})
    }))

  it.effect("save, pause, enable, run and remove", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { automation: { id } } = yield* add(mine, { maxRunning: "1" })
      const to = (done: string) => `/automations/${id}?done=${done}`
      redirected(yield* mine.post(`/automations/${id}`, { ...filled, name: "Weekly", maxRunning: "1" }), to("saved"))
      isPage(yield* mine.post(`/automations/${id}`, { ...filled, trigger: "webhook" }), 400)
      const store = yield* AutomationStore
      const { createdAt, settings } = (yield* automationsOf(mine))[0] ?? assert.fail("it is gone")
      const feedback = { comments: "all", rounds: 5 } as const
      yield* store.change({ grantId: mine.grantId, id }, { ...settings, feedback }, createdAt)
      yield* mine.post(`/automations/${id}`, { ...filled, comments: "all", checks: "failing", name: "Weekly", maxRunning: "1" })
      assert.deepStrictEqual(
        (yield* automationsOf(mine))[0]?.settings.feedback,
        { ...feedback, checks: "failing" },
        "it has no field for rounds"
      )
      const form = (yield* mine.get(`/automations/${id}`)).text
      for (const chosen of [`"all" selected>become work`, `"failing" selected>become work`]) assert.include(form, `<option value=${chosen}`)
      redirected(yield* mine.post(`/automations/${id}/pause`, {}), to("paused"))
      const [paused] = yield* automationsOf(mine)
      assert.deepStrictEqual([paused?.settings.name, paused?.paused?.reason], ["Weekly", "paused"])
      redirected(yield* mine.post(`/automations/${id}/enable`, {}), to("enabled"))
      redirected(yield* mine.post(`/automations/${id}/run`, {}), to("started"))
      redirected(yield* mine.post(`/automations/${id}/run`, {}), to("not-started"))
      const page = textOf(yield* mine.get(to("not-started")))
      assert.include(page, "Too many of its sandboxes are active.")
      assert.include(page, "a person")
      for (const path of ["", "/remove", "/rotate-secret"]) isPage(yield* mine.get(`/automations/${absent}${path}`), 404)
      for (const path of ["", "/run", "/pause", "/enable", "/remove", "/rotate-secret"]) {
        isPage(yield* mine.post(`/automations/${absent}${path}`, filled), 404)
      }
      redirected(yield* mine.post(`/automations/${id}/remove`, {}), "/automations?done=removed")
      assert.deepStrictEqual(yield* automationsOf(mine), [])
    }))
})
