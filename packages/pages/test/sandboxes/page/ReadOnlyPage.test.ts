/** The read-only page of a sandbox: what a member of its grant sees who changes nothing there. */
import { assert, layer } from "@effect/vitest"
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { checkpointed, shaOf } from "@slipway/http/testing/Checkpointed"
import { Effect } from "effect"
import { textOf, visitor } from "../../../testing/Browser.ts"
import { create, drive, layer as http, openStream, type Reply, running } from "../../../testing/Harness.ts"

const mainOf = ({ text }: Reply) => /<main[^>]*>([^]*)<\/main>/u.exec(text)?.[1] ?? assert.fail("no main")

/** A link to the page of a form: none of them has a name that a GET alone answers. */
const FORMS = /href="[^"]*\/(?:terminate|restore|fork|send-back|approvals|questions|rename)\b/u

const call = (n: number) => ({
  type: "tool.updated" as const,
  data: { part_id: `tool:${n}`, message_id: "t", call_id: `${n}`, tool: `step ${n}.`, status: "completed" as const }
})

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: () =>
    Effect.succeed({
      files: [{ path: "src/a.ts", previousPath: null, status: "modified", additions: 3, deletions: 2 }],
      partialWarnings: []
    })
}

layer(http({ trees }), { excludeTestServices: true })("the read-only page of a sandbox", (it) => {
  it.effect("has the title, the state, the repository, what changed and the conversation, which the page of the sandbox leads to", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const { id } = yield* checkpointed(key, 2, { title: "Fix the <lamp>", prompt: "Please fix it" })
      assert.include((yield* get(`/sandboxes/${id}`)).text, `<a href="/sandboxes/${id}/read">Read-only page</a>`)
      const page = yield* get(`/sandboxes/${id}/read`)
      assert.strictEqual(page.status, 200)
      assert.match(mainOf(page), /<h1 id="title"[^>]*>Fix the &lt;lamp&gt;<\/h1>/u)
      assert.match(
        textOf(page),
        /acme\/shop\. This page is read-only\. .*Changes 1 file: \+3 .*Files changed .*Conversation .*You .*Please fix it.*Checkpoint 2/u
      )
      assert.include(mainOf(page), `<a href="/sandboxes/${id}/changes">Files changed</a>`)
    }))

  it.effect("has no form and no link to one, also while approvals, questions and messages wait", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("looker")
      const { id, turn } = yield* running(key)
      yield* drive(id, [{
        _tag: "RequestApproval",
        turnId: turn,
        approval: { approval_id: "a", tool: "write NOTES.md", kind: "edit", paths: ["NOTES.md"] }
      }, {
        _tag: "AskQuestion",
        turnId: turn,
        question: { question_id: "q", questions: [{ id: "1", text: "Why?", options: [], multiple: false, allows_text: true }] }
      }])
      yield* post(`/sandboxes/${id}/messages`, { prompt: "And then this", whenBusy: "queue" })
      const { id: other } = yield* checkpointed(key)
      for (const one of [id, other]) {
        const whole = mainOf(yield* get(`/sandboxes/${one}`))
        assert.match(whole, /<form/u)
        assert.match(whole, FORMS)
        const main = mainOf(yield* get(`/sandboxes/${one}/read`))
        assert.notMatch(main, /<(?:form|button|input|textarea|select)\b|name="csrf"/u)
        assert.notMatch(main, FORMS)
      }
      assert.include(textOf(yield* get(`/sandboxes/${id}/read`)), "needs your approval")
      const { headers, status } = yield* post(`/sandboxes/${id}/read`, { title: "x" })
      assert.deepStrictEqual([status, headers["allow"]], [405, "GET, HEAD, OPTIONS"])
    }))

  it.effect("leads to earlier parts of the conversation on read-only pages", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("historian")
      const { id, turn } = yield* running(key)
      yield* drive(id, [{ _tag: "RecordWork", turnId: turn, events: Array.from({ length: 600 }, (_, n) => call(n)) }])
      const latest = yield* get(`/sandboxes/${id}/read`)
      const earlier = /<a href="([^"]+)">Earlier<\/a>/u.exec(latest.text)?.[1] ?? ""
      assert.match(earlier, /\/read\?before=\d+$/u)
      const before = yield* get(earlier)
      const steps = ({ text }: Reply) => [...text.matchAll(/>step (\d+)\.</gu)].map(([, n]) => Number(n))
      assert.deepStrictEqual([...steps(before), ...steps(latest)], Array.from({ length: 600 }, (_, n) => n))
      assert.include(before.text, `<a href="/sandboxes/${id}/read">Latest</a>`)
      assert.notInclude(before.text, "data-stream")
      assert.strictEqual((yield* get(`/sandboxes/${id}/read?before=x`)).status, 400)
    }))

  it.effect("follows the sandbox live by a stream without forms, and without scripts by loading again while the agent works", () =>
    Effect.gen(function*() {
      const { cookie, get, key, post } = yield* visitor("follower")
      const { id, turn } = yield* running(key)
      const address = `/sandboxes/${id}/read`
      const page = yield* get(address)
      assert.include(page.text, `<noscript><meta http-equiv="refresh"`)
      const cursor = new RegExp(`data-stream="${address}/pieces" data-cursor="(\\d+)">`, "u").exec(page.text)?.[1] ?? ""
      const stream = yield* openStream(`${address}/pieces?since=${cursor}`, { headers: { cookie } })
      yield* drive(id, [
        { _tag: "RecordWork", turnId: turn, events: [call(1)] },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" },
        { _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1, ms: 1, repos: [{ repo: "acme/shop", sha: shaOf(1) }] } }
      ])
      const idle = yield* get(address)
      assert.notInclude(idle.text, "http-equiv=\"refresh\"")
      yield* post(`/sandboxes/${id}/terminate`)
      yield* drive(id, [{ _tag: "Release" }])
      const told = (yield* stream.rest).join("\n").replaceAll("data: ", "")
      assert.match(told, /data-key="tool:1"[^]*data-key="checkpoint:1"/u)
      for (const piece of ["state", "changes", "announcement"]) assert.include(told, `data-piece="${piece}"`)
      for (const piece of ["message", "approvals", "facts", "commands", "pulls"]) assert.notInclude(told, `data-piece="${piece}"`)
      assert.notMatch(told, /<form|name="csrf"/u)
      assert.notMatch(told, FORMS)
      assert.match(told, /event: over/u)
    }))

  it.effect("of another grant is not found, exactly as an unknown sandbox", () =>
    Effect.gen(function*() {
      const { key } = yield* visitor("private")
      const id = yield* create(key, { title: "secret plans" })
      const { get } = yield* visitor("nosy")
      const said = (reply: Reply) => [reply.status, textOf(reply).replace(/Request \S+/u, "")]
      const [hidden, unknown] = [yield* get(`/sandboxes/${id}/read`), yield* get("/sandboxes/c_aaaaaaaaaaaa/read")]
      assert.strictEqual(hidden.status, 404)
      assert.deepStrictEqual(said(hidden), said(unknown))
      assert.strictEqual((yield* get(`/sandboxes/${id}/read/pieces?since=0`)).status, 404)
    }))
})
