/**
 * Automations: making, changing and deleting them, and the runs of signed requests. A server may lack them, and a key may lack their scope.
 */
import { createHmac, randomUUID } from "node:crypto"
import { answered, type Ask, refused, type Reply } from "../client/Client.ts"
import {
  count,
  filled,
  fits,
  holds,
  is,
  type Json,
  listOf,
  matching,
  nullOr,
  object,
  same,
  Skip,
  text,
  timestamp
} from "../client/Expect.ts"
import { SANDBOXES, unique, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("automations", "docs/decisions/30")
const running = { needs: ["repo"] } as const

const PATH = "/api/internal/v1/automations"
const UNKNOWN = `${PATH}/0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff`
const MINUTE = 60_000

const members = {
  id: filled,
  name: text,
  trigger: object({ type: is("schedule", "webhook", "mention", "label") }, { open: true }),
  repos: listOf(object({ fullName: filled }, { open: true })),
  prompt: filled,
  toolApprovalMode: is("auto", "prompt"),
  maxRunning: count,
  maxPerDay: count,
  state: is("enabled", "paused"),
  pausedReason: nullOr(is("paused", "failures")),
  pausedAt: nullOr(timestamp),
  failures: count,
  nextRunAt: nullOr(timestamp),
  url: nullOr(filled),
  createdBy: filled,
  createdAt: timestamp
}
const optional = { model: filled, reasoningEffort: text, feedback: object({}, { open: true }) }
const automation = object(members, { optional })
const made = object({ ...members, secret: nullOr(matching(/^whsec_[A-Za-z0-9+/]{32,}=*$/u, "a secret of a webhook")) }, { optional })

const run = object({
  id: filled,
  trigger: filled,
  at: timestamp,
  outcome: is("starting", "started", "refused", "skipped"),
  sandboxId: nullOr(filled),
  code: nullOr(filled),
  message: nullOr(filled),
  limit: nullOr(is("running", "day"))
})

const ask = (world: World, path: string, more: Ask = {}) => world.http.ask(path, { key: world.options.key, ...more })

const settings = (world: World, more: object = {}): Record<string, unknown> => ({
  name: "Conformance",
  trigger: { type: "webhook" },
  repos: [{ fullName: world.repo }],
  prompt: "Conformance: an automation.",
  model: world.options.model,
  ...more
})

/** The reply to the creation of an automation. */
const create = async (world: World, more: object = {}): Promise<Reply> => {
  const reply = await ask(world, PATH, { body: settings(world, more) })
  if (reply.status === 404) throw new Skip("the server has no automations")
  if (reply.status === 403) throw new Skip("the key lacks the scope automations, or its repository")
  return reply
}

/** Deletes the automation through the unspoilt server, so that a defect of this run leaves nothing behind. */
const forget = (world: World, { id }: { readonly id: string }) =>
  world.session.setup.ask(`${PATH}/${id}`, { method: "DELETE", key: world.options.key })

interface Made {
  readonly id: string
  readonly secret: string
  readonly json: Json
}

/** Makes an automation for the time of `use`. */
const withOne = async (world: World, more: object, use: (made: Made) => Promise<void>): Promise<void> => {
  const { json } = answered(await create(world, more), 201, "an automation")
  const one = { id: json.at("id").string, secret: String(json.at("secret").value), json }
  try {
    await use(one)
  } finally {
    await forget(world, one)
  }
}

/** Calls the automation's address as Standard Webhooks say. `signed`: the body that is signed, if that is another one. */
const call = (
  world: World,
  { id, secret }: Pick<Made, "id" | "secret">,
  { at = new Date(), body = "{}", event = unique(), signed = body }: {
    readonly at?: Date
    readonly body?: string
    readonly event?: string
    readonly signed?: string
  } = {}
): Promise<Reply> => {
  const time = String(Math.floor(at.getTime() / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/u, ""), "base64")
  const signature = createHmac("sha256", key).update(`${event}.${time}.${signed}`).digest("base64")
  return world.http.ask(`${PATH}/${id}/trigger`, {
    key: null,
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": event,
      "webhook-timestamp": time,
      "webhook-signature": `v1,${signature}`
    }
  })
}

