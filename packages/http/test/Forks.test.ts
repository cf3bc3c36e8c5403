/** Going back to a checkpoint and forking one, as HTTP sees them (docs/decisions/16). */
import { assert, layer } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RepoNotAccessible } from "@slipway/domain/source/ports/SourceHost"
import { DateTime, Effect } from "effect"
import { checkpointed } from "../testing/Checkpointed.ts"
import {
  ask,
  create,
  drive,
  json,
  layer as http,
  mintKey,
  postJson,
  PUBLIC_URL,
  refused,
  SANDBOXES,
  withoutNames
} from "../testing/Harness.ts"

const restored = (id: SandboxId, checkpoint: number) => drive(id, [{ _tag: "RecordRestore", data: { checkpoint, cause: "command" } }])
const eventsOf = (key: string, id: string) => Effect.map(ask(`${SANDBOXES}/${id}/events`, { key }), (reply) => json(reply).data)

layer(http(), { excludeTestServices: true })("going back to a checkpoint", (it) => {
  const restore = (key: string, id: string, checkpoint: unknown) => postJson(`${SANDBOXES}/${id}/restore`, key, { checkpoint })

  it.effect("is a command: many at once are one, and the log tells it", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const replies = yield* Effect.all(Array.from({ length: 10 }, () => restore(key, id, 1)), { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map(({ status }) => status), Array.from({ length: 10 }, () => 200))
      const results = replies.map(json)
      assert.strictEqual(results.filter(({ outcome }) => outcome === "applied").length, 1)
      assert.strictEqual(results.filter(({ outcome }) => outcome === "duplicate").length, 9)
      assert.strictEqual(new Set(results.map(({ commandId, revision }) => `${commandId} ${revision}`)).size, 1)
      assert.deepInclude(json(yield* restore(key, id, 2)), { outcome: "rejected", rejection: "restore_active" })
      const told = (yield* eventsOf(key, id)).filter(({ type }: { type: string }) => type === "sandbox.restoring")
      assert.deepStrictEqual(told.map(({ data }: { data: object }) => data), [{ checkpoint: 1 }])
      yield* restored(id, 1)
      assert.deepInclude(json(yield* restore(key, id, 2)), { outcome: "applied" })
    }))

  it.effect("of two at once to two checkpoints, one is rejected", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const replies = yield* Effect.all([restore(key, id, 1), restore(key, id, 2)], { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map((reply) => json(reply).outcome).toSorted(), ["applied", "rejected"])
    }))
})

const other = { ...offlineDemo, id: "other/demo", agentRuntime: "codex", approvals: false, efforts: ["low"] } as const
const gone = new Set<string>()

