/** The pages of sandboxes as HTML: what they show and escape, whom they serve, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { FileNotFound, type FileVersion, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { ChangedFile } from "@slipway/domain/files/schema/FileTree"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type SetupRecord, Setups } from "@slipway/domain/sandbox/ports/Setups"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { checkpointed } from "@slipway/http/testing/Checkpointed"
import { DateTime, Deferred, Effect } from "effect"
import { browserOf, redirected, textOf, visitor } from "../../testing/Browser.ts"
import {
  address,
  ask,
  create,
  drive,
  joined,
  layer as http,
  mintKey,
  openStream,
  PUBLIC_URL,
  type Reply,
  running,
  turnOf
} from "../../testing/Harness.ts"

const HOSTILE = `</h1><script>alert("1")</script>'&`
const ESCAPED = "&lt;/h1&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;"

const work = (
  id: SandboxId,
  turnId: string,
  ...events: ReadonlyArray<Extract<SandboxEvent, { readonly type: "message.updated" | "tool.updated" | "message.completed" }>>
) => drive(id, [{ _tag: "RecordWork", turnId, events }])

const isPage = (reply: Reply, status = 200) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.strictEqual(reply.headers["content-type"], "text/html; charset=utf-8")
  assert.match(String(reply.headers["content-security-policy"]), /default-src 'none'; script-src 'self'; style-src 'self'/u)
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
}

const approvalOf = (id: string, tool = "write NOTES.md") => ({ approval_id: id, tool, kind: "edit" as const, paths: ["NOTES.md"] })

layer(http(), { excludeTestServices: true })("the list of sandboxes", (it) => {
  it.effect("tells who has none how to create one, and leads who is not signed in to signing in", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("newcomer")
      const page = yield* get("/sandboxes")
      isPage(page)
      assert.include(page.text, `curl -X POST ${PUBLIC_URL}/api/public/v1/sandboxes`)
      redirected(yield* ask("/sandboxes?status=running"), `/sign-in?next=${encodeURIComponent("/sandboxes?status=running")}`)
    }))

  it.effect("says where else the reader has sandboxes, and no grant of others", () =>
    Effect.gen(function*() {
      const here = yield* visitor("here")
      const there = yield* mintKey({ grant: "there" })
      const empty = yield* mintKey({ grant: "empty" })
      assert.notInclude(textOf(yield* here.get("/sandboxes")), "in grant")
      yield* create(there.key, { title: "one" })
      yield* create(there.key, { title: "two" })
      yield* create(here.key, { title: "mine" })
      const page = yield* here.get("/sandboxes")
      isPage(page)
      assert.include(textOf(page), "2 sandboxes in grant there . Switch grant")
      // The header lets the reader choose it.
      const { main } = /(?<main><main [\s\S]*<\/main>)/u.exec(page.text)?.groups ?? {}
      assert.notInclude(main, empty.grant.name)
      assert.notInclude(textOf(yield* here.get("/sandboxes?state=starting")), "in grant there")
      const stranger = yield* visitor("elsewhere")
      yield* create(stranger.key, { title: "theirs" })
    }))

  it.effect("shows those of the reader's grant, newest first, by status and repository", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("lister")
      const other = yield* visitor("other")
      yield* create(other.key, { title: "theirs" })
      const queued = yield* create(key, { title: HOSTILE, repos: [{ fullName: "acme/docs" }] })
      const { id } = yield* running(key, { title: "busy" })
      const all = yield* get("/sandboxes")
      isPage(all)
      assert.deepStrictEqual(
        [...all.text.matchAll(/<th scope="row"><a href="\/sandboxes\/(c_\w+)" title="[^"]*">(.*)<\/a>/gu)].map((
          [, link, title]
        ) => [link, title]),
        [
          [id, "busy"],
          [queued, ESCAPED]
        ]
      )
      const shown = (query: string) =>
        Effect.map(get(`/sandboxes?${query}`), ({ text }) => [id, queued].map((one) => text.includes(`row-${one}`)))
      assert.deepStrictEqual(yield* shown("state=working&repo="), [true, false])
      assert.deepStrictEqual(yield* shown("state=&repo=+ACME/docs"), [false, true])
      assert.include(textOf(yield* get("/sandboxes?state=failed")), "No matching sandboxes")
      const wrong = yield* get(`/sandboxes?repo=${encodeURIComponent(HOSTILE)}`)
      isPage(wrong, 400)
      assert.include(wrong.text, `value="${ESCAPED}"`)
      isPage(yield* get("/sandboxes?state=odd"), 400)
    }))

  it.effect("has further pages, whose addresses cannot be forged", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("many")
      const ids = yield* Effect.forEach(Array.from({ length: 51 }), () => create(key))
      const first = yield* get("/sandboxes?state=starting")
      const older = /href="(\/sandboxes\?state=starting&amp;after=[^"]+)" rel="next"/u.exec(first.text)?.[1]?.replaceAll("&amp;", "&") ?? ""
      const second = yield* get(older)
      isPage(second)
      assert.deepStrictEqual(
        [...second.text.matchAll(/<th scope="row"><a href="\/sandboxes\/(c_\w+)"[^>]*>/gu)].map(([, id]) => id).length,
        1
      )
      assert.isTrue(ids.every((id) => first.text.includes(id) || second.text.includes(id)))
      assert.notInclude(second.text, "rel=\"next\"")
      isPage(yield* get(`${older}x`), 400)
      const other = yield* visitor("stranger")
      isPage(yield* other.get(older), 400)
    }))
})

layer(http(), { excludeTestServices: true })("the page of a sandbox", (it) => {
  it.effect("tells the tokens that its models took, in all and by turn, once there are any", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("tokens")
      const { id, turn } = yield* running(key)
      const usage = { llmRequestCount: 2, costMicroUsd: 120_000, creditsChargedMicros: 0 }
      yield* drive(id, [{ _tag: "ReportUsage", usage }])
      const before = yield* get(`/sandboxes/${id}`)
      assert.include(textOf(before), "Cost $0.1200 , 2 model requests")
      assert.notInclude(before.text, `id="tokens"`)
      yield* drive(id, [
        { _tag: "ReportUsage", usage, tokens: { input: 12_000, cachedInput: 9000, output: 600 } },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" },
        { _tag: "ReportUsage", usage, tokens: { input: 12_345, cachedInput: 9000, output: 678 } }
      ])
      const page = textOf(yield* get(`/sandboxes/${id}?view=log`))
      assert.include(page, "Tokens 12,345 in, 9,000 of them cached, 678 out Created")
      assert.match(page, /Turn 1 Done [^$]*\$0\.1200 2 12,345 in, 9,000 of them cached, 678 out/u)
    }))

  it.effect("shows what was said and done in order, each part once and as text alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const { id, turn } = yield* running(key, { title: HOSTILE, prompt: `Do it ${HOSTILE}` })
      const message = (text: string) => ({
        type: "message.updated" as const,
        data: { part_id: "m:text", message_id: "m", kind: "text" as const, text }
      })
      const tool = (status: "running" | "error") => ({
        type: "tool.updated" as const,
        data: {
          part_id: "tool:c",
          message_id: "t",
          call_id: "c",
          tool: `run ${HOSTILE}`,
          status,
          ...(status === "error" ? { error: `Failed ${HOSTILE}` } : {})
        }
      })
      yield* work(id, turn, message("Half"), tool("running"))
      yield* work(id, turn, message(`All of it ${HOSTILE}`), tool("error"))
      const page = yield* get(`/sandboxes/${id}`)
      isPage(page)
      const items = [
        ...page.text.matchAll(/<li class="item (\w+)" data-key="([^"]+)">([^]*?)\n<\/li>/gu)
      ]
        .map(([, kind, key, text = ""]) => [
          kind,
          key,
          /<code class="what">([^<]*)</u.exec(text)?.[1] ?? "",
          /class="item-text">\n?([^]*?)<\/(?:div|pre)>(?:$|<\/div>)/u.exec(text)?.[1]
        ])
        .filter(([kind]) => kind !== "boot")
      assert.deepStrictEqual(items, [
        ["prompt", `prompt:${turn}`, "", `Do it ${ESCAPED}`],
        ["text", "m:text", "", `<div class="markdown"><p>All of it ${ESCAPED}</p>\n`],
        ["tool", "tool:c", `run ${ESCAPED}`, `Failed ${ESCAPED}`]
      ])
      assert.include(page.text, `title="${ESCAPED}">${ESCAPED}</h1>`)
      assert.include(page.text, `<title>${ESCAPED} · Slipway</title>`)
      assert.notInclude(page.text, HOSTILE)
      assert.include(textOf(page), "Working")
    }))

  it.effect("has one thing to do next in its bar: stop while the agent works, and publish afterwards", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("barkeeper")
      const { id, turn } = yield* running(key)
      const next = Effect.map(get(`/sandboxes/${id}`), ({ text }) =>
        textOf({ text: /<div id="commands"[^]*?<\/div>/u.exec(text)?.[0] ?? "" } as Reply).trim())
      const state = Effect.map(get(`/sandboxes/${id}`), ({ text }) =>
        textOf({ text: /<p id="state"[^]*?<\/p>/u.exec(text)?.[0] ?? "" } as Reply).trim())
      assert.deepStrictEqual([yield* state, yield* next], ["Working", "Stop"])
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.deepStrictEqual([yield* state, yield* next], ["Ready", "Publish draft PR"])
    }))

  it.effect("says why a turn failed: in the agent's or the provider's words, as text alone, or in ours", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("failing")
      const endOf = Effect.fnUntraced(function*(reason?: string, state: "failed" | "succeeded" = "failed") {
        const { id, turn } = yield* running(key)
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state, ...(reason === undefined ? {} : { reason }) }])
        const page = yield* get(`/sandboxes/${id}`)
        isPage(page)
        const [, kind, text] =
          new RegExp(`<li class="item (\\w+)" data-key="turn:${turn}">[^]*?<\\w+ class="item-text">([^<]*)</`, "u").exec(page.text) ?? []
        return [kind, text]
      })
      assert.deepStrictEqual(yield* endOf(`The provider refuses ${HOSTILE}`), ["problem",
        `The turn failed: The provider refuses ${ESCAPED}`])
      assert.deepStrictEqual(yield* endOf("output_limit"), ["problem", "The turn failed: The turn hit its output limit."])
      assert.deepStrictEqual(yield* endOf(), ["problem", "The turn failed"])
      assert.deepStrictEqual(yield* endOf("end_turn", "succeeded"), ["end", "Done"])
    }))

  it.effect("shows the setup: how it stands, and the end of its output as text alone, until it succeeded", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("setting-up")
      const id = yield* create(key)
      const section = Effect.map(get(`/sandboxes/${id}`), (page) => {
        isPage(page)
        assert.notInclude(page.text, HOSTILE)
        return /<section id="setup"[^]*?<\/section>/u.exec(page.text)?.[0] ?? ""
      })
      assert.match(yield* section, /^<section[^>]* hidden>/u)

      const taken = yield* (yield* Leases).take({ worker: "w", machine: "m" }, { slots: 999, boots: 999, errands: 999 })
      const lease = taken.find(({ sandbox }) => sandbox.id === id)?.lease
      if (lease === undefined) return assert.fail("it was not leased")
      const save = (record: Partial<SetupRecord>) =>
        Setups.use((setups) =>
          setups.save(lease, {
            state: "running",
            startedAt: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z"),
            ms: null,
            cache: "none",
            exitCode: null,
            output: "",
            told: "for the agent alone",
            ...record
          })
        )
      const text = (html: string) => textOf({ text: html } as Reply)
      yield* save({ output: `\n$ npm ci\n${HOSTILE}\u202e\n` })
      const running = yield* section
      assert.match(running, /^<section id="setup" data-piece="setup" aria-labelledby="setup-title">/u)
      assert.include(running, "<details open>")
      assert.include(running, `<pre>\n\n$ npm ci\n${ESCAPED}⟨RIGHT-TO-LEFT OVERRIDE⟩\n</pre>`)
      assert.match(text(running), /Setup Running \d+ min \d+ s so far Output/u)
      assert.notInclude(running, "for the agent alone")

      yield* save({ state: "succeeded", ms: 184_400, exitCode: 0, cache: "miss", output: `first\n${"x".repeat(65_540)}\nend\n` })
      const succeeded = yield* section
      // The conversation leads to the output.
      assert.match(succeeded, /^<section[^>]* hidden>/u)
      assert.match(text(succeeded), /Setup Succeeded 3 min 4 s, not cached Output Only the end is shown\. Show all end $/u)

      yield* save({ state: "failed", ms: 812, exitCode: 127, cache: "hit", output: "sh: no such program\n" })
      const failed = yield* section
      assert.include(failed, "<details open>")
      assert.match(text(failed), /Setup Failed 812 ms, from a cache, exit code 127 Output/u)
    }))

  it.effect("begins where its stream goes on: at the newest event it shows", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("cursor")
      const { id } = yield* running(key)
      const store = yield* SandboxStore
      const page = yield* get(`/sandboxes/${id}`)
      const cursor = (yield* store.log(id, 0, 100)).length
      assert.include(page.text, `data-stream="/sandboxes/${id}/pieces" data-cursor="${cursor}">`)
      assert.match(page.text, /<script type="module" src="\/assets\/live-[0-9a-f]{16}\.js">/u)
    }))

  it.effect("shows the last 500 events, and leads to those before", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("long")
      const { id, turn } = yield* running(key)
      const note = (n: number) => ({
        type: "tool.updated" as const,
        data: { part_id: `tool:${n}`, message_id: "t", call_id: `${n}`, tool: `step ${n}.`, status: "completed" as const }
      })
      yield* work(id, turn, ...Array.from({ length: 600 }, (_, n) => note(n)))
      const latest = yield* get(`/sandboxes/${id}`)
      const earlier = /<a href="([^"]+)">Earlier<\/a>/u.exec(latest.text)?.[1] ?? ""
      const before = yield* get(earlier)
      isPage(before)
      const steps = ({ text }: Reply) => [...text.matchAll(/>step (\d+)\.</gu)].map(([, n]) => Number(n))
      assert.deepStrictEqual([...steps(before), ...steps(latest)], Array.from({ length: 600 }, (_, n) => n))
      assert.strictEqual(steps(latest).length, 500)
      // It is of the past: nothing goes on there.
      assert.notInclude(before.text, "data-stream")
      isPage(yield* get(`/sandboxes/${id}?before=x`), 400)
    }))

  it.effect("shows fewer of large events, and every one of them on some page before", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("bulky")
      const { id, turn } = yield* running(key)
      const large = (n: number) => ({
        type: "message.updated" as const,
        data: { part_id: `m${n}:text`, message_id: `m${n}`, kind: "text" as const, text: `step ${n}. ${"x".repeat(300_000)}` }
      })
      for (let n = 0; n < 12; n++) yield* work(id, turn, large(n))
      const steps: Array<number> = []
      let pages = 0
      for (let next = `/sandboxes/${id}`; next !== ""; pages++) {
        const { text } = yield* get(next)
        assert.isBelow(text.length, 1.1 * 2 ** 20)
        steps.unshift(...[...text.matchAll(/>step (\d+)\./gu)].map(([, n]) => Number(n)))
        next = /<a href="([^"]+)">Earlier<\/a>/u.exec(text)?.[1] ?? ""
      }
      assert.deepStrictEqual(steps, Array.from({ length: 12 }, (_, n) => n))
      assert.strictEqual(pages, 4)
    }))

  it.effect("shows what was said of a sandbox whose events are no longer kept", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("archive")
      const { id } = yield* running(key, { prompt: "Long ago" })
      yield* post(`/sandboxes/${id}/terminate`)
      yield* drive(id, [{ _tag: "Release" }])
      yield* (yield* Maintenance).purgeEvents(yield* DateTime.now, 10)
      const page = yield* get(`/sandboxes/${id}`)
      isPage(page)
      assert.match(textOf(page), /The log expired; messages are kept\. .*You .*Long ago/u)
      isPage(yield* get(`/sandboxes/${id}?before=2`))
    }))

  it.effect("is not compressed, because it has a secret of its reader beside text of others", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("packed")
      const id = yield* create(key, { prompt: "word ".repeat(12_000) })
      const page = yield* get(`/sandboxes/${id}`, { "accept-encoding": "br" })
      isPage(page)
      assert.isAbove(page.text.length, 60_000)
      assert.include(page.text, "name=\"csrf\"")
      assert.notProperty(page.headers, "content-encoding")
    }))

  it.effect("shows the prompt while the sandbox waits for its turn", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("waiting")
      const id = yield* create(key, { prompt: "Something to do" })
      const page = yield* get(`/sandboxes/${id}`)
      assert.include(textOf(page), "Model offline/demo (follows a script)")
      assert.match(textOf(page), /State Starting Turn None .* You .*Something to do.*Starting… .*Queue/u)
    }))

  it.effect("of another grant is not there, nor is what is no sandbox, whatever is asked of it", () =>
    Effect.gen(function*() {
      const { get, post } = yield* visitor("nosy")
      const { key } = yield* visitor("private")
      const { id } = yield* running(key, { title: "secret plans" })
      for (const sandbox of [id, "c_aaaaaaaaaaaa", "x", "%3Cscript%3E"]) {
        for (const path of ["", "/changes", "/terminate"]) {
          const page = yield* get(`/sandboxes/${sandbox}${path}`)
          isPage(page, 404)
          assert.notInclude(page.text, "secret plans")
        }
        const forms = {
          "interrupt": {},
          "terminate": {},
          "messages": { prompt: "hi" },
          "messages/x/take-back": {},
          "pull-request": { repo: "acme/shop" },
          "rename": { title: "mine" },
          "pin": { pinned: "yes" },
          "approvals/a": { decision: "approve" }
        }
        for (const [path, fields] of Object.entries(forms)) isPage(yield* post(`/sandboxes/${sandbox}/${path}`, fields), 404)
      }
      const store = yield* SandboxStore
      assert.strictEqual(
        (yield* store.log(id, 0, 100)).some(({ type, wire }) => type === "sandbox.status" && wire.includes("terminat")),
        false
      )
    }))
})

layer(http(), { excludeTestServices: true })("the forms of a sandbox's page", (it) => {
  const asking = Effect.fnUntraced(function*(key: string, id: string, tool?: string) {
    const { id: sandbox, turn } = yield* running(key, { toolApprovalMode: "prompt" })
    yield* drive(sandbox, [{ _tag: "RequestApproval", turnId: turn, approval: approvalOf(id, tool) }])
    return sandbox
  })

  it.effect("decide an approval, once, and say how it went", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("decider")
      const approval = "call/1?&"
      const id = yield* asking(key, approval, `write ${HOSTILE}`)
      const page = yield* get(`/sandboxes/${id}`)
      const action = /<li class="approval" id="[^"]+" tabindex="-1">\s*<form method="post" action="([^"]+)"/u.exec(page.text)?.[1] ?? ""
      assert.strictEqual(action, `/sandboxes/${id}/approvals/${encodeURIComponent(approval)}`)
      assert.include(page.text, `<code>write ${ESCAPED}</code>`)

      isPage(yield* post(action, { decision: "maybe" }), 400)
      isPage(yield* post(action, {}), 400)
      isPage(yield* post(action, { decision: "deny", csrf: "forged" }), 403)
      redirected(yield* post(action, { decision: "approve" }), `/sandboxes/${id}?done=approved`)
      redirected(yield* post(action, { decision: "approve" }), `/sandboxes/${id}?done=duplicate`)
      redirected(yield* post(action, { decision: "deny" }), `/sandboxes/${id}?done=approval_already_resolved`)
      const after = yield* get(`/sandboxes/${id}?done=approval_already_resolved`)
      assert.include(textOf(after), "Already decided; the first decision stands.")
      assert.include(after.text, `<code class="what">write ${ESCAPED}</code>`)
      assert.include(after.text, "<pre class=\"item-text\">\nApproved</pre>")
      assert.notInclude(after.text, `id="approval-${encodeURIComponent(approval)}"`)
      isPage(yield* post(`/sandboxes/${id}/approvals/unknown`, { decision: "approve" }), 404)
    }))

  it.effect("say a command and a path once, and which of those that wait a card is", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("cards")
      const { id, turn } = yield* running(key, { toolApprovalMode: "prompt" })
      const edit = { approval_id: "edit", tool: "Write a.ts", kind: "edit" as const, paths: ["shop/a.ts"] }
      const diff = "--- shop/a.ts\n+++ shop/a.ts\n@@ -1 +1 @@\n-a\n+b\n"
      const command = { approval_id: "run", tool: "npm test", kind: "command" as const, preview: { command: "npm test" } }
      for (const approval of [command, { ...edit, preview: { diff } }]) {
        yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval }])
      }
      const { text } = yield* get(`/sandboxes/${id}`)
      const cards = [...text.matchAll(/<li class="approval"[^]*?<\/li>/gu)].map(([card]) => card)
      const asked = cards.map((card) => textOf({ text: /<div class="asked">([^]*?)<div class="actions">/u.exec(card)?.[1] ?? "" } as Reply))
      assert.strictEqual(asked[0]?.trim(), "npm test")
      assert.strictEqual(asked[1]?.split("shop/a.ts").length, 3, "at its head and in the name of its table")
      assert.deepStrictEqual(cards.map((card) => /\d\/\d/u.exec(card)?.[0]), ["1/2", "2/2"])
      assert.include(cards[0], `<a href="#approval-edit" aria-label="Next approval">`)
      assert.include(cards[1], `<a href="#approval-run" aria-label="Previous approval">`)
    }))

  it.effect("deny with a reason, which the conversation shows, and take none that is too long", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("reasons")
      const id = yield* asking(key, "a")
      const action = `/sandboxes/${id}/approvals/a`
      assert.include((yield* get(`/sandboxes/${id}`)).text, "name=\"reason\"")
      isPage(yield* post(action, { decision: "deny", reason: "x".repeat(2001) }), 400)
      redirected(yield* post(action, { decision: "deny", reason: ` ${HOSTILE}\r\nNot there. ` }), `/sandboxes/${id}?done=denied`)
      assert.include((yield* get(`/sandboxes/${id}`)).text, `Denied: ${ESCAPED}\nNot there.</pre>`)
    }))

  it.effect("approve all of a kind for the rest of the turn, where the agent says of which kind it is", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("kinds")
      const { id, turn } = yield* running(key, { toolApprovalMode: "prompt" })
      const ask = (call: string, kind: "edit" | "other", plain = true) =>
        drive(id, [{ _tag: "RequestApproval", turnId: turn, approval: { ...approvalOf(call), kind, ...(plain ? { plain } : {}) } }])
      yield* ask("other", "other")
      assert.notInclude((yield* get(`/sandboxes/${id}`)).text, "approve_turn")
      isPage(yield* post(`/sandboxes/${id}/approvals/other`, { decision: "approve_turn" }), 409)
      yield* ask("alone", "edit", false)
      assert.notInclude((yield* get(`/sandboxes/${id}`)).text, "approve_turn")
      isPage(yield* post(`/sandboxes/${id}/approvals/alone`, { decision: "approve_turn" }), 409)
      yield* ask("first", "edit")
      assert.match((yield* get(`/sandboxes/${id}`)).text, /value="approve_turn"[^>]*>Approve all edits until the turn ends</u)
      redirected(
        yield* post(`/sandboxes/${id}/approvals/first`, { decision: "approve_turn", reason: "not sent with it" }),
        `/sandboxes/${id}?done=approved_turn`
      )
      yield* ask("second", "edit")
      const page = yield* get(`/sandboxes/${id}?done=approved_turn`)
      assert.include(textOf(page), "Approved, and all further ones of this kind until the turn ends.")
      assert.notInclude(page.text, "id=\"approval-second\"")
      assert.include(page.text, "id=\"approval-alone\"")
      assert.include(page.text, "Approved: automatically, for this turn")
    }))

  it.effect("are answered for a script with what there is to say and the pieces that it changed", () =>
    Effect.gen(function*() {
      const { key, post } = yield* visitor("scripted")
      const id = yield* asking(key, "a")
      yield* asking(key, "b")
      const said = yield* post(`/sandboxes/${id}/approvals/a`, { decision: "approve", live: "yes" })
      isPage(said)
      assert.match(said.text, /^<p class="told">Approved\.<\/p>/u)
      assert.match(said.text, /<section id="approvals"[^>]* hidden>/u)
      assert.include(textOf(said), "Working")
      const again = yield* post(`/sandboxes/${id}/approvals/a`, { decision: "deny", live: "yes" })
      assert.match(again.text, /^<p class="problem">Already decided; the first decision stands\.<\/p>/u)
    }))

  it.effect("do nothing without the token of the session", () =>
    Effect.gen(function*() {
      const { key, post } = yield* visitor("forged")
      const id = yield* asking(key, "c")
      const store = yield* SandboxStore
      const before = (yield* store.log(id, 0, 100)).length
      const forms = {
        "interrupt": {},
        "terminate": {},
        "messages": { prompt: "hi" },
        "messages/x/take-back": {},
        "pull-request": { repo: "acme/shop" },
        "rename": { title: "mine" },
        "pin": { pinned: "yes" },
        "approvals/c": { decision: "approve" }
      }
      for (const [path, fields] of Object.entries(forms)) {
        isPage(yield* post(`/sandboxes/${id}/${path}`, { ...fields, csrf: "" }), 403)
        const stranger = yield* ask(`/sandboxes/${id}/${path}`, {
          method: "POST",
          body: "csrf=x",
          headers: { "content-type": "application/x-www-form-urlencoded" }
        })
        assert.strictEqual(stranger.status, 303)
        assert.match(String(stranger.headers["location"]), /^\/sign-in/u)
      }
      assert.strictEqual((yield* store.log(id, 0, 100)).length, before)
    }))

  it.effect("rename the sandbox wherever its title is shown, also after its end, and take no title that is too long", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("renamer")
      const { id } = yield* running(key, { title: "Before" })
      redirected(yield* post(`/sandboxes/${id}/rename`, { title: `  ${HOSTILE}   a ` }), `/sandboxes/${id}?done=renamed`)
      const page = yield* get(`/sandboxes/${id}?done=renamed`)
      isPage(page)
      for (
        const shown of [`<title>${ESCAPED} a · Slipway</title>`, `data-piece="title" title="${ESCAPED} a">${ESCAPED} a</h1>`,
          `name="title" type="text" required value="${ESCAPED} a"`, `Renamed: ${ESCAPED} a`]
      ) assert.include(page.text, shown)
      assert.include(textOf(page), "Renamed.")
      for (const path of ["/sandboxes", "/sandboxes/titles?search=", `/sandboxes/waiting?at=${id}`]) {
        const { text } = yield* get(path)
        assert.include(text, `${ESCAPED} a`, path)
        assert.notInclude(text, "Before", path)
      }
      redirected(yield* post(`/sandboxes/${id}/rename`, { title: `${HOSTILE} a` }), `/sandboxes/${id}?done=duplicate`)
      for (const title of ["", "  ", "x".repeat(121)]) {
        const refused = yield* post(`/sandboxes/${id}/rename`, { title })
        isPage(refused, 400)
        assert.include(textOf(refused), "Titles have 1 to 120 characters.")
      }
      isPage(yield* post(`/sandboxes/${id}/rename`, {}), 400)
      yield* post(`/sandboxes/${id}/terminate`)
      const said = yield* post(`/sandboxes/${id}/rename`, { title: "After", live: "yes" })
      assert.match(said.text, /^<p class="told">Renamed\.<\/p>/u)
      assert.include(said.text, `title="After">After</h1>`)
    }))

  it.effect("pin sandboxes to the top of their person's list and rail, and of no other person's", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("pinner")
      const { get, key, post } = reader
      const other = yield* browserOf(yield* joined("another-pinner"), reader.grantId)
      const old = yield* create(key, { title: "Old" })
      const { id } = yield* running(key, { title: "New" })
      const orderOf = ({ text }: Reply) => [...text.matchAll(/<th scope="row(?:group)?"[^>]*>(?:<a [^>]*>)?([^<]*)</gu)].map(([, it]) => it)
      assert.deepStrictEqual(orderOf(yield* get("/sandboxes")), ["Working", "New", "Starting", "Old"])

      redirected(yield* post(`/sandboxes/${old}/pin`, { pinned: "yes", next: "/sandboxes" }), "/sandboxes?done=pinned")
      const list = yield* get("/sandboxes?done=pinned")
      isPage(list)
      assert.include(textOf(list), "Pinned.")
      assert.deepStrictEqual(orderOf(list), ["Pinned", "Old", "Working", "New"])
      assert.deepStrictEqual(orderOf(yield* get("/sandboxes?state=working")), ["New"])
      assert.deepStrictEqual(orderOf(yield* get("/sandboxes?state=starting")), ["Pinned", "Old"])
      assert.match(list.text, new RegExp(`formaction="/sandboxes/${old}/pin" name="pinned" value="no"`, "u"))
      assert.match(list.text, new RegExp(`formaction="/sandboxes/${id}/pin" name="pinned" value="yes"`, "u"))
      const rail = yield* get(`/sandboxes/waiting?at=${old}`)
      assert.match(rail.text, /<ul aria-label="Pinned">\n<li><a href="[^"]*" title="Old" aria-current="page">Old<\/a><\/li>\n<\/ul>/u)
      assert.lengthOf(rail.text.match(/>Old</gu) ?? [], 1)
      assert.deepStrictEqual(orderOf(yield* other.get("/sandboxes")), ["Working", "New", "Starting", "Old"])

      const said = yield* post(`/sandboxes/${old}/pin`, { pinned: "no", live: "yes" })
      assert.match(said.text, /^<p class="told">Unpinned\.<\/p>/u)
      assert.match(said.text, /<form id="pin"[^]*? value="yes" class="quiet">Pin</u)
      assert.deepStrictEqual(orderOf(yield* get("/sandboxes")), ["Working", "New", "Starting", "Old"])
      isPage(yield* post(`/sandboxes/${old}/pin`, { pinned: "maybe" }), 400)
    }))

  it.effect("interrupt the turn, send the next prompt, and end the sandbox after asking", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("commander")
      const { id, turn } = yield* running(key)
      const busy = yield* post(`/sandboxes/${id}/messages`, { prompt: "next" })
      isPage(busy, 409)
      assert.include(textOf(busy), "A turn is active.")
      redirected(yield* post(`/sandboxes/${id}/interrupt`), `/sandboxes/${id}?done=interrupted`)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "interrupted" }])
      redirected(yield* post(`/sandboxes/${id}/interrupt`), `/sandboxes/${id}?done=duplicate`)
      isPage(yield* post(`/sandboxes/${id}/messages`, { prompt: "" }), 400)
      redirected(yield* post(`/sandboxes/${id}/messages`, { prompt: "one\r\ntwo" }), `/sandboxes/${id}?done=sent`)
      assert.include((yield* get(`/sandboxes/${id}?done=sent`)).text, "<div class=\"item-text\">one\ntwo</div>")

      const asked = yield* get(`/sandboxes/${id}/terminate`)
      isPage(asked)
      assert.include(textOf(asked), "End this sandbox?")
      redirected(yield* post(`/sandboxes/${id}/terminate`), `/sandboxes/${id}?done=terminated`)
      redirected(yield* post(`/sandboxes/${id}/terminate`), `/sandboxes/${id}?done=duplicate`)
      redirected(yield* post(`/sandboxes/${id}/interrupt`), `/sandboxes/${id}?done=sandbox_terminal`)
      isPage(yield* post(`/sandboxes/${id}/messages`, { prompt: "more" }), 409)
      isPage(yield* post(`/sandboxes/${id}/pull-request`, { repo: "acme/shop" }), 409)
      isPage(yield* post(`/sandboxes/${id}/pull-request`, { repo: "acme/other" }), 404)
      assert.include(textOf(yield* get(`/sandboxes/${id}?done=<b>`)), "Ended Ended by a person.")
    }))
})

const text = (content: string): FileVersion => ({ content, hash: "0".repeat(40), ref: "working", size: content.length, binary: false })
const file = (path: string, more: Partial<ChangedFile> = {}): ChangedFile => ({
  path,
  status: "modified",
  additions: 1,
  deletions: 1,
  previousPath: null,
  ...more
})

const CONTENTS: Record<string, { readonly working: FileVersion; readonly base: FileVersion }> = {
  "src/a.ts": { base: text("one\ntwo\n"), working: text(`one\n${HOSTILE}\r\n`) },
  [HOSTILE]: { base: null, working: text("new") },
  "image": { base: null, working: { content: null, hash: "0".repeat(40), ref: "working", size: 7, binary: true } },
  "was": { base: text("moved\n"), working: null },
  "is": { base: null, working: text("moved\nmore\n") },
  "long": { base: null, working: text(`${"x".repeat(1_000)}\n${"y\n".repeat(3_000)}`) },
  ".env": { base: text("SECRET=1"), working: null }
}
const PATCH = `diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,2 +1,2 @@
 one
-const a = 1
+const a = 2
diff --git "a/${HOSTILE.replaceAll("\"", "\\\"")}" "b/${HOSTILE.replaceAll("\"", "\\\"")}"
new file mode 100644
index 0..1
--- /dev/null
+++ "b/${HOSTILE.replaceAll("\"", "\\\"")}"
@@ -0,0 +1 @@
+new ${HOSTILE}
# Protected file modified: .env
`

/** A page as it comes. */
const comingPage = Effect.fnUntraced(function*({ cookie }: { readonly cookie: string }, path: string) {
  const { host, port } = yield* address
  const { body } = yield* Effect.promise(() => fetch(`http://${host}:${port}${path}`, { headers: { cookie } }))
  assert(body !== null)
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  /** Reads until the text has this. */
  const until = (part: string) =>
    Effect.promise(async () => {
      let text = ""
      while (!text.includes(part)) {
        const { done, value = "" } = await reader.read()
        if (done) return text
        text += value
      }
      return text
    })
  return { until }
})