const runsOf = async (world: World, { id }: Pick<Made, "id">): Promise<Json> =>
  answered(await ask(world, `${PATH}/${id}/runs`), 200, "the runs").json

/** Ends the sandbox of a run. */
const end = async (world: World, reply: Reply): Promise<void> => {
  const id = reply.json.at("sandboxId").value
  if (typeof id === "string") await world.session.setup.ask(`${SANDBOXES}/${id}/terminate`, { method: "POST", key: world.options.key })
}

const managing = [
  rule(
    "made",
    "A new automation is 201, enabled, with its settings and their defaults, and the only reply with its secret.",
    async (world) => {
      await withOne(world, {}, async ({ id, json }) => {
        fits(json.value, made, "")
        const own = (found: Json) =>
          ["name", "trigger", "repos", "prompt", "toolApprovalMode", "maxRunning", "maxPerDay", "state", "failures", "nextRunAt"].map((
            key
          ) => found.at(key).value)
        const wanted = [
          "Conformance",
          { type: "webhook" },
          [{ fullName: world.repo }],
          "Conformance: an automation.",
          "auto",
          1,
          20,
          "enabled",
          0,
          null
        ]
        same(own(json), wanted, "the automation")
        holds(json.at("url").string.endsWith(`${PATH}/${id}/trigger`), "the address of its signed requests", json.at("url").value)
        const one = answered(await ask(world, `${PATH}/${id}`), 200, "the automation").json
        fits(one.value, automation, "")
        same(own(one), wanted, "the automation")
        const all = answered(await ask(world, PATH), 200, "the automations").json
        fits(all.value, object({ data: listOf(automation) }), "")
        holds(all.at("data").items.some((item) => item.at("id").value === id), "the automation in the list", all.value)
      })
    }
  ),
  rule("schedule", "A schedule has its next time, no address and no secret; without a zone its zone is UTC.", async (world) => {
    await withOne(world, { trigger: { type: "schedule", cron: "0 7 * * *" } }, async ({ json }) => {
      same(json.at("trigger").at("timeZone").value, "UTC", "timeZone")
      same([json.at("url").value, json.at("secret").value], [null, null], "url and secret")
      const next = json.at("nextRunAt").string
      holds(next.endsWith("T07:00:00.000Z"), "the next 7 o'clock", next)
      holds(Date.parse(next) - Date.parse(json.at("createdAt").string) <= 24 * 60 * MINUTE, "a time within a day", next)
    })
  }),
  rule("replaced", "PUT replaces all settings; the type of the trigger cannot change (400).", async (world) => {
    await withOne(world, { maxRunning: 3, maxPerDay: 30 }, async ({ id }) => {
      const put = (more: object) => ask(world, `${PATH}/${id}`, { method: "PUT", body: settings(world, more) })
      const { json } = answered(await put({ name: "Renamed", maxPerDay: 7 }), 200, "a change")
      fits(json.value, automation, "")
      const own = (found: Json) => [found.at("name").value, found.at("maxRunning").value, found.at("maxPerDay").value]
      same(own(json), ["Renamed", 1, 7], "name, maxRunning and maxPerDay")
      same(own(answered(await ask(world, `${PATH}/${id}`), 200, "the automation").json), ["Renamed", 1, 7], "the stored settings")
      refused(await put({ trigger: { type: "mention" } }), 400, "invalid_request", "another type of trigger")
    })
  }),
  rule(
    "deleted",
    "A deleted automation is 204, and then unknown: 404 to every request with a key, and 401 to a signed one.",
    async (world) => {
      const { json } = answered(await create(world), 201, "an automation")
      const one = { id: json.at("id").string, secret: json.at("secret").string }
      try {
        answered(await ask(world, `${PATH}/${one.id}`, { method: "DELETE" }), 204, "a deletion")
        for (const path of [`${PATH}/${one.id}`, UNKNOWN]) {
          refused(await ask(world, path), 404, "not_found", path)
          refused(await ask(world, `${path}/runs`), 404, "not_found", "its runs")
          refused(await ask(world, path, { method: "PUT", body: settings(world) }), 404, "not_found", "a change")
          refused(await ask(world, path, { method: "DELETE" }), 404, "not_found", "a second deletion")
          for (const action of ["run", "pause", "enable", "rotate-secret"]) {
            refused(await ask(world, `${path}/${action}`, { method: "POST" }), 404, "not_found", action)
          }
        }
        refused(await call(world, one), 401, "unauthorized", "a signed request")
      } finally {
        await forget(world, one)
      }
    }
  ),
  rule("foreign", "Another grant's automation is like a missing one: 404, and not in the list.", async (world) => {
    await withOne(world, {}, async ({ id }) => {
      const key = world.otherKey
      const list = await ask(world, PATH, { key })
      if (list.status === 403) throw new Skip("the other key lacks the scope automations")
      same(
        answered(list, 200, "the automations").json.at("data").items.filter((item) => item.at("id").value === id).length,
        0,
        "in the list"
      )
      refused(await ask(world, `${PATH}/${id}`, { key }), 404, "not_found", "an automation of another grant")
      refused(await ask(world, `${PATH}/${id}/runs`, { key }), 404, "not_found", "its runs")
      refused(await ask(world, `${PATH}/${id}/run`, { key, method: "POST" }), 404, "not_found", "a run")
      refused(await ask(world, `${PATH}/${id}`, { key, method: "DELETE" }), 404, "not_found", "a deletion")
    })
  }, { needs: ["other-key"] })
]

