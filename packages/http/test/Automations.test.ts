import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Clock, Effect } from "effect"
import { Webhook } from "standardwebhooks"
import { ask, json, layer as http, mintKey, postJson, refused } from "../testing/Harness.ts"

const AUTOMATIONS = "/api/internal/v1/automations"
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"
const settings = {
  name: "Nightly",
  trigger: { type: "schedule", cron: "0 7 * * 1-5", timeZone: "Europe/Berlin" },
  repos: [{ fullName: "acme/shop" }],
  prompt: "Update the dependencies."
}
const onWebhook = { ...settings, trigger: { type: "webhook" }, prompt: "Fix {{payload.alert.title}}." }

const newKey = Effect.gen(function*() {
  return yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["automations"] })
})
const add = Effect.fnUntraced(function*(key: string, body: object = settings) {
  const reply = yield* postJson(AUTOMATIONS, key, body)
  assert.strictEqual(reply.status, 201, reply.text)
  return json(reply)
})
const post = (path: string, key: string) => ask(`${AUTOMATIONS}${path}`, { method: "POST", key })
const get = (path: string, key: string) => ask(`${AUTOMATIONS}${path}`, { key })
const put = (path: string, key: string, body: object) =>
  ask(`${AUTOMATIONS}${path}`, { method: "PUT", key, body: JSON.stringify(body), headers: { "content-type": "application/json" } })

interface Sent {
  readonly id?: string
  readonly body?: string
  readonly late?: number
  readonly headers?: Record<string, string>
}
/** Sends a signed request, as the reference implementation signs it. */
const send = Effect.fnUntraced(
  function*(
    automationId: string,
    secret: string,
    { body = "{\"alert\":{\"title\":\"Down\"}}", headers, id = "msg_1", late = 0 }: Sent = {}
  ) {
    const at = new Date((yield* Clock.currentTimeMillis) - late * 1000)
    return yield* ask(`${AUTOMATIONS}/${automationId}/trigger`, {
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(secret).sign(id, at, body),
        ...headers
      }
    })
  }
)

layer(http(), { excludeTestServices: true })("automations", (it) => {
  it.effect("are there for their scope alone", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["partner:ingest", "sandboxes", "webhooks"] })
      const reply = yield* postJson(AUTOMATIONS, key, settings)
      refused(reply, 403, "insufficient_scope")
      assert.include(reply.headers["www-authenticate"], `scope="automations"`)
    }))

  it.effect("are made, listed, changed, paused, enabled and deleted", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { createdAt, createdBy: _createdBy, id, nextRunAt, secret, ...rest } = yield* add(key)
      assert.deepStrictEqual(rest, {
        ...settings,
        toolApprovalMode: "auto",
        maxRunning: 1,
        maxPerDay: 20,
        state: "enabled",
        pausedReason: null,
        pausedAt: null,
        failures: 0,
        url: null
      })
      assert.isNull(secret)
      assert.match(nextRunAt, /T0[56]:00:00\.000Z$/u)
      assert.match(createdAt, /Z$/u)
      const shown = json(yield* get(`/${id}`, key))
      assert.deepStrictEqual(json(yield* get("", key)), { data: [shown] })
      const changed = json(yield* put(`/${id}`, key, { ...settings, name: "Weekly", maxPerDay: 3 }))
      assert.deepInclude(changed, { name: "Weekly", maxPerDay: 3 })
      assert.deepInclude(json(yield* post(`/${id}/pause`, key)), { state: "paused", pausedReason: "paused", nextRunAt: null })
      assert.deepInclude(json(yield* post(`/${id}/enable`, key)), { state: "enabled", pausedReason: null })
      assert.strictEqual((yield* ask(`${AUTOMATIONS}/${id}`, { method: "DELETE", key })).status, 204)
      refused(yield* get(`/${id}`, key), 404, "not_found")
    }))

  it.effect("of another grant, and absent ones, are not found", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const other = yield* newKey
      const { id } = yield* add(other.key)
      for (const name of [id, absent]) {
        for (
          const asked of [
            get(`/${name}`, key),
            get(`/${name}/runs`, key),
            put(`/${name}`, key, settings),
            post(`/${name}/run`, key),
            post(`/${name}/pause`, key),
            post(`/${name}/enable`, key),
            post(`/${name}/rotate-secret`, key),
            ask(`${AUTOMATIONS}/${name}`, { method: "DELETE", key })
          ]
        ) refused(yield* asked, 404, "not_found")
      }
      assert.strictEqual((yield* get(`/${id}`, other.key)).status, 200)
    }))

  it.effect("are refused with any other body, before anything is stored", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const bodies: ReadonlyArray<object> = [
        {},
        { ...settings, more: 1 },
        { ...settings, prompt: "{{issue.title}}" },
        { ...settings, trigger: { type: "schedule", cron: "* * * * * *" } },
        { ...settings, trigger: { type: "webhook", secret: "whsec_x" } },
        { ...settings, maxRunning: 21 },
        { ...settings, repos: [] }
      ]
      for (const body of bodies) refused(yield* postJson(AUTOMATIONS, key, body), 400, "invalid_request")
      refused(yield* postJson(AUTOMATIONS, key, { ...settings, model: "absent/model" }), 400, "invalid_model")
      assert.deepStrictEqual(json(yield* get("", key)), { data: [] })
      const { id } = yield* add(key)
      refused(yield* put(`/${id}`, key, onWebhook), 400, "invalid_request")
      refused(yield* post(`/${id}/rotate-secret`, key), 400, "invalid_request")
    }))

  it.effect("run when a person asks, also paused, and list their runs page by page", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { id } = yield* add(key, { ...settings, maxRunning: 2 })
      yield* post(`/${id}/pause`, key)
      for (const outcome of ["started", "started", "skipped"]) {
        const run = json(yield* post(`/${id}/run`, key))
        assert.strictEqual(run.outcome, outcome)
        assert.match(run.trigger, /^manual\//u)
        assert.strictEqual(run.limit, outcome === "skipped" ? "running" : null)
        if (outcome === "started") assert.match(run.sandboxId, /^c_/u)
      }
      const all = json(yield* get(`/${id}/runs`, key)).data
      const page = json(yield* get(`/${id}/runs?limit=2`, key))
      const rest = json(yield* get(`/${id}/runs?limit=2&after=${page.nextCursor}`, key))
      assert.deepStrictEqual([...page.data, ...rest.data], all)
      assert.lengthOf(all, 3)
      assert.isNull(rest.nextCursor)
    }))
})

