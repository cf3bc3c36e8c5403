/** An agent is steered over HTTP: a service as it is served, with the offline agent, git and Postgres. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const LONG = 300_000

const served = Effect.gen(function*() {
  const data = yield* folder
  const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none" }
  const server = yield* serve(data, settings)
  yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
  const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
  const key = String(JSON.parse(stdout).key)
  const api = Api.make({ ...server, key })
  const request = (method: "GET" | "POST", path: string, body?: object) =>
    Effect.promise(async () => {
      const reply = await fetch(`${server.url}/api/public/v1/sandboxes/${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return { status: reply.status, body: await reply.json() }
    })
  const steer = (id: string, prompt: string) =>
    Effect.map(request("POST", `${id}/messages`, { prompt, whenBusy: "steer" }), ({ body, status }) => {
      assert.strictEqual(status, 201, JSON.stringify(body))
      return String(body.turnId)
    })
  const untilEvent = (id: string, type: string, holds: (data: Readonly<Record<string, unknown>>) => boolean = () => true) =>
    until(api.log(id), (log) => log.some((event) => event.type === type && holds(event.data)))
  return { api, request, steer, untilEvent }
})

describe("steering", () => {
  it.live("hands the agent a message while its turn runs, and lists it as the person's", () =>
    Effect.gen(function*() {
      const { api, request, steer, untilEvent } = yield* served
      const id = yield* api.create({ prompt: "[[say ready]] [[listen]] [[say after]]" })
      yield* untilEvent(id, "message.updated", ({ text }) => text === "ready")
      const message = yield* steer(id, "to the left")
      yield* untilEvent(id, "turn.completed")
      const log = yield* api.log(id)
      const steered = log.filter(({ type }) => type === "message.steered")
      assert.deepStrictEqual(steered.map(({ data }) => [data["message_id"], data["text"]]), [[message, "to the left"]])
      assert.lengthOf(log.filter(({ type }) => type === "turn.started"), 1)
      const { body } = yield* request("GET", `${id}/messages`)
      const said: ReadonlyArray<{ readonly id: string; readonly role: string; readonly text: string }> = body.data
      assert.deepStrictEqual(said.filter(({ role }) => role === "user").map(({ text }) => text), [
        "[[say ready]] [[listen]] [[say after]]",
        "to the left"
      ])
      assert.strictEqual(said.find(({ text }) => text === "to the left")?.id, message)
      assert.deepStrictEqual(said.filter(({ role }) => role === "assistant").map(({ text }) => text), [
        "ready",
        "I was told: to the left",
        "after"
      ])
    }).pipe(Effect.scoped), LONG)

  it.live("does not wait for a person who is asked, and gives what was not taken the next turn", () =>
    Effect.gen(function*() {
      const { api, request, steer, untilEvent } = yield* served
      const id = yield* api.create({ prompt: "[[write path=a.txt content=one]] [[hang]]", toolApprovalMode: "prompt" })
      const asked = yield* untilEvent(id, "approval.requested")
      const first = yield* steer(id, "[[say left]]")
      const approval = asked.find(({ type }) => type === "approval.requested")?.data["approval_id"]
      yield* request("POST", `${id}/approvals/${approval}`, { decision: "approve" })
      yield* untilEvent(id, "message.steered", ({ message_id }) => message_id === first)
      yield* untilEvent(id, "message.updated", ({ text }) => text === "left")

      // It hangs by now, so it takes no more.
      const second = yield* steer(id, "[[say right]]")
      yield* request("POST", `${id}/interrupt`)
      const log = yield* untilEvent(id, "message.updated", ({ text }) => text === "right")
      const turns = log.filter(({ type }) => type === "turn.started")
      assert.deepStrictEqual(turns.slice(1).map(({ data }) => [data["prompt_id"], data["text"]]), [[second, "[[say right]]"]])
      assert.lengthOf(log.filter(({ type }) => type === "message.steered"), 1)
    }).pipe(Effect.scoped), LONG)
})
