import { assert, it } from "@effect/vitest"
import * as AuthorizationServer from "@slipway/gateway/testing/AuthorizationServer"
import * as GuardedMcpServer from "@slipway/gateway/testing/GuardedMcpServer"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
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

it.live(
  "slipway mcp adds a command with the values of standard input, and takes none from its arguments",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* serve(data)
      yield* run(data, ["grants", "create", "acme"])
      const where = ["--grant", "acme", "--repo", "acme/shop"]
      const add = (input: string, ...args: ReadonlyArray<string>) =>
        runIn(data, ["mcp", "add", "shop", ...where, ...args], environment(data, {}), { input })
      const added = yield* add(
        `SHOP_KEY=${CANARY}=\nLOG_LEVEL=\n`,
        "--env",
        "SHOP_KEY",
        "--env",
        "LOG_LEVEL",
        "--",
        "node",
        "tools/mcp.js",
        "--env",
        "a b",
        "--",
        "https://x.example.com"
      )
      assert.deepInclude(added, { code: 0 })
      const listed = yield* run(data, ["mcp", "list", "--grant", "acme", "--json"])
      const [server] = JSON.parse(listed.stdout)
      assert.deepInclude(server, {
        name: "shop",
        command: "node",
        arguments: ["tools/mcp.js", "--env", "a b", "--", "https://x.example.com"],
        variables: ["SHOP_KEY", "LOG_LEVEL"],
        hasCredential: true
      })
      const shown = yield* run(data, ["mcp", "list", "--grant", "acme"])
      assert.include(shown.stdout, "node tools/mcp.js --env 'a b' -- https://x.example.com")
      assert.notInclude(added.stdout + added.stderr + listed.stdout + shown.stdout, "7Qm2")
      // The values of standard input fit the names, and none is in an argument.
      for (
        const [input, ...args] of [
          ["", "--env", `SHOP_KEY=${CANARY}`, "--", "node"],
          [`OTHER=${CANARY}\n`, "--env", "SHOP_KEY", "--", "node"],
          ["", "--header", "Authorization", "--", "node"],
          ["", "--env", "SHOP_KEY", "https://wiki.example.com/mcp"]
        ] as const
      ) {
        const refused = yield* add(input, ...args)
        assert.notStrictEqual(refused.code, 0, args.join(" "))
        assert.notInclude(refused.stdout + refused.stderr, "7Qm2")
      }
    }),
  600_000
)

/** A browser whose person agrees to everything: it follows redirects, with its cookies. */
const BROWSER = `#!${process.execPath}
const cookies = new Map()
let at = process.argv[2]
for (let steps = 0; at !== null && steps < 20; steps++) {
  const response = await fetch(at, { redirect: "manual", headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") } })
  for (const cookie of response.headers.getSetCookie()) cookies.set(...cookie.split(";")[0].split(/=(.*)/s))
  const location = response.headers.get("location")
  at = location === null ? null : new URL(location, at).href
  await response.text()
}
`

it.live(
  "slipway mcp connect connects a server by OAuth in the person's browser, and shows no token",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const issuer = yield* AuthorizationServer.start()
      const server = yield* GuardedMcpServer.start(issuer)
      const browser = path.join(data, "browser.mjs")
      writeFileSync(browser, BROWSER, { mode: 0o755 })
      const settings = { SLIPWAY_MCP_PRIVATE: `${server.destination},${issuer.destination}`, BROWSER: browser }
      yield* serve(data, settings)
      yield* run(data, ["grants", "create", "acme"])
      const where = ["--grant", "acme", "--repo", "acme/shop"]
      const mcp = (...args: ReadonlyArray<string>) => runIn(data, ["mcp", ...args], environment(data, settings))
      const added = yield* mcp("add", "notes", server.url, ...where, "--oauth")
      assert.deepInclude(added, { code: 0 })
      assert.include(added.stdout, "slipway mcp connect notes --grant acme --repo acme/shop")
      assert.include((yield* mcp("list", "--grant", "acme")).stdout, "not connected")
      const connected = yield* mcp("connect", "notes", ...where)
      assert.deepInclude(connected, { code: 0 })
      assert.include(connected.stdout, "The MCP server notes of acme/shop is connected.")
      const listed = yield* mcp("list", "--grant", "acme", "--json")
      const [{ connection }] = JSON.parse(listed.stdout)
      assert.isNull(connection.problem)
      assert.strictEqual(issuer.got.find(({ path }) => path === "/token")?.form["resource"], server.url)
      const refused = yield* mcp("connect", "other", ...where)
      assert.notStrictEqual(refused.code, 0)
      assert.notInclude(connected.stdout + listed.stdout, "oken")
      for (const wrong of [["--oauth", "--header", "X-Key"], ["--client-id", "mine"], ["--oauth", "--client-secret"]]) {
        assert.notStrictEqual((yield* mcp("add", "wrong", server.url, ...where, ...wrong)).code, 0)
      }
    }).pipe(Effect.scoped),
  600_000
)
