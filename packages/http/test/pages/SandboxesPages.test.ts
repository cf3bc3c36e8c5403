/** The pages of sandboxes as HTML: what they show and escape, whom they serve, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { Sessions } from "@slipway/domain/access/Sessions"
import type { ChangedFile } from "@slipway/domain/files/FileTree"
import { FileNotFound, type FileVersion, type WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import type { SandboxEvent } from "@slipway/domain/sandbox/SandboxEvent"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Effect, Redacted } from "effect"
import { ask, COOKIE, create, drive, joined, layer as http, mintKey, PUBLIC_URL, type Reply, running } from "../../testing/Harness.ts"

const HOSTILE = `</h1><script>alert("1")</script>'&`
const ESCAPED = "&lt;/h1&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;"

/** Somebody signed in, in a grant of the name. */
const visitor = Effect.fnUntraced(function*(grant: string) {
  const sessions = yield* Sessions
  const key = yield* mintKey({ grant })
  const { session, token } = yield* sessions.signIn(yield* joined(`person-of-${grant}`), null)
  yield* sessions.chooseGrant(session, key.grant.id)
  const cookie = `${COOKIE}=${Redacted.value(token)}`
  const csrf = Redacted.value(sessions.csrfToken(token))
  return {
    key: key.key,
    get: (path: string) => ask(path, { headers: { cookie } }),
    post: (path: string, fields: Record<string, string> = {}, proof = csrf) =>
      ask(path, {
        body: new URLSearchParams({ csrf: proof, place: key.grant.id, ...fields }).toString(),
        headers: { cookie, "content-type": "application/x-www-form-urlencoded" }
      })
  }
})

const work = (
  id: SandboxId,
  turnId: string,
  ...events: ReadonlyArray<Extract<SandboxEvent, { readonly type: "message.updated" | "tool.updated" | "message.completed" }>>
) => drive(id, [{ _tag: "RecordWork", turnId, events }])

/** The text of a page, without markup and runs of spaces. */
const textOf = ({ text }: Reply) => text.replaceAll(/<[^>]*>/gu, " ").replaceAll(/\s+/gu, " ")

const isPage = (reply: Reply, status = 200) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.strictEqual(reply.headers["content-type"], "text/html; charset=utf-8")
  assert.match(String(reply.headers["content-security-policy"]), /default-src 'none'; script-src 'self'; style-src 'self'/u)
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
}

const redirected = (reply: Reply, to: string) => assert.deepStrictEqual([reply.status, reply.headers["location"]], [303, to])

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

  it.effect("names its grant, and where else the reader has sandboxes, and no grant of others", () =>
    Effect.gen(function*() {
      const here = yield* visitor("here")
      const there = yield* mintKey({ grant: "there" })
      const empty = yield* mintKey({ grant: "empty" })
      assert.include(textOf(yield* here.get("/sandboxes")), "In grant here . ")
      yield* create(there.key, { title: "one" })
      yield* create(there.key, { title: "two" })
      yield* create(here.key, { title: "mine" })
      const page = yield* here.get("/sandboxes")
      isPage(page)
      assert.include(textOf(page), "In grant here ; 2 sandboxes in grant there . Change grant")
      assert.notInclude(textOf(page), empty.grant.name)
      assert.notInclude(textOf(yield* here.get("/sandboxes?status=queued")), "in grant there")
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
        [...all.text.matchAll(/<th scope="row"><a href="\/sandboxes\/(c_\w+)">(.*)<\/a>/gu)].map(([, link, title]) => [link, title]),
        [
          [id, "busy"],
          [queued, ESCAPED]
        ]
      )
      const shown = (query: string) => Effect.map(get(`/sandboxes?${query}`), ({ text }) => [text.includes(id), text.includes(queued)])
      assert.deepStrictEqual(yield* shown("status=running&repo="), [true, false])
      assert.deepStrictEqual(yield* shown("status=&repo=+ACME/docs"), [false, true])
      assert.include(textOf(yield* get("/sandboxes?status=failed")), "There are no such sandboxes")
      const wrong = yield* get(`/sandboxes?repo=${encodeURIComponent(HOSTILE)}`)
      isPage(wrong, 400)
      assert.include(wrong.text, `value="${ESCAPED}"`)
      isPage(yield* get("/sandboxes?status=odd"), 400)
    }))

  it.effect("has further pages, of which nobody can make up the address", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("many")
      const ids = yield* Effect.forEach(Array.from({ length: 51 }), () => create(key))
      const first = yield* get("/sandboxes?status=queued")
      const older = /href="(\/sandboxes\?status=queued&amp;after=[^"]+)" rel="next"/u.exec(first.text)?.[1]?.replaceAll("&amp;", "&") ?? ""
      const second = yield* get(older)
      isPage(second)
      assert.deepStrictEqual([...second.text.matchAll(/<th scope="row"><a href="\/sandboxes\/(c_\w+)">/gu)].map(([, id]) => id).length, 1)
      assert.isTrue(ids.every((id) => first.text.includes(id) || second.text.includes(id)))
      assert.notInclude(second.text, "rel=\"next\"")
      isPage(yield* get(`${older}x`), 400)
      const other = yield* visitor("stranger")
      isPage(yield* other.get(older), 400)
    }))
})