const limits = [
  rule("limits", "Settings at their limits are accepted; one more, and unknown members, are 400 and make nothing.", async (world) => {
    const most: ReadonlyArray<object> = [
      { name: "n".repeat(120), maxRunning: 20, maxPerDay: 200, prompt: "p".repeat(20_000) },
      { prompt: "{{payload.a}}".repeat(20), maxRunning: 1, maxPerDay: 1 }
    ]
    for (const more of most) await withOne(world, more, async () => {})
    const bad: ReadonlyArray<object> = [
      { name: "" },
      { name: "n".repeat(121) },
      { name: "two\nlines" },
      { maxRunning: 0 },
      { maxRunning: 21 },
      { maxPerDay: 0 },
      { maxPerDay: 201 },
      { maxPerDay: 1.5 },
      { prompt: " " },
      { prompt: "p".repeat(20_001) },
      { prompt: "{{payload.a}}".repeat(21) },
      { repos: [] },
      { repos: undefined },
      { trigger: undefined },
      { trigger: { type: "nonsense" } },
      { trigger: { type: "webhook", secret: "whsec_mine" } },
      { trigger: { type: "label", label: "l".repeat(51) } },
      { unknown: 1 }
    ]
    for (const more of bad) {
      const reply = await create(world, more)
      if (reply.status === 201) await forget(world, { id: reply.json.at("id").string })
      refused(reply, 400, "invalid_request", JSON.stringify(more).slice(0, 80))
    }
  }),
  rule(
    "schedules",
    "A cron expression has five fields and some time every year, and a zone is of the tz database: else 400.",
    async (world) => {
      const bad: ReadonlyArray<object> = [
        { cron: "" },
        { cron: "0 7 * *" },
        { cron: "0 0 7 * * *" },
        { cron: "60 7 * * *" },
        { cron: "0 7 30 2 *" },
        { cron: "@daily" },
        { cron: "0 7 * * *", timeZone: "Nowhere/City" },
        { cron: "0 7 * * *", timeZone: "" }
      ]
      for (const trigger of bad) {
        const reply = await create(world, { trigger: { type: "schedule", ...trigger } })
        if (reply.status === 201) await forget(world, { id: reply.json.at("id").string })
        refused(reply, 400, "invalid_request", JSON.stringify(trigger))
      }
    }
  ),
  rule("placeholders", "A placeholder that the trigger does not fill in is 400.", async (world) => {
    for (const prompt of ["{{issue.title}}", "{{nonsense}}", "{{ }}", "{{payload}}"]) {
      const reply = await create(world, { prompt })
      if (reply.status === 201) await forget(world, { id: reply.json.at("id").string })
      refused(reply, 400, "invalid_request", `${prompt} with a webhook`)
    }
  })
]

