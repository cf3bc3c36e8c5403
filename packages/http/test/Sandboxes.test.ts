import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RepoNotAccessible, type SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import {
  ask,
  create,
  creation,
  drive,
  json,
  layer as http,
  mintKey,
  postJson,
  PUBLIC_URL,
  refused,
  running,
  SANDBOXES,
  turnOf,
  withoutNames
} from "../testing/Harness.ts"

const GONE = RepoName.make("acme/gone")
const accessible = new Set(["acme/shop", "acme/gone"])
const host: Partial<SourceHost["Service"]> = {
  refusal: (repos) =>
    Effect.sync(() => {
      const repo = repos.find((repo) => !accessible.has(repo))
      return repo === undefined ? null : new RepoNotAccessible({ repo, advice: "Add it." })
    })
}

layer(http({ host }), { excludeTestServices: true })("creating a sandbox of a repository that is known not to be accessible", (it) => {
  it.effect("is 403 with advice and makes nothing; its key can be used again", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const headers = { "idempotency-key": "k" }
      const reply = yield* postJson(
        SANDBOXES,
        key,
        { ...creation, repos: [{ fullName: "acme/shop" }, { fullName: "acme/other" }] },
        headers
      )
      refused(reply, 403, "repo_not_accessible")
      assert.strictEqual(json(reply).error.message, "repository acme/other is not accessible. Add it.")
      assert.deepStrictEqual(json(yield* ask(SANDBOXES, { key })).data, [])
      assert.strictEqual((yield* postJson(SANDBOXES, key, creation, headers)).status, 201)
    }))

  it.effect("comes after what is wrong with the body, after a budget, and after an equal request that was accepted", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "orderly" })
      const other = { ...creation, repos: [{ fullName: "acme/other" }] }
      refused(yield* postJson(SANDBOXES, key, { ...other, model: "no/such" }), 400, "invalid_model")
      const headers = { "idempotency-key": "k" }
      const before = yield* postJson(SANDBOXES, key, { ...creation, repos: [{ fullName: GONE }] }, headers)
      accessible.delete(GONE)
      const replay = yield* postJson(SANDBOXES, key, { ...creation, repos: [{ fullName: GONE }] }, headers)
      assert.deepStrictEqual([before.status, replay.status, json(replay).id], [201, 200, json(before).id])
      const spending = yield* Spending
      yield* spending.setBudget(grant.id, 1)
      yield* spending.charge({ id: yield* Ids.use((ids) => ids.uuid7), grantId: grant.id, sandboxId: json(before).id }, 1)
      refused(yield* postJson(SANDBOXES, key, other), 402, "budget_exceeded")
    }))
})

