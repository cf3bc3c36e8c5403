/** Slipway as an MCP server: the whole way of a sandbox over HTTP and over standard input, with the client of the protocol's SDK. */
import { assert, describe, it } from "@effect/vitest"
import { discoverOAuthProtectedResourceMetadata, extractWWWAuthenticateParams } from "@modelcontextprotocol/sdk/client/auth.js"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import path from "node:path"
import { command, environment, folder, repository, run, runIn, serve, type Server } from "../SlipwayProcess.ts"

const LONG = 300_000

type Transport = Parameters<Client["connect"]>[0]

/** The client, until the scope closes. The transports' optional fields do not allow `undefined`, unlike those of the interface. */
const connected = (transport: StdioClientTransport | StreamableHTTPClientTransport) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ name: "test", version: "1" })
      await client.connect(transport as unknown as Transport)
      await client.listTools()
      return client
    }),
    (client) => Effect.promise(() => client.close())
  )

const overHttp = ({ key = "", url }: Server) =>
  connected(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers: { authorization: `Bearer ${key}` } } }))

const overStdio = ({ key = "", url }: Server, data: string) => {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment(data, { SLIPWAY_URL: url, SLIPWAY_API_KEY: key }))) {
    if (value !== undefined) env[name] = value
  }
  return connected(new StdioClientTransport({ command: process.execPath, args: [command, "mcp-server"], env, cwd: data }))
}

type Fields = Readonly<Record<string, any>>

/** The result of a tool that succeeds, and the texts of its progress. */
const caller = (client: Client) => (name: string, input: object) =>
  Effect.promise(async (): Promise<{ readonly fields: Fields; readonly told: ReadonlyArray<string> }> => {
    const told: Array<string> = []
    const { content, isError, structuredContent } = await client.callTool(
      { name, arguments: { ...input } },
      undefined,
      { timeout: LONG, onprogress: ({ message = "" }) => void told.push(message) }
    )
    assert.notStrictEqual(isError, true, JSON.stringify(content))
    return { fields: structuredContent as Fields, told }
  })

/** A service with a repository that it can push to. */
const service = Effect.gen(function*() {
  const data = yield* folder
  const bare = path.join(data, "shop.git")
  execFileSync("git", ["clone", "--quiet", "--bare", repository(data), bare], { stdio: "pipe" })
  const server = yield* serve(data)
  yield* run(data, ["repos", "add", "acme/shop", bare])
  return { data, bare, server }
})

/** The way of a sandbox from its creation to its end. */
const goes = Effect.fnUntraced(function*(client: Client, bare: string, name: string) {
  const call = caller(client)
  const request = {
    repos: [{ fullName: "acme/shop" }],
    prompt: `[[write path=${name}.txt content=hello]] [[say done with ${name}]]`,
    toolApprovalMode: "prompt"
  }
  const { fields: { id } } = yield* call("create_sandbox", request)
  assert.strictEqual((yield* call("create_sandbox", request)).fields["id"], id)

  const asked = yield* call("wait_for_sandbox", { sandboxId: id, timeoutSeconds: 200 })
  assert.strictEqual(asked.fields["reason"], "approval")
  assert.include(asked.told.join("\n"), "The agent asks for approval")
  const [{ approval_id: approvalId, preview }] = asked.fields["pendingApprovals"]
  assert.include(JSON.stringify(preview), "hello")
  yield* call("decide_approval", { sandboxId: id, approvalId, decision: "approve" })

  const ended = yield* call("wait_for_sandbox", { sandboxId: id, timeoutSeconds: 200 })
  assert.deepInclude(ended.fields, { reason: "turn_ended", reply: `done with ${name}` })
  const diff = yield* call("get_diff", { sandboxId: id })
  assert.include(diff.fields["text"], "+hello")
  const first = yield* call("get_diff", { sandboxId: id, limit: 10 })
  const rest = yield* call("get_diff", { sandboxId: id, offset: first.fields["nextOffset"] })
  assert.strictEqual(first.fields["text"] + rest.fields["text"], diff.fields["text"])
  const file = yield* call("read_file", { sandboxId: id, path: `${name}.txt` })
  assert.deepInclude(file.fields, { text: "hello\n", exists: true, nextOffset: null })
  assert.match(file.fields["note"], /untrusted data/u)
  const resource = yield* Effect.promise(() => client.readResource({ uri: `slipway://sandboxes/${id}/files/${name}.txt` }))
  assert.deepInclude(resource.contents[0], { text: "hello\n", mimeType: "text/plain" })

  yield* call("publish_pull_request", { sandboxId: id })
  const pushed = execFileSync("git", ["-C", bare, "show", `slipway/${id}:${name}.txt`], { encoding: "utf8" })
  assert.strictEqual(pushed, "hello\n")
  assert.strictEqual((yield* call("terminate_sandbox", { sandboxId: id })).fields["outcome"], "applied")
  const over = yield* call("wait_for_sandbox", { sandboxId: id })
  assert.strictEqual(over.fields["reason"], "finished")
})

