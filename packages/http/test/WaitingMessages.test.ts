/** Messages that are sent while a turn is active: `whenBusy`, taking them back, and what the snapshot and the list say of them. */
import { assert, layer } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import {
  ask,
  create,
  drive,
  json,
  layer as http,
  mintKey,
  openStream,
  postJson,
  refused,
  running,
  SANDBOXES,
  turnOf
} from "../testing/Harness.ts"

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
  it.effect("is refused, queued or handed to the agent, as whenBusy says, and nothing else is read as that", () =>
    Effect.gen(function*() {
      const { id, send, turn } = yield* busy
      const refusal = yield* send("x")
      refused(refusal, 409, "turn_active")
      assert.deepStrictEqual(messageIn(yield* send("x", "reject")), messageIn(refusal))
      for (const other of ["later", "Queue", "", null, true, ["queue"]]) refused(yield* send("x", other), 400, "invalid_request")
      for (const [whenBusy, n] of [["queue", 2], ["steer", 3]] as const) {
        const sent = yield* send(whenBusy, whenBusy)
        assert.deepStrictEqual([sent.status, json(sent).outcome, json(sent).turnId], [201, "applied", yield* turnOf(id, n)])
        assert.deepStrictEqual(Object.keys(json(sent)).sort(), ["commandId", "outcome", "revision", "turnId"])
      }
      // A steering message is next, as long as no agent took it.
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      refused(yield* send("x"), 409, "turn_active")
      yield* drive(id, [{ _tag: "StartTurn", turnId: yield* turnOf(id, 3) }])
    }))

  it.effect("starts a turn if none is active, whatever whenBusy says", () =>
    Effect.gen(function*() {
      for (const whenBusy of ["reject", "queue", "steer"]) {
        const { id, send, turn } = yield* busy
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
        const sent = yield* send("Go on", whenBusy)
        assert.deepStrictEqual([sent.status, json(sent).turnId], [201, yield* turnOf(id, 2)], whenBusy)
        yield* drive(id, [{ _tag: "StartTurn", turnId: yield* turnOf(id, 2) }])
      }
    }))

  it.effect("waits only where a turn can be active: in a sandbox that runs", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const early = yield* create(key)
      const { id } = yield* running(key)
      yield* ask(`${SANDBOXES}/${id}/terminate`, { method: "POST", key })
      for (const sandbox of [early, id]) {
        for (const whenBusy of ["queue", "steer"]) {
          refused(yield* by(key, sandbox).send("x", whenBusy), 409, "sandbox_not_running")
        }
      }
    }))

  it.effect("is refused once ten wait, whether it is queued or steers, until one is taken back", () =>
    Effect.gen(function*() {
      const { send, takeBack, wait } = yield* busy
      const turns = yield* Effect.forEach(Array.from({ length: 10 }, (_, i) => i), (i) => wait(`${i}`, i % 2 === 0 ? "queue" : "steer"))
      for (const whenBusy of ["queue", "steer"]) {
        const full = yield* send("Eleventh", whenBusy)
        refused(full, 409, "queue_full")
        assert.match(messageIn(full), /Take one back/u)
      }
      refused(yield* send("Eleventh", "reject"), 409, "turn_active")
      assert.strictEqual((yield* takeBack(turns[3] ?? "")).status, 200)
      assert.strictEqual((yield* send("Eleventh", "steer")).status, 201)
    }))

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
  it.effect("is a command, applied once, and leaves the others their turns", () =>
    Effect.gen(function*() {
      const { id, takeBack, turn, wait } = yield* busy
      const [first, second] = [yield* wait("One"), yield* wait("Two")]
      const done = yield* takeBack(first)
      assert.deepStrictEqual([done.status, Object.keys(json(done)).sort()], [200, ["commandId", "outcome", "revision"]])
      assert.strictEqual(json(done).outcome, "applied")
      assert.deepStrictEqual(json(yield* takeBack(first)), { ...json(done), outcome: "duplicate" })
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }, { _tag: "StartTurn", turnId: second }])
      assert.deepStrictEqual(json(yield* takeBack(first)), { ...json(done), outcome: "duplicate" })
    }))

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

layer(http(), { excludeTestServices: true })("what is told of messages that wait", (it) => {
  it.effect("the snapshot of a stream has them in order, each with the place that it has by then", () =>
    Effect.gen(function*() {
      const { id, key, takeBack, wait } = yield* busy
      const snapshot = Effect.gen(function*() {
        const reader = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key })
        yield* reader.next
        return JSON.parse((yield* reader.next)?.replace("data: ", "") ?? "").data.waiting_messages
      }).pipe(Effect.scoped)
      assert.deepStrictEqual(yield* snapshot, [])
      const [gone, second, steers] = [yield* wait("One"), yield* wait("Two"), yield* wait("Now", "steer")]
      yield* takeBack(gone)
      const { data } = json(yield* ask(`${SANDBOXES}/${id}/events`, { key }))
      const told = data.filter(({ type }: any) => type === "message.queued").map(({ data }: any) => data)
      assert.deepStrictEqual(told.map(({ position }: any) => position), [1, 2, 1])
      assert.deepStrictEqual(yield* snapshot, [
        { ...told[2], message_id: steers, position: 1, text: "Now", steers: true },
        { ...told[1], message_id: second, position: 2, text: "Two", steers: false }
      ])
    }))

  it.effect("the list has a message that was taken into a turn behind what the agent was saying, page by page", () =>
    Effect.gen(function*() {
      const { id, key, turn, wait } = yield* busy
      const steers = yield* wait("No, so.", "steer")
      const say = (message: string, text: string) =>
        ({
          _tag: "RecordWork",
          turnId: turn,
          events: [{ type: "message.updated", data: { part_id: `${message}:text`, message_id: message, kind: "text", text } }]
        }) as const
      yield* drive(id, [say("m1", "I begin"), { _tag: "RecordSteer", turnId: turn, messageId: steers }])
      const page = (query: string) => Effect.map(ask(`${messagesOf(id)}${query}`, { key }), json)
      const first = yield* page("?limit=2")
      assert.deepStrictEqual(first.data.map(({ text }: any) => text), ["Say hello.", "I begin"])
      const rest = yield* page(`?after=${first.nextCursor}`)
      assert.deepStrictEqual(rest.data.map(({ id, role, turnId }: any) => [id, role, turnId]), [[steers, "user", turn]])
      yield* drive(id, [say("m1", "I begin."), say("m2", "So."), { _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.deepStrictEqual((yield* page("")).data.map(({ text }: any) => text), ["Say hello.", "I begin.", "No, so.", "So."])
    }))
})
