/** Messages that are sent while a turn is active: `whenBusy`, taking them back, and what the snapshot and the list say of them. */
import { assert, layer } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { ask, drive, json, layer as http, mintKey, postJson, refused, running, SANDBOXES, turnOf } from "../testing/Harness.ts"

type WhenBusy = "reject" | "queue" | "steer"

const messagesOf = (id: SandboxId) => `${SANDBOXES}/${id}/messages`

/** A person's actions in one sandbox with one key. */
const by = (key: string, id: SandboxId) => ({
  send: (prompt: string, whenBusy?: unknown, headers = {}) => postJson(messagesOf(id), key, { prompt, whenBusy }, headers),
  takeBack: (messageId: string) => ask(`${messagesOf(id)}/${encodeURIComponent(messageId)}`, { method: "DELETE", key }),
  /** The turn that it waits for. */
  wait: (prompt: string, whenBusy: WhenBusy = "queue") =>
    Effect.map(postJson(messagesOf(id), key, { prompt, whenBusy }), (reply): string => {
      assert.strictEqual(reply.status, 201, reply.text)
      return json(reply).turnId
    })
})

const busy = Effect.gen(function*() {
  const { key } = yield* mintKey()
  const { id, turn } = yield* running(key)
  return { key, id, turn, ...by(key, id) }
})

const messageIn = (reply: { readonly text: string }): string => JSON.parse(reply.text).error.message

layer(http(), { excludeTestServices: true })("a message during a turn", (it) => {
  it.effect("under a key waits once, also when it waits no longer; what was refused leaves the key free", () =>
    Effect.gen(function*() {
      const { id, send, takeBack, turn } = yield* busy
      const headers = { "idempotency-key": "wait" }
      refused(yield* send("Then this", "reject", headers), 409, "turn_active")
      const first = yield* send("Then this", "queue", headers)
      assert.strictEqual(first.status, 201)
      for (let n = 0; n < 2; n++) {
        const again = yield* send("Then this", "queue", headers)
        assert.deepStrictEqual([again.status, again.headers["idempotent-replayed"]], [200, "true"])
        assert.deepStrictEqual(json(again), { ...json(first), outcome: "duplicate" })
        yield* takeBack(json(first).turnId)
      }
      for (
        const [prompt, whenBusy] of [["Then that", "queue"], ["Then this", "steer"], ["Then this", "reject"], ["Then this", undefined]]
      ) {
        refused(yield* send(prompt ?? "", whenBusy, headers), 409, "idempotency_conflict")
      }
      refused(yield* send("x", "queue", { "idempotency-key": " " }), 400, "invalid_idempotency_key")

      // Keys of before there was a choice are those of `reject`.
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const plain = { "idempotency-key": "plain" }
      assert.strictEqual((yield* send("Go on", undefined, plain)).status, 201)
      assert.strictEqual((yield* send("Go on", "reject", plain)).status, 200)
    }))
})

layer(http({ catalogue: { default: "opencode/plain", models: [{ ...offlineDemo, id: "opencode/plain", profile: "opencode" }] } }), {
  excludeTestServices: true
})("an agent that takes nothing during a turn", (it) => {
  it.effect("is not steered, however full the queue is; what is queued for it waits", () =>
    Effect.gen(function*() {
      const { send, wait } = yield* busy
      const steering = yield* send("x", "steer")
      refused(steering, 409, "steering_unsupported")
      assert.match(messageIn(steering), /Queue the message instead/u)
      for (let n = 0; n < 10; n++) yield* wait(`${n}`)
      refused(yield* send("x", "steer"), 409, "steering_unsupported")
      refused(yield* send("x", "queue"), 409, "queue_full")
    }))
})

layer(http(), { excludeTestServices: true })("taking a message back", (it) => {
  it.effect("is refused with 409 message_not_waiting once an agent has it, its turn began, or it was cancelled, and says which", () =>
    Effect.gen(function*() {
      const { id, key, takeBack, turn, wait } = yield* busy
      const [queued, steers, last] = [yield* wait("One"), yield* wait("Now", "steer"), yield* wait("Two")]
      const no = Effect.fnUntraced(function*(messageId: string, says: RegExp) {
        const reply = yield* takeBack(messageId)
        refused(reply, 409, "message_not_waiting")
        assert.match(messageIn(reply), says)
      })
      yield* no(turn, /Interrupt it/u)
      yield* drive(id, [{ _tag: "RecordSteer", turnId: turn, messageId: steers }])
      yield* no(steers, /waits no longer/u)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      yield* no(turn, /waits no longer/u)
      yield* no(queued, /Interrupt it/u)
      yield* ask(`${SANDBOXES}/${id}/terminate`, { method: "POST", key })
      yield* no(last, /waits no longer/u)
    }))

  it.effect("finds nothing by the id of nothing, of what is no message, or of another sandbox's", () =>
    Effect.gen(function*() {
      const { id, key, takeBack } = yield* busy
      const other = yield* busy
      const theirs = yield* other.wait("Mine")
      for (const messageId of [id, "x", "..", "a/b", "%", "'; --", `${theirs}0`]) {
        const reply = yield* takeBack(messageId)
        refused(reply, 400, "invalid_request")
        assert.match(json(reply).error.message, /^messageId: /u)
      }
      for (const messageId of [theirs, theirs.toUpperCase(), yield* turnOf(id, 2)]) {
        refused(yield* takeBack(messageId), 404, "not_found")
      }
      refused(yield* takeBack("x".repeat(301)), 400, "invalid_request")
      refused(yield* by(key, other.id).takeBack(yield* turnOf(id, 2)), 404, "not_found")
      assert.deepInclude(json(yield* other.takeBack(theirs)), { outcome: "applied" })
      for (const method of ["GET", "PUT", "POST"]) {
        const reply = yield* ask(`${messagesOf(id)}/x`, { method, key })
        refused(reply, 405, "method_not_allowed")
        assert.strictEqual(reply.headers["allow"], "DELETE, OPTIONS")
      }
    }))
})