describe("Slipway as an MCP server", () => {
  it.live(
    "creates, decides, shows and publishes over HTTP, and over standard input with the key of the command",
    () =>
      Effect.gen(function*() {
        const { bare, data, server } = yield* service
        yield* goes(yield* overHttp(server), bare, "http")
        yield* goes(yield* overStdio(server, data), bare, "stdio")
        assert.notInclude(server.output().replace(/^.*sbx_live_.*$/mu, ""), "sbx_live_")
      }),
    LONG
  )

  it.live("tells a client that knows OAuth where it finds what the endpoint needs", () =>
    Effect.gen(function*() {
      const { server } = yield* service
      const refused = yield* Effect.promise(() => fetch(`${server.url}/mcp`, { method: "POST" }))
      assert.strictEqual(refused.status, 401)
      const { resourceMetadataUrl } = extractWWWAuthenticateParams(refused)
      assert.strictEqual(resourceMetadataUrl?.href, `${server.url}/.well-known/oauth-protected-resource/mcp`)
      const metadata = yield* Effect.promise(() =>
        discoverOAuthProtectedResourceMetadata(`${server.url}/mcp`, resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl })
      )
      assert.deepInclude(metadata, { resource: `${server.url}/mcp`, bearer_methods_supported: ["header"] })
    }), LONG)
})

describe("slipway mcp-server", () => {
  /** The answers to these lines, and how the command ended. */
  const talk = (data: string, input: string, settings: Readonly<Record<string, string>>) =>
    Effect.map(
      runIn(data, ["mcp-server"], { SLIPWAY_URL: "http://127.0.0.1:1", ...settings }, { input }),
      ({ code, stderr, stdout }) => ({
        code,
        stderr,
        answers: stdout.split("\n").filter((line) => line !== "").map((line): Fields => JSON.parse(line))
      })
    )

  it.live("answers each line that it can read, says what is wrong with the others, and ends with its input", () =>
    Effect.gen(function*() {
      const lines = [
        "no json",
        "x".repeat(1_048_577),
        "[]",
        JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }),
        JSON.stringify({ jsonrpc: "2.0", id: "a", method: "initialize", params: { protocolVersion: "1999-01-01" } })
      ]
      const { answers, code, stderr } = yield* talk(yield* folder, `${lines.join("\n")}\n`, { SLIPWAY_API_KEY: "sbx_live_key" })
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.deepStrictEqual(answers.map(({ error, id }) => [id, error?.code]), [
        [null, -32_700],
        [null, -32_600],
        [null, -32_600],
        ["a", undefined]
      ])
      assert.deepInclude(answers[3]?.["result"], { protocolVersion: "2025-11-25" })
    }), LONG)

  it.live("ends with one line on standard error where there is no key", () =>
    Effect.gen(function*() {
      const { answers, code, stderr } = yield* talk(yield* folder, "", {})
      assert.deepStrictEqual([code, answers], [6, []])
      assert.match(stderr, /^slipway: there is no key for http:\/\/127\.0\.0\.1:1\. Sign in: .*\n$/u)
    }), LONG)
})
