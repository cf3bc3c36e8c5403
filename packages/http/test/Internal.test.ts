import { assert, layer } from "@effect/vitest"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect } from "effect"
import { ask, create, json, layer as http, mintKey, refused } from "../testing/Harness.ts"

const INTERNAL = "/api/internal/v1"
const organizationId = "0197f1a0-0000-7000-8000-0000000000a1"
const claimant = { recipientId: "user_1", organizationId }
const project = { ...claimant, repo: "acme/shop", connectedAt: "2190-01-01T00:00:00.000Z" }
const invoice = { organizationId, kind: "subscription_initial", amountMinor: 900, currency: "EUR", paidAt: "2190-01-01T00:00:00.000Z" }

const ingestKey = Effect.map(mintKey({ grant: "operator", scopes: ["partner:ingest"] }), ({ key }) => key)
const put = (key: string, path: string, body: unknown) =>
  ask(`${INTERNAL}${path}`, { method: "PUT", key, body: typeof body === "string" ? body : JSON.stringify(body) })
const uuid = Effect.flatMap(Ids, (ids) => ids.uuid7)

/** Every call with a body it takes; `id` is in the address. */
const calls = Effect.gen(function*() {
  const { grant } = yield* mintKey({ grant: "partner" })
  const id = yield* uuid
  const offer = { grantId: grant.id, leadId: "lead-1", variant: "b", creditAmount: 5 }
  return {
    grant,
    id,
    offer,
    of: [[`/claims/${id}`, offer], [`/claims/${id}/claimed`, claimant], [`/projects/${id}`, project], [`/invoices/${id}`, invoice]] as const
  }
})