/** Sandboxes whose box is made anew while git compares their trees the next time. */
const brokenOff = new Set<string>()
/** Comparisons that git is slow to finish, by sandbox. */
const slow = new Map<string, Deferred.Deferred<Uint8Array>>()
/** Sandboxes whose agent wrote a file meanwhile. */
const wrote = new Set<string>()

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: ({ sandboxId }) =>
    Effect.sync(() =>
      brokenOff.delete(sandboxId) ? { files: [], partialWarnings: ["unreadable_entries"] } : {
        files: [
          file(".env", { additions: 0, deletions: 0 }),
          file(HOSTILE, { status: "untracked", deletions: 0 }),
          file("image", { status: "untracked", additions: 0, deletions: 0 }),
          file("is", { status: "renamed", previousPath: "was" }),
          file("long", { status: "untracked" }),
          file("src/a.ts"),
          ...(wrote.has(sandboxId) ? [file("written.ts")] : [])
        ],
        partialWarnings: ["entries_truncated"]
      }
    ),
  diff: ({ sandboxId }) => {
    const found = slow.get(sandboxId)
    return found === undefined ? Effect.succeed(Buffer.from(PATCH)) : Deferred.await(found)
  },
  list: () => Effect.fail(new FileNotFound()),
  compare: (_, path) => {
    const { base = null, working = null } = CONTENTS[path] ?? {}
    return Effect.succeed({ base, working, head: base })
  }
}