layer(http(), { excludeTestServices: true })("creating a sandbox", (it) => {
  it.effect("answers 201 with all of it and its address", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const reply = yield* postJson(SANDBOXES, key, {
        ...creation,
        repos: [{ fullName: "acme/Shop", ref: "main" }, { fullName: "acme/other" }],
        metadata: { ticket: "42" }
      })
      const { createdAt, id, ...rest } = json(reply)
      const self = `${PUBLIC_URL}${SANDBOXES}/${id}`
      assert.strictEqual(reply.status, 201)
      assert.strictEqual(reply.headers.location, self)
      assert.match(id, /^c_[a-z2-9]{12}$/u)
      assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
      assert.deepStrictEqual(rest, {
        worktreeId: `w_${id.slice(2)}`,
        object: "sandbox",
        status: "queued",
        title: "Say hello.",
        repos: [{ fullName: "acme/Shop", ref: "main" }, { fullName: "acme/other" }],
        model: "offline/demo",
        agentRuntime: "opencode",
        turn: { active: false },
        usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
        metadata: { ticket: "42" },
        error: null,
        startedAt: null,
        completedAt: null,
        links: { self, events: `${self}/events`, messages: `${self}/messages` }
      })
      assert.deepStrictEqual(json(yield* ask(`${SANDBOXES}/${id}`, { key })), json(reply))
    }))

  it.effect("never takes links from the Host header", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const reply = yield* postJson(SANDBOXES, key, creation, { host: "evil.test", "x-forwarded-host": "evil.test" })
      assert.notMatch(reply.text + reply.headers.location, /evil/u)
    }))

  it.effect("under a key gives one sandbox, however often and at whatever time it is asked for", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const headers = { "idempotency-key": "order 42" }
      const replies = yield* Effect.all(Array.from({ length: 50 }, () => postJson(SANDBOXES, key, creation, headers)), {
        concurrency: "unbounded"
      })
      assert.strictEqual(replies.filter(({ status }) => status === 201).length, 1)
      assert.strictEqual(replies.filter(({ status }) => status === 200).length, 49)
      assert.strictEqual(new Set(replies.map((reply) => json(reply).id)).size, 1)
      for (const { headers, status } of replies) {
        assert.strictEqual(headers["idempotent-replayed"], status === 200 ? "true" : undefined)
        assert.strictEqual(headers.location, replies[0]?.headers.location)
      }
      const { id } = json(replies[0]!)
      yield* drive(id, [{ _tag: "StartBoot" }])
      const later = yield* postJson(SANDBOXES, key, { ...creation, toolApprovalMode: "auto", metadata: {} }, headers)
      assert.deepStrictEqual([later.status, json(later).id, json(later).status], [200, id, "creating"])
    }))

  it.effect("under a key with another request is a conflict; each grant has keys of its own, and keys outlive rotation", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "one" })
      const rotated = yield* mintKey({ grant: "one" })
      const other = yield* mintKey({ grant: "two" })
      const headers = { "idempotency-key": "order 43" }
      const first = yield* postJson(SANDBOXES, key, creation, headers)
      for (
        const more of [{ prompt: "Say hello" }, { title: "x" }, { repos: [{ fullName: "acme/shop", ref: "main" }] }, {
          model: "offline/demo"
        }]
      ) {
        refused(yield* postJson(SANDBOXES, key, { ...creation, ...more }, headers), 409, "idempotency_conflict")
      }
      assert.strictEqual(json(yield* postJson(SANDBOXES, rotated.key, creation, headers)).id, json(first).id)
      assert.strictEqual((yield* postJson(SANDBOXES, other.key, creation, headers)).status, 201)
    }))

  it.effect("that fails leaves the key free", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const headers = { "idempotency-key": "order 44" }
      refused(yield* postJson(SANDBOXES, key, { ...creation, prompt: "" }, headers), 400, "invalid_request")
      refused(yield* postJson(SANDBOXES, key, { ...creation, model: "none" }, headers), 400, "invalid_model")
      assert.strictEqual((yield* postJson(SANDBOXES, key, creation, headers)).status, 201)
    }))

  it.effect("takes one key of 1 to 255 printable ASCII characters", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const send = (value: string | ReadonlyArray<string>) => postJson(SANDBOXES, key, creation, { "idempotency-key": value })
      for (const value of ["x", "~".repeat(255), "a b, c"]) assert.strictEqual((yield* send(value)).status, 201, value)
      for (const value of ["", "x".repeat(256), "a\tb", "caf\u00e9", ["a", "a"], ["a", "b"]]) {
        refused(yield* send(value), 400, "invalid_idempotency_key")
      }
    }))
})

