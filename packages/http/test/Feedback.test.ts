import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { HeadChecks, PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { DateTime, Effect } from "effect"
import { ask, drive, json, layer as http, mintKey, postJson, refused, running, SANDBOXES } from "../testing/Harness.ts"

const failing: HeadChecks = {
  headSha: "a",
  state: "failed",
  at: DateTime.makeUnsafe(0),
  failing: [{
    name: "test",
    url: "https://host.test/run",
    summary: "",
    annotations: [{ path: "a.ts", line: 3, message: "expected 1" }],
    log: ""
  }]
}
let checks: HeadChecks | null = null
const read: PullRequestFeedback["Service"]["read"] = () =>
  Effect.sync(() => ({ isOpen: true, url: "https://host.test/3", headRef: "slipway/x", items: [], checks }))

layer(http({ feedback: { read } }), { excludeTestServices: true })("a request for changes", (it) => {
  const published = Effect.gen(function*() {
    const { key } = yield* mintKey()
    const { id } = yield* running(key)
    yield* drive(id, [{
      _tag: "ReportPublication",
      data: { repo: "acme/shop", action_state: "idle", number: 3, url: "https://host.test/3" }
    }])
    const events = SandboxStore.use((store) =>
      Effect.map(store.log(id, 0, 1000), (entries) => entries.map(({ wire }) => fromWire(wire).event))
    )
    return { key, id, events, address: `${SANDBOXES}/${id}/feedback` }
  })

  it.effect("is the next message, with the comments as quotes", () =>
    Effect.gen(function*() {
      const { address, events, key } = yield* published
      const body = { text: "Keep it short.", comments: [{ path: "src/a.ts", line: 7, text: "Rename it.\nPlease." }] }
      const reply = yield* postJson(address, key, body)
      assert.strictEqual(reply.status, 200)
      const { outcome, sandboxId, turnId } = json(reply)
      assert.isTrue(address.includes(sandboxId))
      assert.strictEqual(outcome, "applied")
      const log = yield* events
      const received = log.find(({ type }) => type === "feedback.received")
      assert.deepInclude(received?.data, { kind: "review", count: 2, round: 0 })
      assert.strictEqual(received?.turn_id, turnId)
      const text = log.flatMap((event) =>
        event.type === "message.queued"
          ? [event.data.text]
          : event.type === "turn.updated" && event.turn_id === turnId
          ? [event.data.text]
          : []
      )
      assert.include(text[0] ?? "", "src/a.ts line 7:\n> Rename it.\n> Please.")
    }))

  it.effect("for the failing checks needs some", () =>
    Effect.gen(function*() {
      const { address, events, key } = yield* published
      checks = null
      refused(yield* postJson(address, key, { checks: true }), 409, "no_failing_checks")
      assert.isFalse((yield* events).some(({ type }) => type === "feedback.received"))
      checks = failing
      assert.strictEqual((yield* postJson(address, key, { checks: true })).status, 200)
      assert.isTrue((yield* events).some((event) => event.type === "feedback.received" && event.data.kind === "checks"))
    }))

  it.effect("is refused without anything, with unknown properties, and of other grants' sandboxes", () =>
    Effect.gen(function*() {
      const { address, events, key } = yield* published
      const bodies = [{}, { comments: [] }, { checks: false }, { text: "" }, { text: "x", other: 1 }, {
        comments: [{ path: "a", line: 0, text: "x" }]
      }, { comments: Array.from({ length: 101 }, () => ({ path: "a", text: "x" })) }]
      for (const body of bodies) refused(yield* postJson(address, key, body), 400, "invalid_request")
      const other = yield* mintKey({ grant: "other" })
      refused(yield* postJson(address, other.key, { text: "x" }), 404, "not_found")
      refused(yield* ask(`${address}/resume`, { key: other.key, method: "POST" }), 404, "not_found")
      refused(yield* postJson(address, key, { text: "x", repo: "acme/unknown" }), 404, "repo_not_found")
      assert.isFalse((yield* events).some(({ type }) => type.startsWith("feedback.")))
    }))

  it.effect("feedback continues when it is asked to, and nothing happens where it was not paused", () =>
    Effect.gen(function*() {
      const { address, key } = yield* published
      const reply = yield* ask(`${address}/resume`, { key, method: "POST" })
      assert.deepStrictEqual([reply.status, json(reply).outcome], [200, "applied"])
    }))
})