/** The content of a frame of the stream, and the id after it. */
const frameOf = (block: string | null) => {
  assert(block !== null, "the stream ended")
  const lines = block.split("\n")
  const html = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length)).join("\n")
  return { html, id: lines.find((line) => line.startsWith("id: "))?.slice("id: ".length) ?? null }
}

const tool = (id: string, status: "running" | "completed", detail: { readonly command?: string; readonly output?: string } = {}) => ({
  type: "tool.updated" as const,
  data: { part_id: `tool:${id}`, message_id: "t", call_id: id, tool: "shell", status, detail }
})

layer(http({ trees }), { excludeTestServices: true })("the stream of a sandbox's page", (it) => {
  /** A page's stream from its newest event on, without its first line. */
  const followed = Effect.fnUntraced(function*({ follow, get }: Effect.Success<ReturnType<typeof visitor>>, id: string) {
    const { text } = yield* get(`/sandboxes/${id}`)
    const cursor = Number(/data-cursor="(\d+)"/u.exec(text)?.[1])
    const stream = yield* follow(`/sandboxes/${id}/pieces?since=${cursor}`)
    assert.deepStrictEqual([stream.status, stream.headers["content-type"]], [200, "text/event-stream; charset=utf-8"])
    assert.match(yield* Effect.map(stream.next, String), /^retry: \d+$/u)
    /** The next frame whose HTML has the text; those before are left out. */
    const until = Effect.fnUntraced(function*(text: string) {
      for (;;) {
        const frame = frameOf(yield* stream.next)
        if (frame.html.includes(text)) return frame
      }
    })
    return { stream, until, cursor }
  })

  it.effect("says what changed as the page would have it, each item of the conversation whole, and nothing else", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("follower")
      const { id, turn } = yield* running(reader.key)
      yield* work(id, turn, tool("c", "running", { command: `rm ${HOSTILE}` }))
      const { cursor, until } = yield* followed(reader, id)
      yield* work(id, turn, tool("c", "completed", { output: `gone ${HOSTILE}` }))
      const done = yield* until("gone")
      assert.strictEqual(done.id, String(cursor + 1))
      assert.match(
        done.html,
        /^<ol data-piece="conversation" data-changes><li class="item tool" data-key="tool:c"[^>]*>[^]*<\/li>\n<\/ol>$/u
      )
      // It began before the stream did.
      assert.include(done.html, `<code class="what">shell</code>`)
      assert.include(done.html, `<pre class="item-text">\nrm ${ESCAPED}\ngone ${ESCAPED}</pre>`)
      const page = yield* reader.get(`/sandboxes/${id}`)
      assert.include(page.text, done.html.replace(/^<ol[^>]*>|<\/ol>$/gu, ""))

      yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval: approvalOf("a", `write ${HOSTILE}`) }])
      const asks = yield* until("data-piece=\"approvals\"")
      const now = yield* reader.get(`/sandboxes/${id}`)
      for (const piece of ["approvals", "facts", "commands"]) {
        const [shown = ""] = new RegExp(`<(\\w+)[^>]* data-piece="${piece}"[^]*?</\\1>`, "u").exec(asks.html) ?? []
        assert.include(now.text, shown)
      }
      assert.include(asks.html, `role="status">The agent asks to be allowed: write ${ESCAPED}</p>`)
      assert.notInclude(asks.html, "data-piece=\"pulls\"")
    }))

  it.effect("brings what changed again while the agent works", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("watcher")
      const { id, turn } = yield* running(reader.key)
      const { until } = yield* followed(reader, id)
      assert.notInclude((yield* until("data-piece=\"changes\"")).html, "written.ts")
      wrote.add(id)
      yield* work(id, turn, tool("c", "completed"))
      assert.include((yield* until("data-piece=\"changes\"")).html, "written.ts")
    }))

  it.effect("gives the first prompt, which stays where it is, the name of its turn", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("beginner")
      const id = yield* create(reader.key, { prompt: "Something to do" })
      assert.include((yield* reader.get(`/sandboxes/${id}`)).text, "data-key=\"prompt:first\"")
      const { until } = yield* followed(reader, id)
      const turn = yield* turnOf(id)
      yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turn }, { _tag: "StartTurn", turnId: turn }])
      const started = yield* until("Something to do")
      assert.include(started.html, `<li data-key="prompt:first" data-becomes="prompt:${turn}"></li>`)
      assert.include(started.html, `data-key="prompt:${turn}"`)
    }))

  it.effect("brings at first what a page does not wait for, and to whom comes back all that may be lost", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("patient")
      const { id, turn } = yield* running(reader.key)
      assert.include((yield* reader.get(`/sandboxes/${id}`)).text, "<div id=\"changes\" data-piece=\"changes\"></div>")
      const { cursor, until } = yield* followed(reader, id)
      const { html, id: at } = yield* until("data-piece=\"changes\"")
      assert.include(html, `<a href="/sandboxes/${id}/changes?repo=acme%2Fshop&amp;path=src%2Fa.ts">src/a.ts</a>`)
      // No client goes on from there.
      assert.isNull(at)
      assert.match(html, /<section id="timeline" data-piece="timeline"[^>]*>[^]*<rect class="idle|<rect class="turn"/u)
      const view = yield* reader.get(`/sandboxes/${id}?view=changes`)
      assert.include(view.text, html.slice(html.indexOf("<div id=\"changes\"")).trim())
      assert.include(view.text, `href="/sandboxes/${id}?view=log"`)
      const timeline = yield* reader.get(`/sandboxes/${id}?view=log`)
      assert.include(timeline.text, "Where the time went")
      assert.include(timeline.text, "<svg class=\"timeline\"")

      const headers = { cookie: reader.cookie, "last-event-id": String(cursor) }
      assert.notMatch(html, /data-piece="(?:setup|checkpoints)"/u)
      const { id: last } = yield* Effect.andThen(work(id, turn, tool("one", "completed")), until("data-key=\"tool:one\""))
      for (const [path, more] of [["since=0", headers], [`since=${last}&back`, { cookie: reader.cookie }]] as const) {
        const again = yield* openStream(`/sandboxes/${id}/pieces?${path}`, { headers: more })
        yield* again.next
        let told = ""
        while (!told.includes("data-piece=\"changes\"")) told += frameOf(yield* again.next).html
        for (const piece of ["setup", "pulls", "checkpoints", "timeline"]) assert.include(told, `data-piece="${piece}"`, path)
      }
    }))

  it.effect("tells who lost the connection at the end of a sandbox what came last, and nothing for good who has it", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("late")
      const { id } = yield* running(reader.key)
      yield* reader.post(`/sandboxes/${id}/terminate`)
      yield* drive(id, [{ _tag: "Release" }])
      const cursor = /data-cursor="(\d+)"/u.exec((yield* reader.get(`/sandboxes/${id}`)).text)?.[1] ?? ""
      const back = yield* openStream(`/sandboxes/${id}/pieces?since=0`, { headers: { cookie: reader.cookie, "last-event-id": cursor } })
      assert.match((yield* back.rest).join("\n"), /data-piece="pulls"[^]*data-piece="timeline"[^]*event: over\ndata:$/u)
      assert.strictEqual((yield* reader.get(`/sandboxes/${id}/pieces?since=${cursor}`)).status, 204)
    }))

  it.effect("tries the files changed again that could not be compared just now, and no event tells when they can", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("unlucky")
      const { id } = yield* running(reader.key)
      brokenOff.add(id)
      const { until } = yield* followed(reader, id)
      assert.include((yield* until("data-piece=\"changes\"")).html, "The changes could not be loaded")
      const { html } = yield* until("data-piece=\"changes\"")
      assert.include(html, "src/a.ts</a>")
      assert.notInclude(html, "data-again")
    }))

  it.effect("goes on after the event that a browser names, and ends with the sandbox, for good", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("comeback")
      const { id, turn } = yield* running(reader.key)
      const { cursor } = yield* followed(reader, id)
      yield* work(id, turn, tool("one", "completed"), tool("two", "completed"))
      const { cookie } = reader
      const again = yield* openStream(`/sandboxes/${id}/pieces?since=0`, { headers: { cookie, "last-event-id": String(cursor + 1) } })
      yield* again.next
      let next = frameOf(yield* again.next)
      // Events that may have been lost beside it come when they are ready.
      while (next.id === null) next = frameOf(yield* again.next)
      const { html, id: at } = next
      assert.deepStrictEqual([...html.matchAll(/data-key="([^"]+)"/gu)].map(([, key]) => key), ["tool:two"])
      assert.strictEqual(at, String(cursor + 2))
      yield* reader.post(`/sandboxes/${id}/terminate`)
      yield* drive(id, [{ _tag: "Release" }])
      const rest = yield* again.rest
      assert.match(rest.join("\n"), /Ended by a person[^]*event: over\ndata:$/u)
      const last = frameOf(rest.findLast((block) => block.startsWith("id: ")) ?? null).id
      assert.strictEqual((yield* reader.get(`/sandboxes/${id}/pieces?since=${last}`)).status, 204)
    }))

  it.effect("is for those alone who may see the sandbox, and from a place in its log", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("insider")
      const { id } = yield* running(reader.key)
      const stranger = yield* visitor("outsider")
      isPage(yield* stranger.get(`/sandboxes/${id}/pieces?since=0`), 404)
      for (const query of ["", "?since=x", "?since=-1", "?since=999999"]) isPage(yield* reader.get(`/sandboxes/${id}/pieces${query}`), 400)
      isPage(yield* ask(`/sandboxes/${id}/pieces?since=0`, { headers: { accept: "text/event-stream" } }), 401)
    }))
})

