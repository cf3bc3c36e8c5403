import { assert, layer } from "@effect/vitest"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Fiber, Layer, Ref } from "effect"
import { ask, create, json, layer as http, mintKey, raw, refused, running, SANDBOXES } from "../testing/Harness.ts"

const down = Ref.makeUnsafe(false)
const lost = new StoreUnavailable({ cause: new Error("secret connection string") })

layer(
  http({
    access: (store) => ({
      ...store,
      admit: (digest, limits) => Effect.flatMap(Ref.get(down), (down) => down ? Effect.fail(lost) : store.admit(digest, limits)),
      stillGood: (keyIds) => Effect.flatMap(Ref.get(down), (down) => down ? Effect.fail(lost) : store.stillGood(keyIds))
    })
  }),
  { excludeTestServices: true }
)("a store that cannot answer", (it) => {
  it.effect("is 503, never an open door, and nothing of it is told", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      assert.strictEqual((yield* ask("/readyz")).status, 200)
      yield* Ref.set(down, true)
      for (const reply of [yield* ask(SANDBOXES, { key }), yield* ask("/api/nothing", { key }), yield* ask("/readyz")]) {
        refused(reply, 503, "unavailable")
        assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
        assert.notMatch(reply.text, /secret/u)
      }
      assert.strictEqual((yield* ask("/healthz")).status, 200)
      // A request that needs no store is refused without it.
      refused(yield* ask(SANDBOXES), 401, "unauthorized")
      refused(yield* ask(SANDBOXES, { key: "junk" }), 401, "unauthorized")
    }))
})

const full = Ref.makeUnsafe<string | null>(null)

layer(http({ trouble: Ref.get(full) }), { excludeTestServices: true })("a store that takes no writes", (it) => {
  it.effect("makes the service not ready, with the reason; it lives, and answers what needs no writing", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      assert.strictEqual((yield* ask("/readyz")).status, 200)
      yield* Ref.set(full, "The disk of the database is full.")
      const reply = yield* ask("/readyz")
      refused(reply, 503, "unavailable")
      assert.strictEqual(json(reply).error.message, "The disk of the database is full.")
      assert.strictEqual((yield* ask("/healthz")).status, 200)
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
      yield* Ref.set(full, null)
      assert.strictEqual((yield* ask("/readyz")).status, 200)
    }))
})

const broken = Ref.makeUnsafe<string | null>(null)
const ofWorker = { problem: Ref.get(broken), report: () => Effect.void }

layer(http().pipe(Layer.provide(Layer.succeed(WorkerReadiness, ofWorker))), { excludeTestServices: true })(
  "a worker that boots nothing",
  (it) => {
    it.effect("leaves the service beside it ready, which says so", () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* ask("/readyz")).text, `{"status":"ok"}`)
        yield* Ref.set(broken, "Its boots fail.")
        const reply = yield* ask("/readyz")
        assert.deepStrictEqual([reply.status, json(reply)], [200, { status: "ok", problem: "Its boots fail." }])
        assert.strictEqual((yield* ask("/healthz")).text, `{"status":"ok"}`)
      }))
  }
)

layer(http({ trees: { has: () => Effect.die(new Error("secret detail")) } }), { excludeTestServices: true })("a defect", (it) => {
  it.effect("is 500 with nothing internal", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const reply = yield* ask(`${SANDBOXES}/${id}/files/tree`, { key })
      refused(reply, 500, "internal_error")
      assert.notMatch(reply.text + JSON.stringify(reply.headers), /secret|Error:|\.ts/u)
    }))
})

layer(http({ trees: { has: () => Effect.interrupt } }), { excludeTestServices: true })("a request that is interrupted", (it) => {
  it.effect("as a shutdown does in the end, has the body of errors", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const reply = yield* ask(`${SANDBOXES}/${id}/files/tree`, { key })
      refused(reply, 503, "unavailable")
      assert.strictEqual(reply.headers["retry-after"], "1")
    }))
})

layer(http(), { excludeTestServices: true })("a slow request", (it) => {
  it.effect("is 408 when its headers do not come within 10 seconds; a quick one is not held up", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const slow = yield* Effect.forkChild(raw("GET / HTTP/1.1\r\nHost: a\r\n"))
      yield* create(key)
      const text = yield* Fiber.join(slow)
      assert.match(text, /^HTTP\/1.1 408 Request Timeout\r\n/u)
      assert.match(text, /\{"error":\{"code":"request_timeout"/u)
    }))
})
