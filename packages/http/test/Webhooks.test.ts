import { assert, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { notificationId } from "@slipway/domain/partner/rules/Notification"
import { bodyOf, EVENT_TYPES, type Next, type Outcome } from "@slipway/domain/partner/rules/Webhook"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { DateTime, Effect, Result } from "effect"
import { ask, json, layer as http, mintKey, postJson, refused, withoutNames } from "../testing/Harness.ts"

const ENDPOINTS = "/api/internal/v1/webhook-endpoints"
const URL = "https://hooks.example.com/slipway"
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

/** A key of a new grant. */
const newKey = Effect.gen(function*() {
  return yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["webhooks"] })
})
const register = Effect.fnUntraced(function*(key: string, body: object = {}) {
  const reply = yield* postJson(ENDPOINTS, key, { url: URL, ...body })
  assert.strictEqual(reply.status, 201, reply.text)
  return json(reply)
})
const post = (path: string, key: string, body?: string) =>
  ask(`${ENDPOINTS}${path}`, body === undefined ? { method: "POST", key } : { method: "POST", key, body })
const get = (path: string, key: string) => ask(`${ENDPOINTS}${path}`, { key })

/** Tells the feed of the grant something; the id of the event. */
const tell = Effect.fnUntraced(function*(grantId: string) {
  const partners = yield* PartnerStore
  const conversionId = yield* (yield* Ids).uuid7
  const at = yield* DateTime.now
  const data = { claimId: absent, leadId: "lead", variant: "b", occurredAt: at, conversionId }
  yield* partners.record(Effect.succeed({ result: undefined, tell: [{ grantId, fact: { type: "conversion.paid", data } }] }), at)
  return (yield* partners.feed(grantId, 0, 1000)).at(-1)?.id ?? ""
})
/** Makes the endpoint's next attempt, with that outcome. */
const attempt = Effect.fnUntraced(function*(endpointId: string, outcome: Outcome, next: Next) {
  const store = yield* WebhookStore
  const at = yield* DateTime.now
  const claimed = (yield* store.take(at, 1000)).find((one) => one.endpointId === endpointId)
  assert(claimed !== undefined)
  yield* store.record(claimed, { at, durationMillis: 12, outcome }, next, at)
  return claimed
})
const answered = (status: number, body: string | null = null): Outcome => ({ _tag: "Answered", status, retryAfter: null, body })