/** A piece as a page has it. */
const pieceOf = ({ text }: Pick<Reply, "text">, name: string): string =>
  new RegExp(`<(section|form|div|p) id="${name}" data-piece="${name}"[^]*?</\\1>\n*`, "u").exec(text)?.[0].trim() ??
    assert.fail(`no ${name} in ${text}`)

const PLAIN = { ...offlineDemo, id: "opencode/plain", profile: "opencode" }

layer(http({ trees, catalogue: { default: offlineDemo.id, models: [offlineDemo, PLAIN] } }), { excludeTestServices: true })(
  "messages during a turn",
  (it) => {
    it.effect("are queued or steer, as the buttons say, are shown in their order, and can be taken back", () =>
      Effect.gen(function*() {
        const { get, key, post } = yield* visitor("queuer")
        const { id, turn } = yield* running(key)
        const at = `/sandboxes/${id}`
        const send = (prompt: string, whenBusy: string) => post(`${at}/messages`, { prompt, whenBusy })
        const page = yield* get(at)
        assert.match(pieceOf(page, "queue"), / hidden>/u)
        assert.notMatch(pieceOf(page, "message"), /^<form[^>]* hidden>/u)
        assert.deepStrictEqual([...pieceOf(page, "message").matchAll(/value="(queue|steer)"[^>]*>(\w+)/gu)].map(([, ...said]) => said), [
          ["queue", "Queue"],
          ["steer", "Steer"]
        ])
        redirected(yield* send(`${HOSTILE}\r\n${"x".repeat(2000)}`, "queue"), `${at}?done=queued`)
        redirected(yield* send("Then this", "queue"), `${at}?done=queued`)
        redirected(yield* send("Now this", "steer"), `${at}?done=steers`)
        isPage(yield* send("x", "later"), 400)
        const told = yield* get(`${at}?done=steers`)
        isPage(told)
        assert.include(textOf(told), "Steering…")
        const shown = pieceOf(told, "queue")
        assert.deepStrictEqual(
          [...shown.matchAll(/<span class="state wait">(\w+)<\/span>\s*<span>(\d of \d)/gu)].map(([, ...said]) => said),
          [["Steering", "1 of 3"], ["Queued", "2 of 3"], ["Queued", "3 of 3"]]
        )
        assert.include(shown, ESCAPED)
        assert.isBelow(shown.length, 5000, "long texts are cut")
        const [steering, first, second] = [yield* turnOf(id, 4), yield* turnOf(id, 2), yield* turnOf(id, 3)]
        redirected(yield* post(`${at}/messages/${first}/take-back`), `${at}?done=taken_back`)
        redirected(yield* post(`${at}/messages/${first}/take-back`), `${at}?done=duplicate`)
        isPage(yield* post(`${at}/messages/unknown/take-back`), 404)
        isPage(yield* post(`${at}/messages/${"x".repeat(301)}/take-back`), 404)
        yield* drive(id, [{ _tag: "RecordSteer", turnId: turn, messageId: steering }])
        const late = yield* post(`${at}/messages/${steering}/take-back`)
        isPage(late, 409)
        assert.include(textOf(late), "This message waits no longer")
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
        assert.include(textOf(yield* post(`${at}/messages/${second}/take-back`)), "The turn of this message is active already.")
        assert.match(pieceOf(yield* get(at), "queue"), / hidden>/u)
      }))

    it.effect("are not offered to steer an agent that takes none, and not said to wait where no turn is active", () =>
      Effect.gen(function*() {
        const { get, key, post } = yield* visitor("plain")
        const { id, turn } = yield* running(key, { model: PLAIN.id })
        const offered = Effect.map(get(`/sandboxes/${id}`), (page) => pieceOf(page, "message"))
        assert.notInclude(yield* offered, "Steer")
        assert.include(yield* offered, ">Queue</button>")
        isPage(yield* post(`/sandboxes/${id}/messages`, { prompt: "x", whenBusy: "steer" }), 409)
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
        assert.match(yield* offered, />Send<\/button>/u)
        assert.notMatch(yield* offered, /Queue|Steer|A turn is active/u)
        redirected(yield* post(`/sandboxes/${id}/messages`, { prompt: "x", whenBusy: "queue" }), `/sandboxes/${id}?done=sent`)
        yield* post(`/sandboxes/${id}/terminate`)
        assert.match(yield* offered, /^<form[^>]* hidden>/u)
      }))

    it.effect("are at most ten and 60,000 characters of any kind, and the page says so", () =>
      Effect.gen(function*() {
        const { get, key, post } = yield* visitor("full")
        const { id } = yield* running(key)
        const send = (prompt: string) => post(`/sandboxes/${id}/messages`, { prompt, whenBusy: "queue" })
        const long = yield* send("\u{1f600}".repeat(60_001))
        isPage(long, 400)
        assert.include(textOf(long), "Messages can have up to 60,000 characters (yours: 60,001).")
        isPage(yield* send("x".repeat(800_000)), 413)
        redirected(yield* send("\u{1f600}".repeat(60_000)), `/sandboxes/${id}?done=queued`)
        for (let n = 1; n < 10; n++) yield* send(`${n}`)
        const full = yield* get(`/sandboxes/${id}`)
        assert.include(pieceOf(full, "queue"), "The queue is full (10).")
        assert.match(pieceOf(full, "message"), /aria-describedby="prompt-hint queue-full"/u)
        const refused = yield* send("Eleventh")
        isPage(refused, 409)
        assert.include(textOf(refused), "Take one back")
        yield* post(`/sandboxes/${id}/messages/${yield* turnOf(id, 5)}/take-back`)
        assert.notInclude((yield* get(`/sandboxes/${id}`)).text, "queue is full")
      }))

    it.effect("come back whole for a script, which puts them where they can be changed, and change the page that is open", () =>
      Effect.gen(function*() {
        const { cookie, get, key, post } = yield* visitor("live")
        const { id } = yield* running(key)
        const cursor = /data-cursor="(\d+)"/u.exec((yield* get(`/sandboxes/${id}`)).text)?.[1] ?? ""
        const stream = yield* openStream(`/sandboxes/${id}/pieces?since=${cursor}`, { headers: { cookie } })
        const until = Effect.fnUntraced(function*(text: string) {
          for (;;) {
            const { html, id } = frameOf(yield* stream.next)
            if (id !== null && html.includes(text)) return html
          }
        })
        const prompt = `${HOSTILE}\n\n${"long ".repeat(500)}`
        const said = yield* post(`/sandboxes/${id}/messages`, { prompt, whenBusy: "queue", live: "yes" })
        assert.match(said.text, /^<p class="told">Queued\.<\/p>/u)
        const queued = yield* until("data-piece=\"queue\"")
        assert.strictEqual(pieceOf({ text: queued }, "queue"), pieceOf(said, "queue"))
        const back = yield* post(`/sandboxes/${id}/messages/${yield* turnOf(id, 2)}/take-back`, { live: "yes" })
        assert.match(back.text, /^<p class="told">Removed from the queue\.<\/p>/u)
        assert.include(back.text, `<div hidden data-fill="prompt" data-text="${ESCAPED}\n\n${"long ".repeat(500)}"></div>`)
        assert.match(pieceOf({ text: yield* until("data-piece=\"queue\"") }, "queue"), / hidden>/u)
        const again = yield* post(`/sandboxes/${id}/messages/${yield* turnOf(id, 2)}/take-back`, { live: "yes" })
        assert.notInclude(again.text, "data-fill")
      }))
  }
)

