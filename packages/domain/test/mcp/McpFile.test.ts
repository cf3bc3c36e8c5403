/** A repository's `.mcp.json`: which of its servers count, and hostile files. */
import { assert, describe, it } from "@effect/vitest"
import { MAX_MCP_FILE_BYTES, readMcpFile } from "@slipway/domain/mcp/rules/McpFile"
import { Result } from "effect"

const ENV = { REGION: "eu", LONG: "x".repeat(8000) }
const read = (mcpServers: unknown) => readMcpFile(JSON.stringify({ mcpServers }), ENV)
const readOne = (server: unknown, name = "shop") => Result.getOrThrow(read({ [name]: server }))
const reasonOf = (server: unknown, name = "shop") => readOne(server, name).refused[0]?.reason ?? assert.fail("it counts")

describe("a repository's .mcp.json", () => {
  it("has commands with their arguments and variables", () =>
    assert.deepStrictEqual(readOne({ type: "stdio", command: "node", args: ["mcp.js", ""], env: { LOG: "debug" }, note: "ignored" }), {
      servers: [{
        name: "shop",
        variables: { LOG: "debug" },
        settings: { command: "node", arguments: ["mcp.js", ""], variables: ["LOG"], onByDefault: true, tools: {} }
      }],
      refused: []
    }))

  it("gives a command no permission of its own", () =>
    assert.deepStrictEqual(readOne({ command: "node", tools: { wipe: "allow" }, alwaysAllow: ["wipe"] }).servers[0]?.settings.tools, {}))

  it("replaces variables of the repository's environment, and takes defaults", () =>
    assert.deepStrictEqual(
      readOne({ command: "./${REGION}", args: ["${NO:-a b}", "$REGION", "${REGION}${REGION:-x}"], env: { R: "${REGION}" } }).servers[0],
      {
        name: "shop",
        variables: { R: "eu" },
        settings: { command: "./eu", arguments: ["a b", "$REGION", "eueu"], variables: ["R"], onByDefault: true, tools: {} }
      }
    ))

  it("counts for nothing without servers", () => {
    for (const text of ["{}", "{\"mcpServers\":{}}"]) {
      assert.deepStrictEqual(readMcpFile(text, ENV), Result.succeed({ servers: [], refused: [] }))
    }
  })

  it.each([
    [{ type: "http", url: "https://mcp.example.com/" }, /Only commands/u],
    [{ type: "sse", url: "https://mcp.example.com/", command: "node" }, /Only commands/u],
    [{ url: "https://mcp.example.com/" }, /Only commands/u],
    [{}, /Only commands/u],
    [{ command: "${SECRET}" }, /the variable SECRET, which/u],
    [{ command: "node", env: { A: "${__proto__}" } }, /the variable __proto__, which/u],
    [{ command: "-c" }, /Its command cannot be used/u],
    [{ command: ["node"] }, /Its command cannot be used/u],
    [{ command: "no\u0000de" }, /Its command cannot be used/u],
    [{ command: "node", args: "a" }, /Its args cannot be used/u],
    [{ command: "node", args: [1] }, /Its args\[0\] cannot be used/u],
    [{ command: "node", args: Array.from({ length: 65 }, () => "a") }, /Its args cannot be used/u],
    [{ command: "node", env: { LD_PRELOAD: "a" } }, /cannot be used/u],
    [{ command: "node", env: { "a b": "a" } }, /cannot be used/u],
    [{ command: "node", env: { A: null } }, /Its env\.A cannot be used/u],
    [{ command: "node", args: Array.from({ length: 60 }, () => "${LONG}") }, /too large/u],
    ["node", /not an object/u],
    [null, /not an object/u],
    [["node"], /not an object/u]
  ])("names a server that does not count with the reason: %j", (server, expected) => {
    assert.match(reasonOf(server), expected)
    assert.deepStrictEqual(readOne(server).servers, [])
  })

  it.each(["Shop", "a_b", "-a", "", "x".repeat(33), "__proto__", "a/../b", "\u202eabc"])(
    "refuses the name %j",
    (name) => assert.match(reasonOf({ command: "node" }, name === "__proto__" ? "constructor_" : name), /Its name is not/u)
  )

  it("shows the beginning of a long name", () => assert.lengthOf(readOne({}, "x".repeat(1000)).refused[0]?.name ?? "", 41))

  it("counts the other servers where one does not", () => {
    const { refused, servers } = Result.getOrThrow(read({ good: { command: "node" }, bad: { url: "https://a.example.com" } }))
    assert.deepStrictEqual([servers.map(({ name }) => name), refused.map(({ name }) => name)], [["good"], ["bad"]])
  })

  it.each([
    ["not JSON", "{"],
    ["no JSON object", "[]"],
    ["null", "null"],
    ["binary", "\u0000\ufffd\u0001"],
    ["servers in a list", "{\"mcpServers\":[]}"],
    ["10,000 servers",
      JSON.stringify({ mcpServers: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`s${i}`, { command: "a" }])) })]
  ])("is unusable where it is %s", (_, text) => assert.isTrue(Result.isFailure(readMcpFile(text, ENV))))

  it("withstands lists in lists", () => {
    const deep = `${"[".repeat(MAX_MCP_FILE_BYTES / 3)}${"]".repeat(MAX_MCP_FILE_BYTES / 3)}`
    const { refused } = Result.getOrThrow(
      readMcpFile(`{"mcpServers":{"a":{"command":"node","args":${deep}},"b":{"command":${deep}}}}`, ENV)
    )
    assert.deepStrictEqual(refused.map(({ name }) => name), ["a", "b"])
  })
})
