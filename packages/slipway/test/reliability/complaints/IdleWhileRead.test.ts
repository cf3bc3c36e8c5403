/** A sandbox that needs no worker and has many readers. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { until } from "../../commands/SlipwayProcess.ts"
import * as World from "./World.ts"

it.live("only pollers and stream readers present: reading is no activity, and the idle limit comes", () =>
  Effect.gen(function*() {
    const { api, databaseUrl, server } = yield* World.service({ SLIPWAY_IDLE_HOURS: "1" })
    const id = yield* api.create({ prompt: "[[write path=a.txt content=a]]" })
    yield* api.event(id, "sandbox.checkpoint")

    const sandboxes = `${server.url}/api/public/v1/sandboxes`
    const headers = { authorization: `Bearer ${server.key}` }
    let reads = 0
    const reading = (address: string) =>
      Effect.promise(async (signal) => {
        const reply = await fetch(sandboxes + address, { headers, signal }).catch(() => null)
        await reply?.arrayBuffer().catch(() => null)
        reads++
      })
    const poller = Effect.forEach(
      ["", `/${id}`, `/${id}/events`, `/${id}/messages`, `/${id}/checkpoints`, `/${id}/pull-request`, `/${id}/files/tree`,
        `/${id}/files/content?path=a.txt`, `/${id}/files/download?path=a.txt`, `/${id}/files/diff`],
      (address) => reading(address),
      { discard: true }
    ).pipe(Effect.forever)
    let frames = 0
    const follower = Effect.promise(async (signal) => {
      const stream = await fetch(`${sandboxes}/${id}/events/stream`, { headers, signal }).catch(() => null)
      for await (const bytes of stream?.body ?? []) frames += bytes.length
    }).pipe(Effect.ignoreCause, Effect.forever)
    const all = yield* Effect.forkChild(Effect.all([poller, poller, poller, follower, follower, follower], { concurrency: "unbounded" }))
    yield* until(Effect.sync(() => reads), (count) => count > 100)

    // All but three seconds of its hour are over.
    const almost = "interval '59 minutes 57 seconds'"
    yield* World.query(
      databaseUrl,
      `UPDATE sandboxes SET idle_since = idle_since - ${almost}, deadline_at = deadline_at - ${almost} WHERE id = $1`,
      [id]
    )
    const before = reads
    yield* until(api.status(id), (status) => status !== "running")
    assert.isAbove(reads, before)
    assert.isAbove(frames, 0)
    yield* Fiber.interrupt(all)
    const last = World.statuses(yield* api.log(id)).at(-1)
    assert.deepInclude(last, { status: "succeeded", reason: "idle_timeout", initiator: "policy" })
  }).pipe(Effect.scoped))
