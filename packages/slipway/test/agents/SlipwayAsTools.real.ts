/** A real agent of this machine as an MCP client of the real service: it calls Slipway's tools over Streamable HTTP with an API key. */
import { assert, describe, it } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { calling } from "@slipway/agents/testing/fake-model/Directives"
import { type AgentEvent, AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Redacted } from "effect"
import { folder, repository, run, serve } from "../commands/SlipwayProcess.ts"
import { agentsFolder, sandbox, unisolated } from "./real/RealAgent.ts"

const LONG = 300_000

const isInstalled = await Effect.runPromise(
  profiles["codex"] === undefined
    ? Effect.succeed(false)
    : Effect.map(Installed.inspect("codex", profiles["codex"], agentsFolder), ({ state }) => state === "ready")
)

describe.skipIf(!isInstalled)("Slipway's MCP server (needs codex: npm run agents:install)", () => {
  it.live("has its tools called by codex, which gives its model the results", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const server = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)])
      const made = yield* sandbox("codex")
      const session = yield* AgentRuntime.use((runtime) =>
        runtime.open({
          box: made.box,
          repositories: made.repositories,
          access: made.access,
          instructions: null,
          toolApprovalMode: "auto",
          profile: "codex",
          model: "test/codex",
          reasoningEffort: null,
          resume: null,
          // The name of a server is the last part of its address, which is that of Slipway's endpoint.
          mcp: { access: { baseUrl: server.url, token: Redacted.make(server.key ?? "") }, servers: ["mcp"] }
        })
      )
      const events: Array<AgentEvent> = []
      const created = calling("create_sandbox", { repos: [{ fullName: "acme/shop" }], prompt: "[[say hello]]", title: "Made by codex" })
      const end = yield* session.prompt({
        turnId: "00000000-0000-5000-8000-000000000001",
        text: `${created} ${calling("list_sandboxes", {})} [[say done]]`,
        onEvent: (event) => Effect.sync(() => void events.push(event))
      })
      assert.deepStrictEqual(end, { state: "succeeded" })
      const tools = events.flatMap((event) => event._tag === "ToolUpdated" && event.status === "completed" ? [event.tool] : [])
      assert.deepStrictEqual(tools, ["mcp: create_sandbox", "mcp: list_sandboxes"], JSON.stringify(events))
      const listed = yield* Effect.promise(async () => {
        const response = await fetch(`${server.url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${server.key}` } })
        return (await response.json()) as { readonly data: ReadonlyArray<{ readonly id: string; readonly title: string }> }
      })
      assert.deepStrictEqual(listed.data.map(({ title }) => title), ["Made by codex"])
      // The model got what the tool answered.
      assert.include(JSON.stringify(made.model.requests.map(({ body }) => body)), listed.data[0]?.id ?? "no sandbox")
    }).pipe(Effect.scoped, Effect.provide(unisolated.layer)), LONG)
})