layer(http(), { excludeTestServices: true })("webhook endpoints", (it) => {
  it.effect("are there for their scope alone, however the address is spelled", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["partner:ingest", "sandboxes", "metrics:read"] })
      for (const spelled of ["", ";", ";x", "?x", ";?x", "/absent;x"]) {
        const reply = yield* postJson(ENDPOINTS + spelled, key, { url: URL })
        refused(reply, 403, "insufficient_scope")
        assert.include(reply.headers["www-authenticate"], `scope="webhooks"`)
      }
    }))

  it.effect("are registered with a secret that is shown once", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* newKey
      yield* tell(grant.id)
      const reply = yield* postJson(ENDPOINTS, key, { url: "https://HOOKS.example.com" })
      assert.strictEqual(reply.headers["cache-control"], "no-store")
      const { createdAt, id, secret, ...rest } = json(reply)
      assert.match(secret, /^whsec_[\w+/]{43}=$/u)
      assert.strictEqual(Buffer.from(secret.slice(6), "base64").length, 32)
      assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
      assert.deepStrictEqual(rest, {
        url: "https://hooks.example.com/",
        types: null,
        state: "enabled",
        disabledReason: null,
        disabledAt: null,
        lastSequence: 1,
        failedAttempts: 0,
        refusingSince: null,
        nextAttemptAt: null
      })
      const some = yield* register(key, { types: ["conversion.paid", "task.started"] })
      assert.deepStrictEqual(some.types, ["conversion.paid", "task.started"])
      assert.notStrictEqual(some.secret, secret)
      const list = yield* get("", key)
      const { secret: _secret, ...shown } = some
      assert.deepStrictEqual(json(list), { data: [{ ...rest, createdAt, id }, shown] })
      assert.deepStrictEqual(json(yield* get(`/${id}`, key)), { ...rest, createdAt, id })
      assert.notInclude(list.text, "whsec_")
    }))

  it.effect("are refused with any other body, or an address that is not https and public", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const bodies: ReadonlyArray<object> = [
        {},
        { url: 1 },
        { url: null },
        { url: "" },
        { url: "x".repeat(2001) },
        { url: `${URL}\u0000` },
        { url: URL, secret: "whsec_x" },
        { url: URL, more: 1 },
        ...[null, [], "conversion.paid", ["nothing.happened"], ["conversion.paid", "conversion.paid"], [1]].map((types) => ({
          url: URL,
          types
        })),
        ...[
          "http://hooks.example.com/",
          "ftp://hooks.example.com/",
          "hooks.example.com",
          "//hooks.example.com",
          "https://user:pass@hooks.example.com/",
          "https://hooks.example.com/#x",
          "https://127.0.0.1/",
          "https://127.1/",
          "https://0177.0.0.1/",
          "https://2130706433/",
          "https://[::1]/",
          "https://0.0.0.0/",
          "https://10.0.0.1/",
          "https://192.168.0.1/",
          "https://169.254.169.254/latest/meta-data",
          "https://100.64.0.1/",
          "https://[::ffff:10.0.0.1]/",
          "https://[fd00::1]/",
          "https://[fe80::1]/",
          "https://private.example.com/"
        ].map((url) => ({ url }))
      ]
      for (const body of bodies) {
        const reply = yield* postJson(ENDPOINTS, key, body)
        refused(reply, 400, "invalid_request")
        assert.notInclude(reply.text, "example.com")
      }
      for (const text of ["", "[]", "{", "null"]) refused(yield* post("", key, text), 400, "invalid_request")
      refused(
        yield* ask(ENDPOINTS, { method: "POST", key, body: "{}", headers: { "content-type": "text/plain" } }),
        415,
        "unsupported_media_type"
      )
      refused(yield* post("", key, " ".repeat(1024 * 1024 + 1)), 413, "payload_too_large")
      assert.deepStrictEqual(json(yield* get("", key)), { data: [] })
      assert.lengthOf((yield* register(key, { types: EVENT_TYPES })).types, 6)
    }))

  it.effect("are 20 of a grant at most", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      for (let n = 0; n < 20; n++) yield* register(key)
      refused(yield* postJson(ENDPOINTS, key, { url: URL }), 409, "conflict")
      yield* register((yield* newKey).key)
    }))

  it.effect("get a new secret, go on when they are enabled, and are deleted", () =>
    Effect.gen(function*() {
      const { grant, key, record } = yield* newKey
      const { secret, ...endpoint } = yield* register(key)
      const audit = yield* AuditLog
      const before = (yield* audit.list({ since: null, limit: 100_000 })).length

      const rotated = json(yield* post(`/${endpoint.id}/rotate-secret`, key))
      assert.deepStrictEqual({ ...rotated, secret: "" }, { ...endpoint, secret: "" })
      assert.match(rotated.secret, /^whsec_/u)
      assert.notStrictEqual(rotated.secret, secret)

      yield* tell(grant.id)
      yield* attempt(endpoint.id, answered(410), { _tag: "Disable", reason: "gone" })
      const disabled = json(yield* get(`/${endpoint.id}`, key))
      assert.deepInclude(disabled, { state: "disabled", disabledReason: "gone", lastSequence: 0, failedAttempts: 1, nextAttemptAt: null })
      assert.match(disabled.disabledAt, /Z$/u)

      for (const body of [undefined, "{}"]) {
        const enabled = yield* post(`/${endpoint.id}/enable`, key, body)
        assert.deepStrictEqual([enabled.status, json(enabled)], [200, endpoint])
      }
      yield* attempt(endpoint.id, answered(500), { _tag: "Retry", at: DateTime.makeUnsafe("2190-01-01T00:00:00.123Z") })
      assert.deepInclude(json(yield* get(`/${endpoint.id}`, key)), {
        state: "enabled",
        failedAttempts: 1,
        nextAttemptAt: "2190-01-01T00:00:00.123Z"
      })

      const deleted = yield* ask(`${ENDPOINTS}/${endpoint.id}`, { method: "DELETE", key })
      assert.deepStrictEqual([deleted.status, deleted.text], [204, ""])
      refused(yield* ask(`${ENDPOINTS}/${endpoint.id}`, { method: "DELETE", key }), 404, "not_found")

      const told = (yield* audit.list({ since: null, limit: 100_000 })).slice(before)
      assert.deepStrictEqual(told.filter(({ actor }) => actor._tag === "Key" && actor.keyId === record.id).map(({ action }) => action), [
        "webhook.secret_rotated",
        "webhook.enabled",
        "webhook.deleted"
      ])
      assert.notInclude(JSON.stringify(told), "whsec_")
    }))

  it.effect("tell of every attempt, page by page, newest first", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* newKey
      const { id } = yield* register(key)
      const [first, second] = [yield* tell(grant.id), yield* tell(grant.id)]
      const now = yield* DateTime.now
      yield* attempt(id, answered(500, "not now"), { _tag: "Retry", at: now })
      yield* attempt(id, { _tag: "Failed", trouble: "timeout" }, { _tag: "Retry", at: now })
      yield* attempt(id, answered(204), { _tag: "Delivered" })
      const entry = {
        sandboxId: null,
        type: null,
        manual: false,
        durationMs: 12,
        delivered: false,
        status: null,
        error: null,
        response: null
      }
      const entries = [
        { ...entry, eventId: first, sequence: 1, attempt: 3, delivered: true, status: 204 },
        { ...entry, eventId: first, sequence: 1, attempt: 2, error: "timeout" },
        { ...entry, eventId: first, sequence: 1, attempt: 1, status: 500, response: "not now" }
      ]
      const all = json(yield* get(`/${id}/deliveries`, key))
      assert.deepStrictEqual(all.data.map(({ at, ...rest }: any) => (assert.match(at, /Z$/u), rest)), entries)
      assert.isNull(all.nextCursor)
      const pages: Array<unknown> = []
      let after = ""
      for (let n = 0; n < 3; n++) {
        const page = json(yield* get(`/${id}/deliveries?limit=1${after}`, key))
        pages.push(...page.data)
        after = `&after=${page.nextCursor}`
        assert.strictEqual(page.nextCursor === null, n === 2)
      }
      assert.deepStrictEqual(pages, all.data)
      for (const limit of ["0", "101", "x", ""]) refused(yield* get(`/${id}/deliveries?limit=${limit}`, key), 400, "invalid_request")
      for (const cursor of ["", "x", "-1", "9007199254740992", "1&after=2"]) {
        refused(yield* get(`/${id}/deliveries?after=${cursor}`, key), 400, "invalid_cursor")
      }

      const again = yield* post(`/${id}/deliveries/${second}/redeliver`, key)
      assert.deepStrictEqual([again.status, json(again)], [202, { eventId: second }])
      const claimed = yield* attempt(id, answered(200), { _tag: "Delivered" })
      assert.deepStrictEqual([claimed.event.id, claimed.manual], [second, true])
      assert.deepInclude(json(yield* get(`/${id}/deliveries?limit=1`, key)).data[0], { eventId: second, manual: true, delivered: true })
      assert.strictEqual(json(yield* get(`/${id}`, key)).lastSequence, 1)
      refused(yield* post(`/${id}/deliveries/${absent}/redeliver`, key), 404, "not_found")
      refused(yield* post(`/${id}/deliveries/x/redeliver`, key), 400, "invalid_request")
      refused(yield* post(`/${id}/deliveries/${second}/redeliver`, key, `{"more":1}`), 400, "invalid_request")
    }))

  it.effect("may choose what happens to sandboxes, and are told of each attempt", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* newKey
      refused(yield* postJson(ENDPOINTS, key, { url: URL, types: ["sandbox.queued"] }), 400, "invalid_request")
      const { id, types } = yield* register(key, { types: ["pull_request.updated", "conversion.paid"] })
      assert.deepStrictEqual(types, ["conversion.paid", "pull_request.updated"])
      const all = yield* register(key, { types: NOTIFICATION_TYPES })
      assert.deepStrictEqual([all.types, all.lastSequence], [NOTIFICATION_TYPES, 0])
      const [sandboxes, store, at] = [yield* SandboxStore, yield* WebhookStore, yield* DateTime.now]
      const sandboxId = SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`)
      yield* sandboxes.create({
        creation: {
          id: sandboxId,
          grantId: grant.id,
          createdBy: "user_01J00000000000000000000000",
          title: "A title",
          repos: [{ fullName: "acme/shop" }],
          prompt: "a prompt",
          model: offlineDemo.id,
          agentRuntime: offlineDemo.agentRuntime,
          reasoningEffort: null,
          toolApprovalMode: "prompt",
          metadata: {},
          origin: null,
          continues: null,
          createdAt: at
        },
        keyed: null
      })
      const event = { type: "pull_request.updated" as const, data: { repo: "acme/shop", action_state: "publishing" as const } }
      yield* sandboxes.change(sandboxId, "policy", () => Result.succeed([event]), at)
      // The retry may be due at the same time as what is asked for by hand.
      const make = Effect.fnUntraced(function*(isManual: boolean) {
        const attempts = yield* store.takeNotifications(yield* DateTime.now, 1000)
        const taken = attempts.find(({ endpointId, manual }) => endpointId === id && manual === isManual)
        assert(taken !== undefined)
        yield* store.recordNotification(taken, { at, durationMillis: 12, outcome: answered(500) }, {
          _tag: "Retry",
          at: yield* DateTime.now
        }, at)
        return taken
      })
      yield* make(false)
      const eventId = notificationId(sandboxId, 2)
      const [entry] = json(yield* get(`/${id}/deliveries`, key)).data
      assert.deepInclude(entry, { eventId, sandboxId, type: "pull_request.updated", sequence: 2, attempt: 1, status: 500 })
      assert.match(json(yield* get(`/${id}`, key)).refusingSince, /Z$/u)
      yield* make(false)
      const again = yield* post(`/${id}/deliveries/${eventId}/redeliver`, key)
      assert.deepStrictEqual([again.status, json(again)], [202, { eventId }])
      refused(yield* post(`/${all.id}/deliveries/${eventId}/redeliver`, key), 404, "not_found")
      yield* make(true)
      assert.isNull(json(yield* post(`/${id}/enable`, key)).refusingSince)
    }))

  it.effect("are sent what the feed has, character for character", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* newKey
      const reader = yield* mintKey({ grant: grant.name })
      const { id } = yield* register(key)
      yield* tell(grant.id)
      const { event } = yield* attempt(id, answered(204), { _tag: "Delivered" })
      const feed = yield* ask("/api/public/v1/events", { key: reader.key })
      assert.strictEqual(feed.text, `{"data":[${bodyOf(event)}],"nextCursor":1}`)
    }))

  it.effect("of another grant are as unknown as those that never were, whatever is asked", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* newKey
      const { key: stranger } = yield* newKey
      const { id } = yield* register(key)
      const event = yield* tell(grant.id)
      const requests = [["GET", ""], ["DELETE", ""], ["POST", "/rotate-secret"], ["POST", "/enable"], ["GET", "/deliveries"], ["POST",
        `/deliveries/${event}/redeliver`]] as const
      for (const [method, path] of requests) {
        const [foreign, unknown] = [yield* ask(`${ENDPOINTS}/${id}${path}`, { method, key: stranger }),
          yield* ask(`${ENDPOINTS}/${absent}${path}`, { method, key: stranger })]
        refused(foreign, 404, "not_found")
        assert.deepStrictEqual(withoutNames(foreign), withoutNames(unknown))
        refused(yield* ask(`${ENDPOINTS}/nonsense${path}`, { method, key }), 400, "invalid_request")
      }
      assert.strictEqual((yield* get(`/${id.toUpperCase()}`, key)).status, 200)
      assert.deepStrictEqual(json(yield* get("", stranger)), { data: [] })
    }))

  it.effect("need a key with the scope webhooks, which opens nothing else", () =>
    Effect.gen(function*() {
      const paths = ["", `/${absent}`, `/${absent}/enable`, `/${absent}/rotate-secret`, `/${absent}/deliveries`, "/x/y/z"]
      const scopes: ReadonlyArray<ReadonlyArray<Scope>> = [[], ["sandboxes", "partner:ingest", "metrics:read"]]
      for (const path of paths) {
        refused(yield* ask(`${ENDPOINTS}${path}`), 401, "unauthorized")
        for (const given of scopes) {
          const reply = yield* ask(`${ENDPOINTS}${path}`, {
            method: "POST",
            body: "not JSON",
            key: (yield* mintKey({ scopes: given })).key
          })
          refused(reply, 403, "insufficient_scope")
          assert.include(reply.headers["www-authenticate"], `scope="webhooks"`)
        }
      }
      const { key } = yield* newKey
      for (const path of ["/api/internal/v1/webhook-endpointsx", "/api/internal/v1/claims/x", "/api/internal/v1/"]) {
        const reply = yield* ask(path, { key })
        refused(reply, 403, "insufficient_scope")
        assert.include(reply.headers["www-authenticate"], `scope="partner:ingest"`)
      }
      refused(yield* ask("/api/public/v1/sandboxes", { key }), 403, "insufficient_scope")
      refused(yield* get("/x/y/z", key), 404, "not_found")
      const wrong = yield* ask(ENDPOINTS, { method: "PUT", key })
      refused(wrong, 405, "method_not_allowed")
      assert.strictEqual(wrong.headers["allow"], "POST, GET, HEAD, OPTIONS")
    }))
})
