/** A client of somebody else's: the `eventsource` package, as browsers do it. */
import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Effect } from "effect"
import { EventSource } from "eventsource"
import { proxy } from "../testing/CuttingProxy.ts"
import { drive, layer as http, mintKey, running, SANDBOXES } from "../testing/Harness.ts"

/** Events in the order in which the client hands them out; each `next` waits for the first event that satisfies. */
const collect = (source: EventSource) => {
  const seen: Array<{ readonly id: string; readonly type: string }> = []
  const waiting = new Set<() => void>()
  source.onmessage = ({ data, lastEventId }) => {
    seen.push({ id: lastEventId, type: JSON.parse(data).type })
    waiting.forEach((look) => look())
  }
  const until = (holds: () => boolean) =>
    Effect.promise(() =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (!holds()) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      })
    )
  return { seen, until }
}

layer(http(), { excludeTestServices: true })("the eventsource package", (it) => {
  it.effect("follows a stream and resumes it where the connection was cut, without a gap or a repetition", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "eventsource" })
      const store = yield* SandboxStore
      const { id, turn } = yield* running(key)
      const started = (yield* store.log(id, 0, 100)).length
      const { cut, url } = yield* proxy()
      const source = yield* Effect.acquireRelease(
        Effect.sync(() =>
          new EventSource(`${url}${SANDBOXES}/${id}/events/stream`, {
            fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } })
          })
        ),
        (open) => Effect.sync(() => open.close())
      )
      const { seen, until } = collect(source)
      yield* until(() => seen.some(({ type }) => type === "sandbox.status"))
      assert.deepStrictEqual(seen.map(({ type }) => type), ["snapshot", "sandbox.status"])
      const work = (n: number) =>
        drive(id, [{
          _tag: "RecordWork",
          turnId: turn,
          events: [{
            type: "tool.updated",
            data: { part_id: `tool:${n}`, message_id: "m", call_id: `${n}`, tool: "t", status: "completed" }
          }]
        }])
      const durable = () => seen.filter(({ type }) => type === "tool.updated").map(({ id }) => id)
      for (const n of [1, 2, 3]) {
        yield* work(2 * n)
        yield* until(() => durable().length === 2 * n - 1)
        cut()
        yield* work(2 * n + 1)
        yield* until(() => durable().length === 2 * n)
      }
      const log = yield* store.log(id, started, 100)
      assert.deepStrictEqual(durable(), log.map(({ seq }) => String(seq)))
    }))
})