layer(http(), { excludeTestServices: true })("signed requests", (it) => {
  it.effect("start a run once for each id, and a repeated one is answered the same", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { id, secret, url } = yield* add(key, { ...onWebhook, maxRunning: 5 })
      assert.match(secret, /^whsec_/u)
      assert.isTrue(url.endsWith(`${AUTOMATIONS}/${id}/trigger`))
      const first = yield* send(id, secret)
      assert.strictEqual(first.status, 200, first.text)
      assert.deepInclude(json(first), { outcome: "started", trigger: "webhook/msg_1" })
      assert.deepStrictEqual(json(yield* send(id, secret, { body: "{\"other\":1}" })), json(first))
      assert.notStrictEqual(json(yield* send(id, secret, { id: "msg_2" })).sandboxId, json(first).sandboxId)
      assert.lengthOf(json(yield* get(`/${id}/runs`, key)).data, 2)
    }))

  it.effect("of anybody else are refused alike, and start nothing", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { id, secret } = yield* add(key, onWebhook)
      const other = yield* add(key, onWebhook)
      const schedule = yield* add(key)
      const wrong = `whsec_${Buffer.from("another secret").toString("base64")}`
      const replies = [
        yield* send(id, wrong),
        yield* send(id, other.secret),
        yield* send(schedule.id, secret),
        yield* send(absent, secret),
        yield* send("x", secret),
        yield* send(id, secret, { late: 301 }),
        yield* send(id, secret, { late: -301 }),
        yield* send(id, secret, { headers: { "webhook-id": "msg_2" } }),
        yield* send(id, secret, { headers: { "webhook-signature": "" } }),
        yield* ask(`${AUTOMATIONS}/${id}/trigger`, { method: "POST", key, body: "{}", headers: { "content-type": "application/json" } })
      ]
      for (const reply of replies) {
        refused(reply, 401, "unauthorized")
        assert.strictEqual(json(reply).error.message, json(replies[0]!).error.message)
      }
      assert.deepStrictEqual(json(yield* get(`/${id}/runs`, key)).data, [])
    }))

  it.effect("need JSON of at most 64 KiB, and an automation that is not paused", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { id, secret } = yield* add(key, onWebhook)
      refused(yield* send(id, secret, { body: "{" }), 400, "invalid_request")
      refused(yield* send(id, secret, { headers: { "content-type": "text/plain" } }), 415, "unsupported_media_type")
      refused(yield* send(id, secret, { body: JSON.stringify("x".repeat(64 * 1024)) }), 413, "payload_too_large")
      assert.strictEqual((yield* send(id, secret, { id: "large", body: JSON.stringify("x".repeat(64 * 1024 - 2)) })).status, 200)
      refused(yield* get(`/${id}/trigger`, key), 405, "method_not_allowed")
      yield* post(`/${id}/pause`, key)
      refused(yield* send(id, secret, { id: "msg_9" }), 409, "automation_paused")
      assert.strictEqual(json(yield* send(id, secret, { id: "large" })).outcome, "started")
    }))

  it.effect("are signed by the secret before for a day once it was replaced", () =>
    Effect.gen(function*() {
      const { key } = yield* newKey
      const { id, secret } = yield* add(key, { ...onWebhook, maxRunning: 5 })
      const replaced = json(yield* post(`/${id}/rotate-secret`, key))
      assert.notStrictEqual(replaced.secret, secret)
      for (const [n, each] of [secret, replaced.secret].entries()) {
        assert.strictEqual((yield* send(id, each, { id: `msg_${n}` })).status, 200)
      }
      assert.notInclude((yield* get("", key)).text, "whsec_")
    }))
})

layer(http({ settings: { requestsPerMinute: 20, refusedKeysPerMinute: 3 } }), { excludeTestServices: true })(
  "floods of signed requests",
  (it) => {
    it.effect("are held back by address, forged ones earlier", () =>
      Effect.gen(function*() {
        const wrong = `whsec_${Buffer.from("another secret").toString("base64")}`
        for (let i = 0; i < 3; i++) refused(yield* send(absent, wrong), 401, "unauthorized")
        const reply = yield* send(absent, wrong)
        refused(reply, 429, "rate_limited")
        assert.isAbove(Number(reply.headers["retry-after"]), 0)
      }))
  }
)
