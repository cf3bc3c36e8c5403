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
  refused,
  running,
  SANDBOXES,
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

layer(http(), { excludeTestServices: true })("listing sandboxes", (it) => {
  const list = (key: string, query: Record<string, string>) => ask(`${SANDBOXES}?${new URLSearchParams(query)}`, { key })
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
  it.effect("looks exactly like a missing sandbox where the conformance kit does not ask", () =>
    Effect.gen(function*() {
      const owner = yield* mintKey({ grant: "owner" })
      const stranger = yield* mintKey({ grant: "stranger" })
      const { id } = yield* running(owner.key)
      const waits = json(yield* postJson(`${SANDBOXES}/${id}/messages`, owner.key, { prompt: "x", whenBusy: "queue" })).turnId
      const asks: ReadonlyArray<readonly [string, Parameters<typeof ask>[1]]> = [
        ["", { method: "HEAD" }],
        ["/files/download?path=.git/config", {}],
        ["/messages", { body: `{"prompt":"x","whenBusy":"queue"}` }],
        [`/messages/${waits}`, { method: "DELETE" }]
      ]
      for (const [path, asked] of asks) {
        const foreign = yield* ask(`${SANDBOXES}/${id}${path}`, { ...asked, key: stranger.key })
        const unknown = yield* ask(`${SANDBOXES}/c_aaaaaaaaaaaa${path}`, { ...asked, key: stranger.key })
        assert.strictEqual(foreign.status, 404, path)
        assert.deepStrictEqual(withoutNames(foreign), withoutNames(unknown), path)
      }
      const taken = yield* ask(`${SANDBOXES}/${id}/messages/${waits}`, { method: "DELETE", key: owner.key })
      assert.deepInclude(json(taken), { outcome: "applied" })
    }))
})