layer(http(), { excludeTestServices: true })("listing sandboxes", (it) => {
  const list = (key: string, query: Record<string, string>) => ask(`${SANDBOXES}?${new URLSearchParams(query)}`, { key })
  const all = Effect.fnUntraced(function*(key: string, query: Record<string, string>) {
    const ids: Array<string> = []
    let after: string | null = null
    do {
      const page: any = json(yield* list(key, { ...query, ...(after === null ? {} : { after }) }))
      ids.push(...page.data.map(({ id }: { readonly id: string }) => id))
      after = page.nextCursor
    } while (after !== null)
    return ids
  })

  it.effect("gives every sandbox of the grant once, newest first, whatever the page", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "pages" })
      yield* create((yield* mintKey({ grant: "others" })).key)
      const made = yield* Effect.forEach(Array.from({ length: 7 }), () => create(key))
      for (const limit of ["1", "3", "7", "100"]) {
        const ids = yield* all(key, { limit })
        assert.sameMembers(ids, made)
        assert.strictEqual(ids.length, made.length)
      }
      assert.deepStrictEqual(yield* all(key, { limit: "2" }), yield* all(key, {}))
      assert.strictEqual(json(yield* list(key, { limit: "7" })).nextCursor, null)
    }))

  it.effect("is not disturbed by what is created meanwhile", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "meanwhile" })
      const made = yield* Effect.forEach(Array.from({ length: 4 }), () => create(key))
      const first = json(yield* list(key, { limit: "2" }))
      yield* create(key)
      const second = json(yield* list(key, { limit: "2", after: first.nextCursor }))
      assert.sameMembers([...first.data, ...second.data].map(({ id }) => id), made)
    }))

  it.effect("filters by status and by any repository, whatever the case", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "filters" })
      const a = yield* create(key, { repos: [{ fullName: "acme/first" }, { fullName: "acme/Second" }] })
      const { id: b } = yield* running(key)
      assert.deepStrictEqual(yield* all(key, { repo: "ACME/second" }), [a])
      assert.deepStrictEqual(yield* all(key, { status: "running" }), [b])
      assert.deepStrictEqual(yield* all(key, { status: "running", repo: "acme/first" }), [])
    }))

  it.effect("takes a cursor with any filter, but only its own grant's and only unaltered", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "cursors" })
      const other = yield* mintKey({ grant: "cursors of others" })
      yield* Effect.forEach(Array.from({ length: 3 }), () => create(key))
      const { nextCursor } = json(yield* list(key, { limit: "1" }))
      assert.match(nextCursor, /^[A-Za-z0-9_-]{1,1000}$/u)
      assert.strictEqual((yield* list(key, { after: nextCursor, status: "failed", repo: "x/y" })).status, 200)
      refused(yield* list(other.key, { after: nextCursor }), 400, "invalid_cursor")
      const bytes = Buffer.from(nextCursor, "base64url")
      for (let i = 0; i < bytes.length; i++) {
        const altered = Buffer.from(bytes)
        altered[i] = (altered[i] ?? 0) ^ 1
        refused(yield* list(key, { after: altered.toString("base64url") }), 400, "invalid_cursor")
      }
      for (
        const after of [`${nextCursor}=`, `${nextCursor}A`, nextCursor.slice(0, -1), ` ${nextCursor}`,
          Buffer.from("1 c_aaaaaaaaaaaa").toString("base64url")]
      ) {
        refused(yield* list(key, { after }), 400, "invalid_cursor")
      }
    }))
})

layer(http({ maxActiveSandboxes: 2 }), { excludeTestServices: true })("a grant with as many active sandboxes as it may have", (it) => {
  it.effect("can create another one only when one has ended; replays are answered as ever", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const make = (name: string) => postJson(SANDBOXES, key, creation, { "idempotency-key": name })
      const replies = yield* Effect.all(["a", "b", "c"].map(make), { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map(({ status }) => status).sort(), [201, 201, 409])
      const made = replies.findIndex(({ status }) => status === 201)
      const refusal = replies.findIndex(({ status }) => status === 409)
      refused(replies[refusal]!, 409, "concurrency_limit_exceeded")
      const names = ["a", "b", "c"]
      assert.strictEqual((yield* make(names[made]!)).status, 200)
      refused(yield* make(names[refusal]!), 409, "concurrency_limit_exceeded")
      const id: SandboxId = json(replies[made]!).id
      assert.strictEqual((yield* postJson(SANDBOXES, (yield* mintKey({ grant: "other" })).key, creation)).status, 201)
      yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      assert.strictEqual((yield* make(names[refusal]!)).status, 201)
    }))
})

