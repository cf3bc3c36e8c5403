import { assert, layer } from "@effect/vitest"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { DateTime, Effect } from "effect"
import { ask, json, layer as http, mintKey, refused } from "../testing/Harness.ts"

const FEED = "/api/public/v1/events"
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.120Z")
const wireAt = "2026-11-21T02:41:00.120Z"
const claimId = "0197f1a0-0000-7000-8000-000000000001"
const lead = { claimId, leadId: "lead-1", variant: "b" }

const tell = Effect.fnUntraced(function*(grantId: string, facts: ReadonlyArray<PartnerFact>) {
  const store = yield* PartnerStore
  yield* store.record(Effect.succeed({ result: undefined, tell: facts.map((fact) => ({ grantId, fact })) }), at)
})
const started = (n: number): PartnerFact => ({ type: "task.started", data: { ...lead, occurredAt: at, taskId: `t${n}`, projectId: null } })

layer(http(), { excludeTestServices: true })("the partner feed", (it) => {
  it.effect("shows each event as the interface has it", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "shown" })
      yield* tell(grant.id, [
        { type: "credit_claim.created", data: { ...lead, creditAmount: 5, createdAt: at, status: "pending", claimedAt: null } },
        { type: "credit_claim.claimed", data: { ...lead, creditAmount: 5, createdAt: at, status: "claimed", claimedAt: at } },
        { type: "project.connected", data: { ...lead, occurredAt: at, projectId: "p" } },
        { type: "task.started", data: { ...lead, occurredAt: at, taskId: "t", projectId: "p" } },
        { type: "pull_request.opened", data: { ...lead, occurredAt: at, pullRequestId: "r", taskId: "t", projectId: null } },
        { type: "conversion.paid", data: { ...lead, occurredAt: at, conversionId: "c" } }
      ])
      const reply = yield* ask(FEED, { key })
      assert.strictEqual(reply.status, 200, reply.text)
      const { data, nextCursor, ...rest } = json(reply)
      assert.deepStrictEqual([nextCursor, rest], [6, {}])
      const attributed = { ...lead, occurredAt: wireAt }
      assert.deepStrictEqual(
        data.map(({ createdAt, data, sequence, type }: any) => ({ createdAt, data, sequence, type })),
        [
          { type: "credit_claim.created", data: { ...lead, creditAmount: 5, createdAt: wireAt, status: "pending", claimedAt: null } },
          { type: "credit_claim.claimed", data: { ...lead, creditAmount: 5, createdAt: wireAt, status: "claimed", claimedAt: wireAt } },
          { type: "project.connected", data: { ...attributed, projectId: "p" } },
          { type: "task.started", data: { ...attributed, taskId: "t", projectId: "p" } },
          { type: "pull_request.opened", data: { ...attributed, pullRequestId: "r", taskId: "t", projectId: null } },
          { type: "conversion.paid", data: { ...attributed, conversionId: "c" } }
        ].map((event, i) => ({ ...event, sequence: i + 1, createdAt: wireAt }))
      )
      const ids: ReadonlyArray<string> = data.map(({ id }: any) => id)
      assert.ok(ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u.test(id)))
      assert.strictEqual(new Set(ids).size, 6)
    }))

  it.effect("is recovered page by page, and an empty page gives the cursor back", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "paged" })
      const page = (query: string) => Effect.map(ask(`${FEED}${query}`, { key }), json)
      assert.deepStrictEqual(yield* page(""), { data: [], nextCursor: 0 })
      yield* tell(grant.id, Array.from({ length: 105 }, (_, i) => started(i)))
      const seen: Array<number> = []
      const sizes: Array<number> = []
      for (let after = 0;;) {
        const { data, nextCursor } = yield* page(`?after=${after}`)
        sizes.push(data.length)
        seen.push(...data.map(({ sequence }: any) => sequence))
        if (data.length === 0) {
          assert.strictEqual(nextCursor, after)
          break
        }
        assert.strictEqual(nextCursor, seen.at(-1))
        after = nextCursor
      }
      assert.deepStrictEqual(sizes, [100, 5, 0])
      assert.deepStrictEqual(seen, Array.from({ length: 105 }, (_, i) => i + 1))
      assert.deepStrictEqual((yield* page("?after=3&limit=2")).data.map(({ sequence }: any) => sequence), [4, 5])
      for (const beyond of [106, Number.MAX_SAFE_INTEGER]) {
        assert.deepStrictEqual(yield* page(`?after=${beyond}`), { data: [], nextCursor: beyond })
      }
    }))

  it.effect("is the grant's own", () =>
    Effect.gen(function*() {
      const [a, b] = [yield* mintKey({ grant: "one" }), yield* mintKey({ grant: "another" })]
      yield* tell(a.grant.id, [started(1)])
      assert.deepStrictEqual(json(yield* ask(FEED, { key: b.key })), { data: [], nextCursor: 0 })
      assert.strictEqual(json(yield* ask(FEED, { key: (yield* mintKey({ grant: "one" })).key })).nextCursor, 1)
    }))

  it.effect("refuses what is not a cursor or a page, and keys without the scope", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (const after of ["", "x", "-1", "1.5", "1e0", "9007199254740992", "1&after=2"]) {
        refused(yield* ask(`${FEED}?after=${after}`, { key }), 400, "invalid_cursor")
      }
      for (const limit of ["", "0", "101", "x"]) refused(yield* ask(`${FEED}?limit=${limit}`, { key }), 400, "invalid_request")
      refused(yield* ask(FEED), 401, "unauthorized")
      refused(yield* ask(FEED, { key: (yield* mintKey({ scopes: ["partner:ingest", "webhooks"] })).key }), 403, "insufficient_scope")
      refused(yield* ask(FEED, { key, method: "POST", body: "{}" }), 405, "method_not_allowed")
    }))
})