layer(http({ trees }), { excludeTestServices: true })("the files changed", (it) => {
  it.effect("stand one below the other, each with the words that changed, and protected ones by name alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader-of-all")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/changes`)
      isPage(page)
      const [, place = ""] = /href="#(file-\d+)"[^>]*>src\/a\.ts<\/a>/u.exec(page.text) ?? []
      assert.include(page.text, `<details class="changed-file" id="${place}" open><summary><span class="path">src/a.ts</span>`)
      assert.include(page.text, `<span class="keyword">const</span> a = <del><span class="value">1</span></del>`)
      assert.include(page.text, `<span class="keyword">const</span> a = <ins><span class="value">2</span></ins>`)
      assert.include(page.text, `aria-label="Changed lines of ${ESCAPED}"`)
      assert.include(page.text, `>new ${ESCAPED}<`)
      assert.notInclude(page.text, HOSTILE)
      assert.notInclude(page.text, "SECRET")
      // A change without a patch leads to its own page.
      assert.include(page.text, `/changes?repo=acme%2Fshop&amp;path=image"`)
    }))

  it.effect("come after the beginning of the page, which does not wait for git, and so does their failure", () =>
    Effect.gen(function*() {
      const reader = yield* visitor("reviewer-in-a-hurry")
      for (const isFound of [true, false]) {
        const { id } = yield* running(reader.key)
        const found = yield* Deferred.make<Uint8Array>()
        slow.set(id, found)
        const { until } = yield* comingPage(reader, `/sandboxes/${id}/changes`)
        assert.match(yield* until("loading"), /<h1>Files changed<\/h1>[^]*<p class="loading" role="status">Loading changes…<\/p>$/u)
        yield* isFound ? Deferred.succeed(found, Buffer.from(PATCH)) : Deferred.die(found, "no box")
        const end = yield* until("</html>\n")
        assert.include(end, isFound ? `<span class="path">src/a.ts</span>` : `<p class="problem">The server could not finish the request`)
      }
    }))

  it.effect("have a button at each line, which leads to a message that begins with the line", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("commenter")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/changes`)
      isPage(page)
      const [, form = "", place] = /<form id="(comment-file-\d+)" method="get" action="[^"]+" data-place="(src[^"]+)">/u.exec(page.text) ??
        []
      assert.strictEqual(place, "src/a.ts")
      const buttons = [
        ...page.text.matchAll(
          new RegExp(`<button form="${form}" name="line" value="([^"]+)" class="comment-on" aria-label="([^"]+)"`, "gu")
        )
      ]
      assert.deepStrictEqual(buttons.map(([, value, label]) => [value, label]), [
        ["1", "Comment on line 1"],
        ["-2", "Comment on removed line 2"],
        ["2", "Comment on line 2"]
      ])
      const messageOf = ({ text }: Reply) => /<textarea id="prompt"[^>]*>\n([^<]*)<\/textarea>/u.exec(text)?.[1]
      assert.strictEqual(messageOf(page), "")
      const on = (line: string, more = {}) =>
        get(`/sandboxes/${id}/changes?${new URLSearchParams({ repo: "acme/shop", path: "src/a.ts", line, ...more })}`)
      assert.strictEqual(messageOf(yield* on("2")), "src/a.ts:2\n&gt; const a = 2\n\n")
      assert.strictEqual(messageOf(yield* on("-2")), "src/a.ts:2 (removed)\n&gt; const a = 1\n\n")
      assert.strictEqual(messageOf(yield* on("9")), "src/a.ts:9\n\n")
      assert.strictEqual(messageOf(yield* on("1", { to: "base" })), "src/a.ts:1 (where the sandbox started)\n&gt; one\n\n")
      const hostile = yield* on("1", { path: HOSTILE })
      isPage(hostile)
      assert.strictEqual(messageOf(hostile), `${ESCAPED}:1\n&gt; new ${ESCAPED}\n\n`)
      assert.strictEqual(messageOf(yield* on("1", { path: ".env" })), "")
      for (const line of ["0", "x", "1.5", "9".repeat(10)]) isPage(yield* on(line), 400)
      yield* post(`/sandboxes/${id}/terminate`)
      // A sandbox that has ended takes no messages.
      assert.notInclude((yield* get(`/sandboxes/${id}/changes`)).text, "comment-on")
    }))

  it.effect("stand beside each other where the address or the last choice says so, with all that a unified diff has", () =>
    Effect.gen(function*() {
      const { cookie, get, key } = yield* visitor("splitter")
      const { id } = yield* running(key)
      const address = `/sandboxes/${id}/changes`
      const unified = yield* get(address)
      assert.notInclude(unified.text, "diff code split")
      const link = new URLSearchParams({ repo: "acme/shop", layout: "split" }).toString()
      assert.include(unified.text, `href="${address}?${link.replace("&", "&amp;")}"`)
      const page = yield* get(`${address}?${link}`)
      isPage(page)
      const halves = [...page.text.matchAll(/<tr>(<td class="number.*?)<\/tr>/gsu)].map(([, row = ""]) =>
        [...row.matchAll(/<td class="(?:number (?<of>[^"]+)">(?<number>\d+)|(?<none>none)")/gu)].map(({ groups = {} }) =>
          groups["none"] ?? `${groups["of"]} ${groups["number"]}`
        )
      )
      assert.deepInclude(halves, ["old context 1", "now context 1"])
      assert.deepInclude(halves, ["old removed 2", "now added 2"])
      assert.match(page.text, /<tr><td class="none" colspan="3"><\/td><td class="number now added">/u)
      assert.include(page.text, `<span class="keyword">const</span> a = <ins><span class="value">2</span></ins>`)
      const commented = ({ text }: Reply) => [...text.matchAll(/name="line" value="([^"]+)"/gu)].map(([, line]) => line)
      assert.deepStrictEqual(commented(page), commented(unified))
      // Links of the page keep the layout.
      assert.include(page.text, `/changes?repo=acme%2Fshop&amp;layout=split&amp;path=src%2Fa.ts"`)
      const alone = yield* get(`${address}?${link}&path=src/a.ts`)
      assert.include(alone.text, "diff code split")
      assert.include(alone.text, `<input type="hidden" name="layout" value="split">`)

      const kept = String(page.headers["set-cookie"])
      assert.match(kept, /^__Host-slipway_diff=split; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/u)
      const withCookie = { cookie: `${cookie}; ${kept.split(";", 1)[0]}` }
      const later = yield* get(address, withCookie)
      assert.include(later.text, "diff code split")
      assert.isUndefined(later.headers["set-cookie"])
      const back = yield* get(`${address}?layout=unified`, withCookie)
      assert.notInclude(back.text, "diff code split")
      assert.include(String(back.headers["set-cookie"]), "slipway_diff=unified;")
      assert.notInclude((yield* get(address, { cookie: `${cookie}; __Host-slipway_diff=<b>` })).text, "diff code split")
      isPage(yield* get(`${address}?layout=<b>`), 400)
    }))

  it.effect("are those between two checkpoints where the address names them", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader-of-turns")
      const { id } = yield* running(key)
      isPage(yield* get(`/sandboxes/${id}/changes?from=1&to=2`), 404)
      isPage(yield* get(`/sandboxes/${id}/changes?from=-1`), 400)
      isPage(yield* get(`/sandboxes/${id}/changes?from=${encodeURIComponent(HOSTILE)}`), 400)
      const none = yield* get(`/sandboxes/${id}/changes?from=base&to=base`)
      isPage(none)
      // A patch is what it is: the page shows the files that it names.
      assert.include(textOf(none), "From where the sandbox started to where the sandbox started.")
      assert.include(none.text, `<span class="path">src/a.ts</span>`)
      assert.include(none.text, `/changes?repo=acme%2Fshop&amp;from=base&amp;to=base&amp;path=src%2Fa.ts`)
    }))

  it.effect("are listed with their lines, protected ones by name alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reviewer")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/changes`)
      isPage(page)
      assert.include(textOf(page), "Some changes are hidden.")
      assert.include(textOf(page), ".env modified protected: hidden")
      assert.include(textOf(page), "src/a.ts modified +1 lines added −1 lines removed")
      assert.include(textOf(page), "is renamed +1 lines added −1 lines removed was was")
      assert.include(page.text, `>${ESCAPED}</a>`)
      assert.notInclude(page.text, "changes?repo=acme%2Fshop&amp;path=.env")
      assert.notInclude(page.text, HOSTILE)
    }))

  it.effect("are compared with where the sandbox started, line by line, as text alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("differ")
      const { id } = yield* running(key)
      const of = (path: string) => get(`/sandboxes/${id}/changes?${new URLSearchParams({ repo: "ACME/shop", path })}`)
      const rows = ({ text }: Reply) =>
        [...text.matchAll(
          /<tr class="(context|added|removed)"><td class="number">(\d*)<\/td><td class="number">(\d*)<\/td>.*<code>(.*)<\/code>/gu
        )]
          .map(([, kind, before, after, line]) => [kind, before, after, line?.replaceAll(/<[^>]*>/gu, "")])
      const changed = yield* of("src/a.ts")
      isPage(changed)
      assert.deepStrictEqual(rows(changed), [
        ["context", "1", "1", "one"],
        ["removed", "2", "", "two"],
        ["added", "", "2", `${ESCAPED} CR LF`]
      ])
      assert.include(changed.text, "@@ -1,2 +1,2 @@")
      assert.deepStrictEqual(rows(yield* of(HOSTILE)), [["added", "", "1", "new no line end at the end of the file"]])
      assert.deepStrictEqual(rows(yield* of("is")), [["context", "1", "1", "moved"], ["added", "", "2", "more"]])
      assert.include(textOf(yield* of("image")), "A binary file: new, 7 bytes now.")
      const long = yield* of("long")
      assert.deepStrictEqual([rows(long).length, rows(long)[0]?.[3]], [2_000, `${"x".repeat(400)} … 600 more characters`])
      assert.include(textOf(long), "1001 more lines hidden.")
      for (const path of [".env", ".git/config"]) {
        const page = yield* of(path)
        assert.include(textOf(page), "This file can't be shown.")
        assert.notInclude(page.text, "SECRET")
      }
      assert.include(textOf(yield* of("../../etc/passwd")), "File not found.")
      isPage(yield* get(`/sandboxes/${id}/changes?repo=acme/other`), 404)
    }))

  it.effect("of a sandbox that does not run are said not to be there, in words", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("early")
      const page = yield* get(`/sandboxes/${yield* create(key)}/changes?path=src/a.ts`)
      isPage(page)
      assert.include(textOf(page), "Files appear once the sandbox has started.")
    }))
})

layer(http(), { excludeTestServices: true })("the checkpoints of a sandbox", (it) => {
  it.effect("are said to be saved from the end of a turn until they are", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("saves")
      const { id, turn } = yield* running(key)
      const said = Effect.map(get(`/sandboxes/${id}?view=checkpoints`), ({ text }) => /(The first is saved|Saving)[^<]*/u.exec(text)?.[0])
      assert.strictEqual(yield* said, "The first is saved after the first turn.")
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.strictEqual(yield* said, "Saving a checkpoint…")
      yield* drive(id, [{ _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1, ms: 1, repos: [] } }])
      assert.notStrictEqual(yield* said, "Saving a checkpoint…")
    }))

  it.effect("lead to a fork of it, which is made once however often its form is sent", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("forker")
      const { id } = yield* checkpointed(key, 2, { title: HOSTILE })
      const page = yield* get(`/sandboxes/${id}`)
      const [newest = ""] = /\/sandboxes\/\w+\/fork\?checkpoint=\d+/u.exec(page.text.slice(page.text.indexOf("id=\"checkpoints\""))) ?? []
      assert.strictEqual(newest, `/sandboxes/${id}/fork?checkpoint=2`)
      const form = yield* get(newest)
      isPage(form)
      assert.include(form.text, `<strong>${ESCAPED}</strong>`)
      const proof = /name="key" value="([^"]+)"/u.exec(form.text)?.[1] ?? ""
      const fields = { checkpoint: "1", key: proof, prompt: "Another way" }
      const made = yield* post(`/sandboxes/${id}/fork`, fields)
      const address = String(made.headers["location"])
      assert.match(address, /^\/sandboxes\/c_\w+$/u)
      redirected(yield* post(`/sandboxes/${id}/fork`, fields), address)
      assert.match(textOf(yield* get(address)), new RegExp(`Fork of Checkpoint 1 of ${id} .*Another way`, "u"))
      isPage(yield* post(`/sandboxes/${id}/fork`, { ...fields, prompt: "Yet another" }), 409)
      isPage(yield* post(`/sandboxes/${id}/fork`, { checkpoint: "1", key: "k2", prompt: "" }), 400)
      isPage(yield* post(`/sandboxes/${id}/fork`, { checkpoint: "9", key: "k3", prompt: "x" }), 404)
      isPage(yield* post(`/sandboxes/${id}/fork`, { checkpoint: "1", key: "k4", prompt: "x", csrf: "forged" }), 403)
    }))

  it.effect("are where it goes back to after asking, while it has no turn", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("returner")
      const { id } = yield* checkpointed(key)
      const address = `/sandboxes/${id}/restore`
      const list = Effect.map(get(`/sandboxes/${id}`), ({ text }) => text.slice(text.indexOf("id=\"checkpoints\"")))
      assert.include(yield* list, `href="${address}?checkpoint=1"`)
      isPage(yield* get(`${address}?checkpoint=1`))
      isPage(yield* get(`${address}?checkpoint=x`), 404)
      isPage(yield* post(address, { checkpoint: "9" }), 404)
      redirected(yield* post(address, { checkpoint: "1" }), `/sandboxes/${id}?done=restoring`)
      assert.notInclude(yield* list, `${address}?checkpoint=`)
      redirected(yield* post(address, { checkpoint: "2" }), `/sandboxes/${id}?done=restore_active`)
      const stranger = yield* visitor("no-returner")
      for (const path of ["restore", "fork"]) {
        isPage(yield* stranger.get(`/sandboxes/${id}/${path}?checkpoint=1`), 404)
        isPage(yield* stranger.post(`/sandboxes/${id}/${path}`, { checkpoint: "1", key: "k", prompt: "x" }), 404)
      }
      const { id: fresh } = yield* running(key)
      isPage(yield* post(`/sandboxes/${fresh}/fork`, { checkpoint: "1", key: "k", prompt: "x" }), 404)
    }))
})

layer(http({ trees: { has: () => Effect.succeed(false) } }), { excludeTestServices: true })("the files of a worker that is away", (it) => {
  it.effect("are said to be away, in words", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("away")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/changes?path=a`)
      isPage(page)
      assert.include(textOf(page), "worker cannot be reached just now")
    }))
})
