import { assert, layer } from "@effect/vitest"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { DateTime, Effect, Stream } from "effect"
import { ask, create, drive, json, layer as http, mintKey, refused, SANDBOXES, turnOf } from "../testing/Harness.ts"

/** After everything else of the sandbox, which has the time of this machine. */
const createdAt = DateTime.makeUnsafe("2126-11-21T02:41:00.123Z")
const repos = [{ repo: "acme/shop", sha: "0123456789abcdef0123456789abcdef01234567" }]

/** A sandbox with as many checkpoints, of three bytes each. */
const checkpointed = Effect.fnUntraced(function*(key: string, count: number) {
  const id = yield* create(key)
  const [taken] = yield* (yield* Leases).take({ worker: "worker-1", machine: "machine-1" }, { slots: 100, boots: 100, errands: 100 })
  if (taken === undefined) return assert.fail("it was not leased")
  const turn = yield* turnOf(id)
  yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turn }, { _tag: "StartTurn", turnId: turn }, {
    _tag: "EndTurn",
    turnId: turn,
    state: "succeeded"
  }])
  const store = yield* SandboxStore
  const context = { now: createdAt, limits: yield* Policy }
  for (let checkpoint = 1; checkpoint <= count; checkpoint++) {
    const bytes = yield* (yield* Checkpoints).put(taken.lease, checkpoint, Stream.make(new Uint8Array(3)))
    const recorded = { _tag: "RecordCheckpoint", data: { checkpoint, bytes, ms: 5, repos } } as const
    yield* store.change(id, taken.lease, (sandbox) => decide(sandbox, recorded, context), createdAt)
  }
  return { id, turn }
})

layer(http(), { excludeTestServices: true })("checkpoints", (it) => {
  it.effect("are listed oldest first, in pages", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* checkpointed(key, 3)
      const list = (query: string) => Effect.map(ask(`${SANDBOXES}/${id}/checkpoints${query}`, { key }), json)
      const of = (checkpoint: number) => ({ checkpoint, turnId: turn, createdAt: "2126-11-21T02:41:00.123Z", bytes: 3, repos })
      assert.deepStrictEqual(yield* list(""), { data: [of(1), of(2), of(3)], nextCursor: null })
      assert.deepStrictEqual(yield* list("?limit=2"), { data: [of(1), of(2)], nextCursor: "2" })
      assert.deepStrictEqual(yield* list("?limit=2&after=2"), { data: [of(3)], nextCursor: null })
      assert.deepStrictEqual(yield* list("?limit=3"), { data: [of(1), of(2), of(3)], nextCursor: null })
      assert.deepStrictEqual(yield* list("?after=3"), { data: [], nextCursor: null })
    }))

  it.effect("are at most a hundred on a page, which is also the default", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key, 101)
      const path = `${SANDBOXES}/${id}/checkpoints`
      for (const query of ["", "?limit=100"]) {
        const { data, nextCursor } = json(yield* ask(`${path}${query}`, { key }))
        assert.deepStrictEqual([data.length, nextCursor], [100, "100"], query)
      }
      for (const limit of ["0", "101", "-1", "1.5", "x", ""]) refused(yield* ask(`${path}?limit=${limit}`, { key }), 400, "invalid_request")
    }))

  it.effect("of a sandbox that has none are an empty list; of another grant's and of none there is no answer", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const path = `${SANDBOXES}/${id}/checkpoints`
      assert.deepStrictEqual(json(yield* ask(path, { key })), { data: [], nextCursor: null })
      refused(yield* ask(path, { key: (yield* mintKey({ grant: "another" })).key }), 404, "not_found")
      for (const after of ["x", "-1", "1.5", "9007199254740992", ""]) {
        refused(yield* ask(`${path}?after=${after}`, { key }), 400, "invalid_cursor")
      }
    }))
})
