import { assert, describe, it } from "@effect/vitest"
import * as WebhookReceiver from "@slipway/machine/testing/WebhookReceiver"
import { Effect } from "effect"
import { createHmac } from "node:crypto"
import { folder, run, serve, until } from "../SlipwayProcess.ts"

const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

describe("slipway webhooks", () => {
  it.live(
    "registers endpoints of a grant, which the service then tells of its feed, and shows what was sent",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const receiver = yield* WebhookReceiver.start()
        receiver.answers.push(WebhookReceiver.status(204), WebhookReceiver.status(410, {}, "no more"))
        const settings = { SLIPWAY_WEBHOOK_PRIVATE: "true" }
        yield* serve(data, settings)
        yield* run(data, ["grants", "create", "acme"])
        const webhooks = (...args: ReadonlyArray<string>) => run(data, ["webhooks", ...args, "--grant", "acme"], settings)
        const asJson = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
          const ended = yield* webhooks(...args, "--json")
          assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], ended.stdout)
          return JSON.parse(ended.stdout)
        })
        const tell = run(data, ["partners", "claims", "create", "--grant", "acme", "--lead", "lead-1", "--variant", "b", "--credits", "5"])

        const { id, secret, ...endpoint } = yield* asJson(
          "add",
          `http://127.0.0.1:${receiver.port}/hook`,
          "--types",
          "credit_claim.created,conversion.paid"
        )
        assert.match(secret, /^whsec_[\w+/]{43}=$/u)
        assert.deepInclude(endpoint, { state: "enabled", types: ["credit_claim.created", "conversion.paid"], lastSequence: 0 })

        yield* tell
        const { body, headers } = yield* receiver.next
        const [event] = JSON.parse((yield* run(data, ["partners", "events", "acme", "--json"])).stdout)
        assert.deepStrictEqual([JSON.parse(body.toString()), headers["webhook-id"]], [event, event.id])
        const signed = `${event.id}.${headers["webhook-timestamp"]}.${body.toString()}`
        assert.strictEqual(
          headers["webhook-signature"],
          `v1,${createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(signed).digest("base64")}`
        )

        const rotated = yield* asJson("rotate", id)
        assert.notStrictEqual(rotated.secret, secret)
        yield* tell
        const second = yield* receiver.next
        assert.lengthOf(String(second.headers["webhook-signature"]).split(" "), 2)
        yield* until(asJson("show", id), ({ state }) => state === "disabled")
        assert.deepInclude(yield* asJson("show", id), { disabledReason: "gone", lastSequence: 1 })
        assert.include((yield* webhooks("list")).stdout, "disabled: gone")

        yield* asJson("enable", id)
        assert.deepStrictEqual((yield* receiver.next).headers["webhook-id"], second.headers["webhook-id"])
        assert.deepStrictEqual(yield* asJson("redeliver", id, event.id), { eventId: event.id })
        assert.deepStrictEqual((yield* receiver.next).body, body)
        const sent = yield* until(asJson("deliveries", id), ({ length }) => length === 4)
        assert.deepStrictEqual(
          sent.map(({ manual, response, sequence, status }: Record<string, unknown>) => [sequence, status, manual, response]),
          [[1, 204, true, null], [2, 204, false, null], [2, 410, false, "no more"], [1, 204, false, null]]
        )
        const shown = [(yield* webhooks("deliveries", id)).stdout, (yield* webhooks("list")).stdout, (yield* run(data, ["audit"])).stdout]
        for (const action of ["webhook.registered", "webhook.secret_rotated", "webhook.disabled", "webhook.enabled"]) {
          assert.include(shown[2], action)
        }
        for (const text of shown) {
          assert.notInclude(text, "whsec_")
        }
        assert.include((yield* webhooks("remove", id)).stdout, "is removed")

        const refused: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
          [["show", id], "slipway: There is no such webhook endpoint.\n"],
          [["show", "x"], "slipway: There is no such webhook endpoint.\n"],
          [["redeliver", id, absent], "slipway: There is no such webhook endpoint.\n"],
          [["add", "ftp://hooks.example.com/"], "slipway: url: https expected\n"]
        ]
        for (const [args, told] of refused) assert.deepStrictEqual(yield* webhooks(...args), { code: 1, stdout: "", stderr: told })
        // Private addresses are the operator's to allow.
        const plain = yield* run(data, ["webhooks", "add", "https://127.0.0.1/", "--grant", "acme"])
        assert.deepStrictEqual(plain, { code: 1, stdout: "", stderr: "slipway: url: a public address expected\n" })
      }).pipe(Effect.scoped)
  )
})