layer(http(), { excludeTestServices: true })("commands", (it) => {
  it.effect("terminate once and for all; later calls are duplicates of the first", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const terminate = ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })
      const results = (yield* Effect.all(Array.from({ length: 20 }, () => terminate), { concurrency: "unbounded" })).map(json)
      assert.strictEqual(results.filter(({ outcome }) => outcome === "applied").length, 1)
      assert.strictEqual(results.filter(({ outcome }) => outcome === "duplicate").length, 19)
      assert.strictEqual(new Set(results.map(({ commandId, revision }) => `${commandId} ${revision}`)).size, 1)
      assert.match(results[0].commandId, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u)
      assert.strictEqual(json(yield* ask(`${SANDBOXES}/${id}`, { key })).status, "terminating")
    }))

  it.effect("interrupt says why there is nothing to interrupt", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const interrupt = Effect.map(ask(`${SANDBOXES}/${id}/interrupt`, { key, method: "POST" }), json)
      assert.deepInclude(yield* interrupt, { outcome: "rejected", rejection: "no_active_turn", revision: 1 })
      yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })
      assert.deepInclude(yield* interrupt, { outcome: "rejected", rejection: "sandbox_terminal" })
    }))

  it.effect("decide an approval: the first decision wins", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key, { toolApprovalMode: "prompt" })
      const approvalId = "call/1?\u{1F680}"
      yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval: { approval_id: approvalId, tool: "shell" } }])
      const decide = (decision: string) =>
        Effect.map(postJson(`${SANDBOXES}/${id}/approvals/${encodeURIComponent(approvalId)}`, key, { decision }), json)
      const first = yield* decide("approve")
      assert.strictEqual(first.outcome, "applied")
      assert.deepStrictEqual(yield* decide("approve"), { ...first, outcome: "duplicate" })
      assert.deepInclude(yield* decide("deny"), { outcome: "rejected", rejection: "approval_already_resolved" })
    }))

  it.effect("tell in the log why something was denied and what was approved for the turn, where it is of a kind", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key, { toolApprovalMode: "prompt" })
      const ask = (call: string, kind?: "edit") =>
        drive(id, [{
          _tag: "RequestApproval",
          turnId: turn,
          approval: { approval_id: call, tool: "shell", ...(kind && { kind, plain: true }) }
        }])
      const decide = (call: string, body: object) => postJson(`${SANDBOXES}/${id}/approvals/${call}`, key, body)
      yield* ask("a")
      refused(yield* decide("a", { decision: "approve", scope: "turn" }), 409, "scope_unsupported")
      assert.deepInclude(json(yield* decide("a", { decision: "deny", reason: "Not there." })), { outcome: "applied" })
      yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval: { approval_id: "alone", tool: "write", kind: "edit" } }])
      refused(yield* decide("alone", { decision: "approve", scope: "turn" }), 409, "scope_unsupported")
      assert.deepInclude(json(yield* decide("alone", { decision: "deny", reason: "Not there." })), { outcome: "applied" })
      yield* ask("b", "edit")
      assert.deepInclude(json(yield* decide("b", { decision: "approve", scope: "turn" })), { outcome: "applied" })
      yield* ask("c", "edit")
      const store = yield* SandboxStore
      const resolved = (yield* store.log(id, 0, 1000)).filter(({ type }) => type === "approval.resolved")
      assert.deepStrictEqual(resolved.map(({ wire }) => JSON.parse(wire).data), [
        { approval_id: "a", outcome: "denied", by: "user", reason: "Not there." },
        { approval_id: "alone", outcome: "denied", by: "user", reason: "Not there." },
        { approval_id: "b", outcome: "approved", by: "user", scope: "turn" },
        { approval_id: "c", outcome: "approved", by: "policy" }
      ])
    }))
})

layer(http(), { excludeTestServices: true })("another grant's sandbox", (it) => {
  it.effect("looks exactly like a missing sandbox, in every operation", () =>
    Effect.gen(function*() {
      const owner = yield* mintKey({ grant: "owner" })
      const stranger = yield* mintKey({ grant: "stranger" })
      const { id, turn } = yield* running(owner.key)
      yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval: { approval_id: "a", tool: "shell" } }])
      const waits = json(yield* postJson(`${SANDBOXES}/${id}/messages`, owner.key, { prompt: "x", whenBusy: "queue" })).turnId
      const asks: ReadonlyArray<readonly [string, Parameters<typeof ask>[1]]> = [
        ["", {}],
        ["", { method: "HEAD" }],
        ["/events", {}],
        ["/events?after=9", {}],
        ["/events/stream", {}],
        ["/events/stream?since=9", {}],
        ["/messages", {}],
        ["/files/tree", {}],
        ["/files/download?path=x", {}],
        ["/files/download?path=.git/config", {}],
        ["/files/content?path=x", {}],
        ["/files/diff", {}],
        ["/files/diff?from=1&to=2&repo=a/b", {}],
        ["/restore", { body: `{"checkpoint":1}` }],
        ["/fork", { body: `{"prompt":"x"}` }],
        ["/pull-request", {}],
        ["/pull-request?repo=a/b", {}],
        ["/terminate", { method: "POST" }],
        ["/interrupt", { method: "POST" }],
        ["/approvals/a", { body: `{"decision":"deny"}` }],
        ["/messages", { body: `{"prompt":"x"}` }],
        ["/messages", { body: `{"prompt":"x","whenBusy":"queue"}` }],
        ["/messages", { body: `{"prompt":"x","whenBusy":"steer"}` }],
        [`/messages/${waits}`, { method: "DELETE" }],
        ["/pull-request", { body: `{"repo":"a/b"}` }]
      ]
      for (const [path, asked] of asks) {
        const foreign = yield* ask(`${SANDBOXES}/${id}${path}`, { ...asked, key: stranger.key })
        const unknown = yield* ask(`${SANDBOXES}/c_aaaaaaaaaaaa${path}`, { ...asked, key: stranger.key })
        assert.strictEqual(foreign.status, 404, path)
        assert.deepStrictEqual(withoutNames(foreign), withoutNames(unknown), path)
      }
      // Nothing happened to it.
      assert.strictEqual(json(yield* ask(`${SANDBOXES}/${id}`, { key: owner.key })).status, "running")
      const taken = yield* ask(`${SANDBOXES}/${id}/messages/${waits}`, { method: "DELETE", key: owner.key })
      assert.deepInclude(json(taken), { outcome: "applied" })
    }))

  it.effect("does not lend its approvals", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const a = yield* running(key)
      const b = yield* running(key)
      yield* drive(a.id, [{ _tag: "RequestApproval", turnId: a.turn, approval: { approval_id: "only a's", tool: "shell" } }])
      refused(yield* postJson(`${SANDBOXES}/${b.id}/approvals/only%20a's`, key, { decision: "approve" }), 404, "not_found")
    }))
})

