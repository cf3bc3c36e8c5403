import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { environment, folder, run, runIn, serve } from "../SlipwayProcess.ts"

const CANARY = "Bearer canary-9f2Kq-7Qm2"

it.live(
  "slipway mcp adds a server with the credential of standard input, sets permissions, lists and removes, and shows no credential",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* serve(data)
      yield* run(data, ["grants", "create", "acme"])
      const where = ["--grant", "acme", "--repo", "acme/shop"]
      const mcp = (...args: ReadonlyArray<string>) => run(data, ["mcp", ...args])
      assert.include((yield* mcp("list", "--grant", "acme")).stdout, "No MCP servers.")
      const added = yield* runIn(
        data,
        ["mcp", "add", "wiki", "https://wiki.example.com/mcp", ...where, "--header", "Authorization"],
        environment(data, {}),
        { input: `${CANARY}\n` }
      )
      assert.deepInclude(added, { code: 0 })
      const refused = yield* mcp("add", "wiki", "http://wiki.example.com/mcp", ...where)
      assert.notStrictEqual(refused.code, 0)
      assert.include(refused.stderr, "https expected")
      assert.strictEqual((yield* mcp("tools", "wiki", "delete_page", "deny", ...where)).code, 0)
      const listed = yield* mcp("list", "--grant", "acme", "--json")
      const [server] = JSON.parse(listed.stdout)
      assert.deepInclude(server, {
        repo: "acme/shop",
        name: "wiki",
        url: "https://wiki.example.com/mcp",
        hasCredential: true,
        onByDefault: true,
        tools: { delete_page: "deny" }
      })
      assert.notInclude(added.stdout + added.stderr + listed.stdout, "7Qm2")
      assert.deepStrictEqual(JSON.parse((yield* mcp("tools", "wiki", "delete_page", "default", ...where, "--json")).stdout), {})
      assert.strictEqual((yield* mcp("remove", "wiki", ...where)).code, 0)
      assert.notStrictEqual((yield* mcp("remove", "wiki", ...where)).code, 0)
    }),
  600_000
)