layer(http(), { excludeTestServices: true })("facts of the operator's systems", (it) => {
  it.effect("are 201 at first and 200 again, with the same body, and 409 with another one", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      const { grant, id, of, offer } = yield* calls
      const changes = [{ variant: "c" }, { recipientId: "user_2" }, { repo: "acme/docs" }, { amountMinor: 901 }]
      for (const [i, [path, body]] of of.entries()) {
        const first = yield* put(key, path, body)
        assert.strictEqual(first.status, 201, first.text)
        const again = yield* put(key, path, body)
        assert.deepStrictEqual([again.status, again.text], [200, first.text])
        refused(yield* put(key, path, { ...body, ...changes[i] }), 409, "conflict")
      }
      const claim = json(yield* put(key, `/claims/${id}`, offer))
      const { claimedAt, createdAt, ...rest } = claim
      assert.deepStrictEqual(rest, {
        claimId: id,
        grantId: grant.id,
        leadId: "lead-1",
        variant: "b",
        creditAmount: 5,
        status: "claimed",
        ...claimant
      })
      for (const at of [claimedAt, createdAt]) assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
      assert.deepStrictEqual(json(yield* put(key, `/projects/${id}`, project)), { projectId: id, ...project })
      assert.deepStrictEqual(json(yield* put(key, `/invoices/${id}`, invoice)), { invoiceId: id, ...invoice })
    }))

  it.effect("reach the feed of the grant, and so does a sandbox of the recipient", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      const { grant, key: partner, record } = yield* mintKey({ grant: "feed" })
      const id = yield* uuid
      const mine = { recipientId: record.userId, organizationId: grant.organizationId }
      yield* put(key, `/claims/${id}`, { grantId: grant.id, leadId: "lead-1", variant: "b", creditAmount: 5 })
      const early = yield* create(partner)
      yield* put(key, `/claims/${id}/claimed`, mine)
      yield* put(key, `/projects/${id}`, { ...project, ...mine })
      const taskId = yield* create(partner)
      yield* put(key, `/invoices/${id}`, { ...invoice, organizationId: grant.organizationId })
      const { data } = json(yield* ask("/api/public/v1/events", { key: partner }))
      assert.deepStrictEqual(data.map(({ sequence, type }: any) => [sequence, type]), [
        [1, "credit_claim.created"],
        [2, "credit_claim.claimed"],
        [3, "project.connected"],
        [4, "task.started"],
        [5, "conversion.paid"]
      ])
      assert.deepInclude(data[3].data, { claimId: id, leadId: "lead-1", variant: "b", taskId, projectId: id })
      assert.notInclude(JSON.stringify(data), early)
    }))

  it.effect("are the same whatever the case of a UUID", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      const { id, offer } = yield* calls
      const first = yield* put(key, `/claims/${id}`, offer)
      const shouted = yield* put(key, `/claims/${id.toUpperCase()}`, { ...offer, grantId: offer.grantId.toUpperCase() })
      assert.deepStrictEqual([first.status, shouted.status, shouted.text], [201, 200, first.text])
    }))

  it.effect("about what is not there are 404", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      const { id, offer } = yield* calls
      refused(yield* put(key, `/claims/${id}/claimed`, claimant), 404, "not_found")
      refused(yield* put(key, `/claims/${id}`, { ...offer, grantId: id }), 404, "not_found")
    }))

  it.effect("need every field, and no others", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      for (const [path, body] of (yield* calls).of) {
        for (const name of Object.keys(body)) {
          refused(
            yield* put(key, path, Object.fromEntries(Object.entries(body).filter(([other]) => other !== name))),
            400,
            "invalid_request"
          )
          for (const wrong of [null, [], {}, true, ""]) refused(yield* put(key, path, { ...body, [name]: wrong }), 400, "invalid_request")
        }
        for (const more of ["more", "claimId", "status"]) refused(yield* put(key, path, { ...body, [more]: "x" }), 400, "invalid_request")
        for (const text of ["", "[]", "null", "{", "\"x\""]) refused(yield* put(key, path, text), 400, "invalid_request")
      }
    }))

  it.effect("are refused with values out of range", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      const { of: [[claims, offer], [claimed], [projects], [invoices]] } = yield* calls
      const long = "x".repeat(201)
      const wrong: ReadonlyArray<readonly [string, object]> = [
        ...[0, -1, 1.5, 2 ** 53, "5"].map((creditAmount) => [claims, { ...offer, creditAmount }] as const),
        ...["x\u0000", "\ud800", long].map((leadId) => [claims, { ...offer, leadId }] as const),
        [claims, { ...offer, grantId: "grant" }],
        [claimed, { ...claimant, recipientId: long }],
        [claimed, { ...claimant, organizationId: "acme" }],
        ...["shop", "acme/.git", "../x"].map((repo) => [projects, { ...project, repo }] as const),
        ...["2026-11-21", "2026-11-21T02:41:00Z", "2026-02-30T00:00:00.000Z", "+012026-11-21T02:41:00.000Z", "0001-01-01T00:00:00.000Z", 0]
          .map((connectedAt) => [projects, { ...project, connectedAt }] as const),
        [invoices, { ...invoice, kind: "refund" }],
        [invoices, { ...invoice, amountMinor: -1 }],
        [invoices, { ...invoice, currency: "eur" }]
      ]
      for (const [path, body] of wrong) refused(yield* put(key, path, body), 400, "invalid_request")
      for (const path of ["/claims/x", "/claims/x/claimed"]) refused(yield* put(key, path, claimant), 400, "invalid_request")
      for (const path of [`/projects/${long}`, `/invoices/${long}`, "/projects/%00", "/projects/%ff"]) {
        refused(yield* put(key, path, project), 400, "invalid_request")
      }
    }))

  it.effect("take ids as they come, up to 200 characters", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      for (const id of ["a/b?c#d%20 ;", "\u{1F680}".repeat(200)]) {
        const reply = yield* put(key, `/projects/${encodeURIComponent(id)}`, project)
        assert.deepStrictEqual([reply.status, json(reply).projectId], [201, id])
      }
    }))

  it.effect("keep to the media type, the size and the methods", () =>
    Effect.gen(function*() {
      const key = yield* ingestKey
      for (const [path, body] of (yield* calls).of) {
        const send = (more: object) => ask(`${INTERNAL}${path}`, { method: "PUT", key, body: JSON.stringify(body), ...more })
        refused(yield* send({ headers: { "content-type": "text/plain" } }), 415, "unsupported_media_type")
        refused(yield* send({ body: " ".repeat(1024 * 1024 + 1) }), 413, "payload_too_large")
        for (const method of ["GET", "POST", "DELETE"]) {
          const reply = yield* ask(`${INTERNAL}${path}`, { key, method })
          refused(reply, 405, "method_not_allowed")
          assert.strictEqual(reply.headers["allow"], "PUT, OPTIONS")
        }
      }
    }))

  it.effect("need the scope of their part of the API before anything else is looked at", () =>
    Effect.gen(function*() {
      const paths = [...(yield* calls).of.map(([path]) => `${INTERNAL}${path}`), `${INTERNAL}/nothing`, "/api/%69nternal/v1/nothing"]
      const scopes: ReadonlyArray<ReadonlyArray<Scope>> = [[], ["sandboxes"], ["webhooks"], ["metrics:read"], ["sandboxes", "webhooks",
        "metrics:read"]]
      for (const path of paths) {
        refused(yield* ask(path, { method: "PUT", body: "{}" }), 401, "unauthorized")
        for (const given of scopes) {
          const reply = yield* ask(path, { method: "PUT", body: "not JSON", key: (yield* mintKey({ scopes: given })).key })
          refused(reply, 403, "insufficient_scope")
          assert.include(reply.headers["www-authenticate"], `error="insufficient_scope", scope="partner:ingest"`)
        }
      }
      const key = yield* ingestKey
      for (const path of ["/api/public/v1/sandboxes", "/api/public/v1/events", "/api/public/v1/nothing", "/api/internals", "/api/"]) {
        const reply = yield* ask(path, { key })
        refused(reply, 403, "insufficient_scope")
        assert.include(reply.headers["www-authenticate"], `scope="sandboxes"`)
      }
      refused(yield* put(key, "/nothing", {}), 404, "not_found")
      const both = yield* mintKey({ scopes: ["sandboxes", "partner:ingest"] })
      assert.strictEqual((yield* ask("/api/public/v1/sandboxes", { key: both.key })).status, 200)
      refused(yield* put(both.key, "/claims/x", {}), 400, "invalid_request")
    }))
})