layer(http(), { excludeTestServices: true })("messages", (it) => {
  it.effect("start the next turn of a running sandbox, and only when there is none", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const send = (prompt: string, headers = {}) => postJson(`${SANDBOXES}/${id}/messages`, key, { prompt }, headers)
      refused(yield* send("too early"), 409, "sandbox_not_running")
      const first = yield* turnOf(id)
      yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: first }, { _tag: "StartTurn", turnId: first }])
      refused(yield* send("busy"), 409, "turn_active")
      yield* drive(id, [{ _tag: "EndTurn", turnId: first, state: "succeeded" }])
      const sent = yield* send("second", { "idempotency-key": "m1" })
      assert.strictEqual(sent.status, 201)
      assert.deepInclude(json(sent), { outcome: "applied", turnId: yield* turnOf(id, 2) })
      refused(yield* send("third"), 409, "turn_active")
      refused(yield* send("", {}), 400, "invalid_request")
    }))

  it.effect("under a key are sent once, also when the turn is long over", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const send = (prompt: string) => postJson(`${SANDBOXES}/${id}/messages`, key, { prompt }, { "idempotency-key": "m" })
      const sent = yield* send("second")
      const again = yield* send("second")
      assert.deepStrictEqual([again.status, again.headers["idempotent-replayed"]], [200, "true"])
      assert.deepStrictEqual(json(again), { ...json(sent), outcome: "duplicate" })
      refused(yield* send("another"), 409, "idempotency_conflict")
      const second = yield* turnOf(id, 2)
      yield* drive(id, [{ _tag: "StartTurn", turnId: second }, { _tag: "EndTurn", turnId: second, state: "succeeded" }])
      assert.strictEqual((yield* postJson(`${SANDBOXES}/${id}/messages`, key, { prompt: "third" })).status, 201)
      assert.deepStrictEqual(json(yield* send("second")), { ...json(sent), outcome: "duplicate" })
    }))

  it.effect("are listed with the agent's answers, oldest first, page by page", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      const said = (text: string, n: number) => [
        {
          type: "message.updated" as const,
          turn_id: turn,
          data: { part_id: `m${n}:text`, message_id: `m${n}`, kind: "text" as const, text }
        },
        { type: "message.completed" as const, turn_id: turn, data: { message_id: `m${n}`, finish: "end_turn" as const } }
      ]
      yield* drive(id, [{ _tag: "RecordWork", turnId: turn, events: [...said("Hello.", 1), ...said("Done.", 2)] }])
      const page = (query: string) => Effect.map(ask(`${SANDBOXES}/${id}/messages${query}`, { key }), json)
      const everything = yield* page("")
      assert.deepStrictEqual(everything.data.map(({ role, text, turnId }: any) => [role, text, turnId]), [
        ["user", "Say hello.", turn],
        ["assistant", "Hello.", turn],
        ["assistant", "Done.", turn]
      ])
      assert.strictEqual(everything.nextCursor, null)
      assert.deepStrictEqual(Object.keys(everything.data[0]).sort(), ["createdAt", "id", "role", "text", "turnId"])
      const first = yield* page("?limit=2")
      const second = yield* page(`?limit=2&after=${first.nextCursor}`)
      assert.deepStrictEqual([...first.data, ...second.data], everything.data)
      assert.strictEqual(second.nextCursor, null)
    }))
})
