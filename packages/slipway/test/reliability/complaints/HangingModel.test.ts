/** A provider that answers with headers and nothing more, asked by an agent of a box that is killed meanwhile. */
import { assert, it } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Deferred, Effect } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import path from "node:path"
import { serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"
import * as World from "./World.ts"

/** In the place of grok: asks its model for each prompt, and answers when that has. */
const AGENT = `#!/usr/bin/env node
import { createInterface } from "node:readline"
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n")
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (method === "session/new") say({ id, result: { sessionId: "one" } })
  else if (method !== "session/prompt") { if (id !== undefined) say({ id, result: {} }) }
  else {
    fetch(process.env.GROK_XAI_API_BASE_URL + "/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer " + process.env.GATEWAY_TOKEN },
      body: JSON.stringify({ model: "a-model", stream: true, messages: [{ role: "user", content: params.prompt[0].text }] })
    }).then((reply) => reply.text()).then(
      () => say({ id, result: { stopReason: "end_turn" } }),
      (error) => say({ id, error: { code: -32000, message: String(error) } })
    )
  }
}
`

const install = (data: string) => {
  const { program } = profiles["grok"] ?? {}
  if (program === undefined || program === null) throw new Error("grok has no program")
  const modules = path.join(Installed.folderIn(data), "node_modules")
  const binary = path.join(modules, program.binaries(Installed.thisPlatform())[0] ?? "")
  mkdirSync(path.dirname(binary), { recursive: true })
  writeFileSync(path.join(modules, program.package, "package.json"), JSON.stringify({ version: program.version, type: "module" }))
  writeFileSync(binary, AGENT, { mode: 0o755 })
  return path.basename(binary)
}

/** `hangs`: it sends headers and no more. `gone` completes when the first that asked has gone away. */
const provider = Effect.gen(function*() {
  const [asked, gone] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const state = { hangs: true, open: 0 }
  const server = yield* Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const made = createServer((request, response) => {
        request.resume()
        state.open++
        response.on("close", () => {
          state.open--
          Deferred.doneUnsafe(gone, Effect.void)
        })
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.flushHeaders()
        if (!state.hangs) {
          const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
          response.end(
            `data: ${JSON.stringify({ choices: [{ delta: { content: "hi" }, finish_reason: "stop" }], usage })}\n\ndata: [DONE]\n\n`
          )
        }
        Deferred.doneUnsafe(asked, Effect.void)
      }).listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
    }),
    (made) =>
      Effect.sync(() => {
        made.close()
        made.closeAllConnections()
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { baseUrl: `http://127.0.0.1:${port}/v1`, asked: Deferred.await(asked), gone: Deferred.await(gone), state }
})

it.live.skipIf(!World.hasBoxes)(
  "an upstream model that sends headers and hangs, the agent killed meanwhile: it ends, nothing stays reserved, the sandbox goes on",
  () =>
    Effect.gen(function*() {
      const { data, databaseUrl } = yield* World.place
      const model = yield* provider
      const binary = install(data)
      const catalogue = path.join(data, "models.json")
      const upstream = {
        protocol: "openai-chat",
        baseUrl: model.baseUrl,
        model: "a-model",
        keyVariable: "A_KEY",
        prices: { input: 1, cachedInput: 1, cacheWrite: 1, output: 1 },
        contextTokens: 10_000,
        outputTokens: 1000
      }
      writeFileSync(
        catalogue,
        JSON.stringify({ default: "a/model", models: [{ id: "a/model", agentRuntime: "grok", efforts: [], approvals: true, upstream }] })
      )
      const server = yield* serve(data, {
        DATABASE_URL: databaseUrl,
        SLIPWAY_ISOLATION: "bubblewrap",
        SLIPWAY_MODELS: catalogue,
        A_KEY: "sk-0123456789abcdef",
        SLIPWAY_SANDBOX_BUDGET_USD: "1"
      })
      const api = Api.make(server)
      const calls = World.query(databaseUrl, "SELECT state, reserved::int AS reserved FROM model_calls")

      const id = yield* api.create({ prompt: "Hello" })
      yield* model.asked
      assert.deepStrictEqual((yield* calls).map(({ reserved, state }) => [state, reserved > 0]), [["open", true]])
      // The program itself, in its box.
      const agents = World.treeOf(server.pid).filter((pid) => World.commandOf(pid).includes(binary))
      assert.isNotEmpty(agents)
      process.kill(agents.at(-1) ?? 0, "SIGKILL")

      yield* model.gone
      yield* api.event(id, "turn.completed")
      assert.deepStrictEqual(World.ofType(yield* api.log(id), "turn.completed"), [
        { state: "failed", reason: "agent_lost", initiator: "provider" }
      ])
      assert.deepStrictEqual((yield* until(calls, (rows) => rows.every(({ state }) => state !== "open"))).map(({ reserved }) => reserved), [
        0
      ])
      const kept = yield* World.query(databaseUrl, "SELECT reserved::int AS reserved FROM sandbox_spending")
      assert.deepStrictEqual(kept, [{ reserved: 0 }])
      assert.strictEqual(model.state.open, 0)

      model.state.hangs = false
      yield* api.send(id, "Go on")
      yield* api.event(id, "turn.completed", 2)
      assert.deepStrictEqual(World.ofType(yield* api.log(id), "turn.completed").at(-1), { state: "succeeded" })
    }).pipe(Effect.scoped)
)