const signed = [
  rule(
    "run",
    "A signed request starts one run with one sandbox; a repetition starts nothing and is answered with the same run.",
    async (world) => {
      await withOne(world, { prompt: "Conformance: {{payload.task}}" }, async (one) => {
        const request = { event: unique(), body: JSON.stringify({ task: "a task" }) }
        const first = answered(await call(world, one, request), 200, "a signed request")
        try {
          fits(first.json.value, run, "")
          same(
            [first.json.at("trigger").value, first.json.at("outcome").value],
            [`webhook/${request.event}`, "started"],
            "trigger and outcome"
          )
          const sandbox = `${SANDBOXES}/${first.json.at("sandboxId").string}`
          same(answered(await ask(world, sandbox), 200, "its sandbox").json.at("metadata").value, { automation_id: one.id }, "metadata")
          const again = answered(await call(world, one, request), 200, "the repetition")
          same(again.json.value, first.json.value, "the run of the repetition")
          const runs = await runsOf(world, one)
          fits(runs.value, object({ data: listOf(run), nextCursor: nullOr(text) }), "")
          same(runs.at("data").value, [first.json.value], "the runs")
        } finally {
          await end(world, first)
        }
      })
    },
    running
  ),
  rule("full", "A signed request at a limit is a skipped run, which names the limit.", async (world) => {
    await withOne(world, { maxPerDay: 1, maxRunning: 20 }, async (one) => {
      const first = answered(await call(world, one), 200, "a signed request")
      try {
        const { json } = answered(await call(world, one), 200, "a signed request at the limit")
        fits(json.value, run, "")
        same([json.at("outcome").value, json.at("sandboxId").value, json.at("limit").value], ["skipped", null, "day"], "the run")
      } finally {
        await end(world, first)
      }
    })
  }, running),
  rule("forged", "Another secret, another body, another time than now and no signature are 401 and start nothing.", async (world) => {
    await withOne(world, {}, async (one) => {
      const now = Date.now()
      const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
      const forged = [
        await call(world, { ...one, secret }),
        await call(world, one, { body: "{\"a\":1}", signed: "{\"a\":2}" }),
        await call(world, one, { at: new Date(now - 10 * MINUTE) }),
        await call(world, one, { at: new Date(now + 10 * MINUTE) }),
        await call(world, { ...one, id: randomUUID() }),
        await world.http.ask(`${PATH}/${one.id}/trigger`, { key: world.options.key, method: "POST", body: {} })
      ]
      for (const reply of forged) refused(reply, 401, "unauthorized", "a forged request")
      same((await runsOf(world, one)).at("data").items.length, 0, "the number of runs")
    })
  }),
  rule("rotated", "A replaced secret signs on beside the new one.", async (world) => {
    await withOne(world, { maxPerDay: 1 }, async (one) => {
      const { json } = answered(await ask(world, `${PATH}/${one.id}/rotate-secret`, { method: "POST" }), 200, "a new secret")
      fits(json.value, made, "")
      holds(json.at("secret").value !== one.secret, "another secret", "the same one")
      const event = unique()
      const replies: Array<Reply> = []
      try {
        for (const secret of [one.secret, json.at("secret").string]) replies.push(await call(world, { ...one, secret }, { event }))
        for (const reply of replies) answered(reply, 200, "a signed request")
      } finally {
        for (const reply of replies) if (reply.status === 200) await end(world, reply)
      }
    })
  }, running),
  rule("paused", "A paused automation starts no run of a signed request (409 automation_paused) until it is enabled.", async (world) => {
    await withOne(world, {}, async (one) => {
      const act = async (action: string) => answered(await ask(world, `${PATH}/${one.id}/${action}`, { method: "POST" }), 200, action).json
      const paused = await act("pause")
      fits(paused.value, automation, "")
      same([paused.at("state").value, paused.at("pausedReason").value], ["paused", "paused"], "state and reason")
      refused(await call(world, one), 409, "automation_paused", "a signed request")
      same((await runsOf(world, one)).at("data").items.length, 0, "the number of runs")
      const enabled = await act("enable")
      same([enabled.at("state").value, enabled.at("pausedReason").value, enabled.at("pausedAt").value], ["enabled", null, null], "state")
    })
  })
]

/** The rules of this file. */
export const rules = [...managing, ...limits, ...signed]
