import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as Server from "../../../src/commands/client/server/Server.ts"
import { folder, runIn } from "../SlipwayProcess.ts"

const ID = "c_abcdefgh2345"
const TURN = "0f8c9d0e-9d1b-5a3e-8c55-2f3d5b1c7a10"
const usage = { llmRequestCount: 3, costMicroUsd: 120_000, creditsChargedMicros: 0 }
const sandbox = {
  id: ID,
  worktreeId: "w_abcdefgh2345",
  object: "sandbox",
  status: "running",
  title: "Do it",
  repos: [{ fullName: "acme/shop" }],
  model: "m",
  agentRuntime: "codex",
  turn: { active: false },
  usage,
  metadata: {},
  error: null,
  createdAt: "2026-11-24T02:41:00.000Z",
  startedAt: null,
  completedAt: null,
  links: { self: "https://a.example", events: "https://a.example", messages: "https://a.example" }
}

let last = 0
const event = (type: string, data: object, durable = true) => {
  const id = String(++last)
  const envelope = { object: "sandbox.event", version: "v1", ts: "2026-11-24T02:41:01.000Z", sandbox_id: ID, type, data }
  return durable ? `id: ${id}\ndata: ${JSON.stringify({ ...envelope, id, turn_id: TURN })}\n\n` : `data: ${JSON.stringify(envelope)}\n\n`
}
const used = (tokens?: object) => event("usage.updated", { usage, ...(tokens === undefined ? {} : { tokens }) })
const completed = event("turn.completed", { state: "succeeded" })
const snapshot = (more: object) =>
  event("snapshot", {
    sandbox,
    turn: { id: TURN, state: "running" },
    resume_cursor: "1",
    pending_approvals: [],
    waiting_messages: [],
    ...more
  }, false)

/** The command's last output for a server that streams these frames. */
const said = (args: ReadonlyArray<string>, frames: ReadonlyArray<string>) =>
  Effect.map(ended(args, frames), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, stderr)
    return stdout
  })

/** The same, with how it ended. `ends`: each stream ends behind its frames. */
const ended = (args: ReadonlyArray<string>, given: ReadonlyArray<string>, { ends = false } = {}) =>
  Effect.gen(function*() {
    const frames = [...given]
    const server = yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const made = createServer((request, response) => {
          if (request.url?.includes("/events/stream") === true) {
            response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" })
            return ends ? response.end(frames.splice(0).join("")) : response.write(frames.join(""))
          }
          response.writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json; charset=utf-8" })
          return response.end(JSON.stringify(sandbox))
        })
        made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) =>
        Effect.sync(() => {
          made.close()
          made.closeAllConnections()
        })
    )
    const { port } = server.address() as AddressInfo
    const settings = { SLIPWAY_URL: `http://127.0.0.1:${port}`, SLIPWAY_API_KEY: "sbx_live_key" }
    return yield* runIn(yield* folder, args, settings)
  }).pipe(Effect.scoped)

const tokens = { input: 12_345, cachedInput: 9000, output: 678 }
const TOLD = "· cost so far: $0.12, 3 requests to models · tokens: 12,345 in, 9,000 of them cached, 678 out\n"
const run = ["run", "acme/shop", "Do it"]

describe("following a server that brings nothing more", () => {
  it.live("is given up after as long as it was told, with what to do", () =>
    Effect.gen(function*() {
      for (const [args, back] of [[run, "attach"], [["attach", ID], "attach"], [["logs", ID, "--follow"], "logs"]] as const) {
        const { code, stderr } = yield* ended([...args, "--give-up", "1"], [used()], { ends: true })
        assert.strictEqual(code, 7, stderr)
        assert.include(stderr, "The stream ended without an event. (empty_stream)")
        assert.include(stderr, `The sandbox continues; follow it again with: slipway ${back} ${ID}`)
      }
    }), 120_000)

  it.effect("is given up after five minutes where standard output is no terminal", () =>
    Effect.sync(() => {
      const { isTTY } = process.stdout
      try {
        const limits = [false, true].map((is) => {
          process.stdout.isTTY = is
          return [Server.giveUpMillis(Option.none()), Server.giveUpMillis(Option.some(7))]
        })
        assert.deepStrictEqual(limits, [[300_000, 7_000], [Infinity, 7_000]])
      } finally {
        process.stdout.isTTY = isTTY
      }
    }))
})

describe("the end of a turn that is followed", () => {
  it.live("tells the newest tokens of the log with the cost, also where the last event had none", () =>
    Effect.gen(function*() {
      assert.include(yield* said(run, [used({ input: 1, cachedInput: 0, output: 1 }), used(tokens), used(), completed]), TOLD)
    }))

  it.live("tells those of the snapshot where nothing was used since", () =>
    Effect.gen(function*() {
      assert.include(yield* said(["attach", ID], [snapshot({ tokens }), completed]), TOLD)
    }))

  it.live("tells the cost alone where the server tells no tokens", () =>
    Effect.gen(function*() {
      const alone = "· cost so far: $0.12, 3 requests to models\n"
      assert.include(yield* said(run, [used(), completed]), alone)
      assert.include(yield* said(["attach", ID], [snapshot({}), completed]), alone)
    }))
})