layer(http(), { excludeTestServices: true })("the page of a sandbox", (it) => {
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
      const items = [...page.text.matchAll(/<li class="item (\w+)" data-key="([^"]+)">[^]*?<div class="item-text">([^<]*)<\/div>/gu)]
        .map(([, kind, key, text]) => [kind, key, text]).filter(([kind]) => kind !== "note")
      assert.deepStrictEqual(items, [
        ["prompt", `prompt:${turn}`, `Do it ${ESCAPED}`],
        ["text", "m:text", `All of it ${ESCAPED}`],
        ["tool", "tool:c", `run ${ESCAPED}\nFailed ${ESCAPED}`]
      ])
      assert.include(page.text, `<h1>${ESCAPED}</h1>`)
      assert.include(page.text, `<title>${ESCAPED} · Slipway</title>`)
      assert.notInclude(page.text, HOSTILE)
      assert.include(textOf(page), "The agent is working")
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
          new RegExp(`<li class="item (\\w+)" data-key="turn:${turn}">[^]*?<div class="item-text">([^<]*)</div>`, "u").exec(page.text) ?? []
        return [kind, text]
      })
      assert.deepStrictEqual(yield* endOf(`The provider refuses ${HOSTILE}`), ["problem",
        `The turn failed: The provider refuses ${ESCAPED}`])
      assert.deepStrictEqual(yield* endOf("output_limit"), ["problem", "The turn failed: The agent wrote more than a turn may."])
      assert.deepStrictEqual(yield* endOf(), ["problem", "The turn failed"])
      assert.deepStrictEqual(yield* endOf("end_turn", "succeeded"), ["note", "The turn ended"])
    }))

  it.effect("begins where its script goes on: at the newest event it shows", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("cursor")
      const { id } = yield* running(key)
      const store = yield* SandboxStore
      const page = yield* get(`/sandboxes/${id}`)
      const state = /data-state="([^"]+)"/u.exec(page.text)?.[1]?.replaceAll("&quot;", "\"") ?? ""
      assert.deepStrictEqual(JSON.parse(state), {
        cursor: (yield* store.log(id, 0, 100)).length,
        status: "running",
        turn: "running",
        calls: []
      })
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
      assert.notInclude(before.text, "data-state")
      isPage(yield* get(`/sandboxes/${id}?before=x`), 400)
    }))

  it.effect("shows what was said of a sandbox whose events are no longer kept", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("archive")
      const { id } = yield* running(key, { prompt: "Long ago" })
      yield* post(`/sandboxes/${id}/terminate`)
      yield* drive(id, [{ _tag: "Release" }])
      yield* (yield* Upkeep).purgeEvents(yield* DateTime.now, 10)
      const page = yield* get(`/sandboxes/${id}`)
      isPage(page)
      assert.match(textOf(page), /What happened here is no longer kept\. What was said is\. .*Prompt .*Long ago/u)
      isPage(yield* get(`/sandboxes/${id}?before=2`))
    }))

  it.effect("shows the prompt while the sandbox waits for its turn", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("waiting")
      const id = yield* create(key, { prompt: "Something to do" })
      const page = yield* get(`/sandboxes/${id}`)
      assert.match(textOf(page), /Status Queued Turn None yet .* Prompt .*Something to do/u)
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
          "pull-request": { repo: "acme/shop" },
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
      const action = /<li class="approval" data-approval="[^"]+">\s*<form method="post" action="([^"]+)"/u.exec(page.text)?.[1] ?? ""
      assert.strictEqual(action, `/sandboxes/${id}/approvals/${encodeURIComponent(approval)}`)
      assert.include(page.text, `<code data-field="tool">write ${ESCAPED}</code>`)

      isPage(yield* post(action, { decision: "maybe" }), 400)
      isPage(yield* post(action, {}), 400)
      isPage(yield* post(action, { decision: "deny" }, "forged"), 403)
      redirected(yield* post(action, { decision: "approve" }), `/sandboxes/${id}?done=approved`)
      redirected(yield* post(action, { decision: "approve" }), `/sandboxes/${id}?done=duplicate`)
      redirected(yield* post(action, { decision: "deny" }), `/sandboxes/${id}?done=approval_already_resolved`)
      const after = yield* get(`/sandboxes/${id}?done=approval_already_resolved`)
      assert.include(textOf(after), "That was decided before. The first decision stands.")
      assert.include(after.text, `<div class="item-text">write ${ESCAPED}\nApproved</div>`)
      assert.notInclude(after.text, `data-approval="${approval.replace("&", "&amp;")}"`)
      isPage(yield* post(`/sandboxes/${id}/approvals/unknown`, { decision: "approve" }), 404)
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
        "pull-request": { repo: "acme/shop" },
        "approvals/c": { decision: "approve" }
      }
      for (const [path, fields] of Object.entries(forms)) {
        isPage(yield* post(`/sandboxes/${id}/${path}`, fields, ""), 403)
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
      assert.include(textOf(asked), "Terminate this sandbox?")
      redirected(yield* post(`/sandboxes/${id}/terminate`), `/sandboxes/${id}?done=terminated`)
      redirected(yield* post(`/sandboxes/${id}/terminate`), `/sandboxes/${id}?done=duplicate`)
      redirected(yield* post(`/sandboxes/${id}/interrupt`), `/sandboxes/${id}?done=sandbox_terminal`)
      isPage(yield* post(`/sandboxes/${id}/messages`, { prompt: "more" }), 409)
      isPage(yield* post(`/sandboxes/${id}/pull-request`, { repo: "acme/shop" }), 409)
      isPage(yield* post(`/sandboxes/${id}/pull-request`, { repo: "acme/other" }), 404)
      assert.include(textOf(yield* get(`/sandboxes/${id}?done=<b>`)), "Terminating Somebody terminated it.")
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
const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: () =>
    Effect.succeed({
      files: [
        file(".env", { additions: 0, deletions: 0 }),
        file(HOSTILE, { status: "untracked", deletions: 0 }),
        file("image", { status: "untracked", additions: 0, deletions: 0 }),
        file("is", { status: "renamed", previousPath: "was" }),
        file("long", { status: "untracked" }),
        file("src/a.ts")
      ],
      partialWarnings: ["entries_truncated"]
    }),
  list: () => Effect.fail(new FileNotFound()),
  compare: (_, path) => {
    const { base = null, working = null } = CONTENTS[path] ?? {}
    return Effect.succeed({ base, working, head: base })
  }
}

layer(http({ trees }), { excludeTestServices: true })("the files changed", (it) => {
  it.effect("are listed with their lines, protected ones by name alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reviewer")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/changes`)
      isPage(page)
      assert.include(textOf(page), "There are more changes than are shown here.")
      assert.include(textOf(page), ".env modified protected: not shown")
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
      assert.include(textOf(long), "1001 more lines are not shown.")
      for (const path of [".env", ".git/config"]) {
        const page = yield* of(path)
        assert.include(textOf(page), "This file is protected")
        assert.notInclude(page.text, "SECRET")
      }
      assert.include(textOf(yield* of("../../etc/passwd")), "There is no such file.")
      isPage(yield* get(`/sandboxes/${id}/changes?repo=acme/other`), 404)
    }))

  it.effect("of a sandbox that does not run are said not to be there, in words", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("early")
      const page = yield* get(`/sandboxes/${yield* create(key)}/changes?path=src/a.ts`)
      isPage(page)
      assert.include(textOf(page), "Files can be looked at while the sandbox is running.")
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