layer(
  http({
    catalogue: { default: offlineDemo.id, models: [offlineDemo, other] },
    host: {
      refusal: (repos) =>
        Effect.sync(() => {
          const repo = repos.find((name) => gone.has(name))
          return repo === undefined ? null : new RepoNotAccessible({ repo })
        })
    }
  }),
  { excludeTestServices: true }
)("forking a sandbox", (it) => {
  const fork = (key: string, id: string, body: object = {}, headers = {}) =>
    postJson(`${SANDBOXES}/${id}/fork`, key, { prompt: "Try it otherwise.", ...body }, headers)

  it.effect("makes a sandbox of the same repositories, which says what it starts with, and leaves the other one alone", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const repos = [{ fullName: "acme/shop", ref: "next" }, { fullName: "acme/docs" }]
      const { id } = yield* checkpointed(key, 2, { repos, reasoningEffort: "high", toolApprovalMode: "prompt", metadata: { a: "1" } })
      const before = json(yield* ask(`${SANDBOXES}/${id}`, { key }))
      const reply = yield* fork(key, id)
      assert.strictEqual(reply.status, 201)
      const made = json(reply)
      assert.strictEqual(reply.headers.location, `${PUBLIC_URL}${SANDBOXES}/${made.id}`)
      assert.deepInclude(made, { status: "queued", title: "Try it otherwise.", repos, model: offlineDemo.id, metadata: {} })
      const [queued, forked] = yield* eventsOf(key, made.id)
      assert.deepInclude(queued, { type: "sandbox.status" })
      assert.deepInclude(forked, { type: "sandbox.forked", data: { sandbox_id: id, checkpoint: 2 } })
      const store = yield* SandboxStore
      const { grant } = yield* mintKey()
      const stored = yield* store.find({ grantId: grant.id, id: made.id })
      assert.deepInclude(stored, { reasoningEffort: "high", toolApprovalMode: "prompt" })
      assert.deepStrictEqual(json(yield* ask(`${SANDBOXES}/${id}`, { key })), before)
    }))

  it.effect("may have another model, and is told what that one cannot", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key, 1, { toolApprovalMode: "prompt" })
      refused(yield* fork(key, id, { model: "no/such" }), 400, "invalid_model")
      refused(yield* fork(key, id, { model: other.id }), 400, "approvals_unsupported")
      const auto = { model: other.id, toolApprovalMode: "auto" }
      refused(yield* fork(key, id, { ...auto, reasoningEffort: "max" }), 400, "invalid_reasoning_effort")
      assert.deepInclude(json(yield* fork(key, id, auto)), { model: other.id, agentRuntime: "codex" })
      const test = yield* mintKey({ kind: "test" })
      assert.strictEqual((yield* fork(test.key, id)).status, 201)
    }))

  it.effect("under one key is made once, also by many at once; another request, or of another sandbox, is another one", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const [{ id }, another] = [yield* checkpointed(key), yield* checkpointed(key)]
      const headers = { "idempotency-key": "fork-1" }
      const replies = yield* Effect.all(Array.from({ length: 8 }, () => fork(key, id, {}, headers)), { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map(({ status }) => status).toSorted(), [200, 200, 200, 200, 200, 200, 200, 201])
      assert.strictEqual(new Set(replies.map((reply) => json(reply).id)).size, 1)
      const again = yield* fork(key, id, {}, headers)
      assert.deepInclude(again.headers, { "idempotent-replayed": "true", location: `${PUBLIC_URL}${SANDBOXES}/${json(again).id}` })
      refused(yield* fork(key, id, { checkpoint: 2 }, headers), 409, "idempotency_conflict")
      assert.strictEqual((yield* fork(key, another.id, {}, headers)).status, 201)
      // Nor is it a creation's.
      const created = yield* postJson(SANDBOXES, key, { prompt: "Try it otherwise.", repos: [{ fullName: "acme/shop" }] }, headers)
      assert.strictEqual(created.status, 201)
      // A fork without files stays so, whichever checkpoint is the newest by now.
      yield* drive(id, [{ _tag: "RecordCheckpoint", data: { checkpoint: 3, bytes: 3, ms: 5, repos: [] } }])
      const later = yield* fork(key, id, {}, headers)
      assert.deepStrictEqual([later.status, json(later).id], [200, json(again).id])
      refused(yield* fork(key, id, {}, { "idempotency-key": "é" }), 400, "invalid_idempotency_key")
    }))

  it.effect("needs a checkpoint: 409 while there is none, 404 for a purged one; a finished sandbox has its last one", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const reply = yield* fork(key, yield* create(key))
      refused(reply, 409, "conflict")
      assert.include(json(reply).error.message, "no checkpoint yet")
      const { id } = yield* checkpointed(key)
      for (const n of [0, 3, Number.MAX_SAFE_INTEGER]) refused(yield* fork(key, id, { checkpoint: n }), 404, "not_found")
      yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })
      yield* drive(id, [{ _tag: "Release" }])
      yield* (yield* Checkpoints).prune(DateTime.makeUnsafe("2020-01-01T00:00:00Z"), 100)
      refused(yield* fork(key, id, { checkpoint: 1 }), 404, "not_found")
      assert.strictEqual((yield* fork(key, id)).status, 201)
    }))

  it.effect("is refused like a creation: repositories and budgets", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "short" })
      const { id } = yield* checkpointed(key)
      gone.add("acme/shop")
      refused(yield* fork(key, id), 403, "repo_not_accessible")
      gone.clear()
      yield* (yield* Spending).setBudget(grant.id, 0)
      refused(yield* fork(key, id), 402, "budget_exceeded")
    }))

  it.effect("of another grant's sandbox answers like a missing one, and so does going back", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "owner" })
      const stranger = yield* mintKey({ grant: "stranger" })
      const { id } = yield* checkpointed(key)
      for (
        const [path, body] of [["fork", { prompt: "x" }], ["fork", { prompt: "x", checkpoint: 9 }], ["restore", { checkpoint: 1 }]] as const
      ) {
        const theirs = yield* postJson(`${SANDBOXES}/${id}/${path}`, stranger.key, body)
        refused(theirs, 404, "not_found")
        const nobodys = yield* postJson(`${SANDBOXES}/c_aaaaaaaaaaaa/${path}`, stranger.key, body)
        assert.deepStrictEqual(withoutNames(theirs), withoutNames(nobodys))
      }
      assert.deepStrictEqual(json(yield* ask(SANDBOXES, { key: stranger.key })).data, [])
    }))
})
