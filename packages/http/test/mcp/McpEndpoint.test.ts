/** The MCP server at `/mcp`: who may use it, what it refuses, and that its tools are the API with the caller's key. */
import { assert, layer } from "@effect/vitest"
import { LiveResponses } from "@slipway/http/server/connection/LiveResponses"
import { Effect } from "effect"
import { ask, creation, drive, json, layer as http, mintKey, refused, running, SANDBOXES } from "../../testing/Harness.ts"
import { called, connected, posted, request, until, waiting } from "./Clients.ts"

const LONG = 120_000
const NAMES = ["create_sandbox", "list_sandboxes", "get_sandbox", "wait_for_sandbox", "send_message", "decide_approval", "answer_question",
  "get_diff", "read_file", "list_artifacts", "read_artifact", "publish_pull_request", "terminate_sandbox"]

layer(http({ settings: { publicUrl: "https://slipway.test/base", streamsPerUser: 2 } }), { excludeTestServices: true })("MCP", (it) => {
  it.effect("lists each tool with a title, a description, bounded schemas and hints", () =>
    Effect.gen(function*() {
      const client = yield* connected((yield* mintKey()).key)
      const { tools } = yield* Effect.promise(() => client.listTools())
      assert.deepStrictEqual(tools.map(({ name }) => name), NAMES)
      for (const { annotations, description = "", inputSchema, name, outputSchema, title = "" } of tools) {
        assert.isAbove(title.length, 5)
        assert.isAbove(description.length, 40)
        assert.strictEqual(inputSchema["additionalProperties"], false)
        // Without a schema, results may have images.
        assert.strictEqual(outputSchema?.type, name === "read_artifact" ? undefined : "object", name)
        assert.containsAllKeys(annotations, ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
      }
      const hinted = (hint: "readOnlyHint" | "destructiveHint") =>
        tools.filter(({ annotations }) => annotations?.[hint] === true).map(({ name }) => name)
      assert.deepStrictEqual(hinted("readOnlyHint"), ["list_sandboxes", "get_sandbox", "wait_for_sandbox", "get_diff", "read_file",
        "list_artifacts", "read_artifact"])
      assert.deepStrictEqual(hinted("destructiveHint"), ["decide_approval", "terminate_sandbox"])
      assert.deepInclude(tools[0]?.inputSchema.properties?.["prompt"], { type: "string", minLength: 1, maxLength: 60_000 })
    }), LONG)

  it.effect("answers a client without a valid key with 401 and the address of the metadata, and serves them", () =>
    Effect.gen(function*() {
      const metadata = "https://slipway.test/base/.well-known/oauth-protected-resource/mcp"
      for (const key of [undefined, "sbx_live_wrong"]) {
        const reply = yield* posted(key, request("tools/list"))
        refused(reply, 401, "unauthorized")
        assert.match(reply.headers["www-authenticate"] ?? "", /^Bearer realm="slipway"/u)
        assert.include(reply.headers["www-authenticate"], `resource_metadata="${metadata}"`)
      }
      // Elsewhere a challenge names no metadata.
      assert.notInclude((yield* ask(SANDBOXES)).headers["www-authenticate"], "resource_metadata")
      for (const path of [new URL(metadata).pathname, "/.well-known/oauth-protected-resource/base/mcp"]) {
        const served = yield* ask(path)
        assert.strictEqual(served.status, 200, path)
        assert.deepStrictEqual(json(served), {
          resource: "https://slipway.test/base/mcp",
          resource_name: "Slipway",
          bearer_methods_supported: ["header"],
          scopes_supported: ["sandboxes"]
        })
      }
    }), LONG)

  it.effect("gives a key without the scope a tool error that names it, and no more than the key has", () =>
    Effect.gen(function*() {
      const client = yield* connected((yield* mintKey({ scopes: [] })).key)
      for (
        const [name, input] of [["list_sandboxes", {}], ["create_sandbox", creation], ["wait_for_sandbox", {
          sandboxId: "c_aaaaaaaaaaaa"
        }]] as const
      ) {
        const { isError, text } = yield* called(client, name, input)
        assert.isTrue(isError)
        assert.match(text, /^The key lacks the scope sandboxes\. \(insufficient_scope, req_/u)
      }
      const { id } = yield* running((yield* mintKey({ grant: "another" })).key)
      const stranger = yield* connected((yield* mintKey()).key)
      const answer = yield* called(stranger, "get_sandbox", { sandboxId: id })
      assert.isTrue(answer.isError)
      assert.match(answer.text, /\(not_found, /u)
      assert.notInclude((yield* called(stranger, "list_sandboxes")).text, id)
    }), LONG)

  it.effect("creates one sandbox for equal calls, and another one for another key", () =>
    Effect.gen(function*() {
      const client = yield* connected((yield* mintKey({ grant: "twice" })).key)
      const create = (more: object = {}) => called(client, "create_sandbox", { ...creation, ...more })
      const first = yield* create()
      assert.isFalse(first.isError, first.text)
      assert.strictEqual((yield* create({ prompt: creation.prompt })).structured["id"], first.structured["id"])
      const other = yield* create({ idempotencyKey: "again" })
      assert.notStrictEqual(other.structured["id"], first.structured["id"])
      const conflict = yield* create({ idempotencyKey: "again", title: "Another" })
      assert.include(conflict.text, "idempotency_conflict")
      assert.lengthOf((yield* called(client, "list_sandboxes")).structured["sandboxes"], 2)
    }), LONG)

  it.effect("refuses input that does not fit the schema before it asks the API", () =>
    Effect.gen(function*() {
      const client = yield* connected((yield* mintKey()).key)
      const wrong: ReadonlyArray<readonly [string, object]> = [
        ["create_sandbox", { repos: [], prompt: "x" }],
        ["create_sandbox", { ...creation, colour: "red" }],
        ["get_sandbox", { sandboxId: "../x" }],
        ["wait_for_sandbox", { sandboxId: "c_aaaaaaaaaaaa", timeoutSeconds: 601 }],
        ["read_file", { sandboxId: "c_aaaaaaaaaaaa", path: "x", limit: 100_001 }]
      ]
      for (const [name, input] of wrong) {
        const { isError, text } = yield* called(client, name, { ...input })
        assert.deepStrictEqual([isError, text.startsWith("The input is invalid. ")], [true, true], `${name}: ${text}`)
      }
    }), LONG)

  it.effect("refuses foreign origins, other types, unknown versions, batches, long bodies and other methods", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const list = request("tools/list")
      const status = (more: object, message: unknown = list) => Effect.map(posted(key, message, more), (reply) => reply.status)
      assert.strictEqual(yield* status({}), 200)
      assert.strictEqual(yield* status({ headers: { origin: "https://slipway.test" } }), 200)
      assert.strictEqual(yield* status({ headers: { origin: "https://evil.example" } }), 403)
      assert.strictEqual(yield* status({ headers: { "content-type": "text/plain" } }), 415)
      assert.strictEqual(yield* status({ headers: { accept: "text/html" } }), 406)
      assert.strictEqual(yield* status({ headers: { "mcp-protocol-version": "2024-11-05" } }), 400)
      assert.strictEqual(yield* status({}, [list]), 400)
      assert.strictEqual(yield* status({}, "{"), 400)
      assert.strictEqual(yield* status({}, request("tools/list", { pad: "x".repeat(1_048_576) })), 413)
      const got = yield* ask("/mcp", { key })
      refused(got, 405, "method_not_allowed")
      assert.strictEqual(got.headers["allow"], "POST, OPTIONS")
      assert.deepInclude(json(yield* posted(key, request("nothing"))), { error: { code: -32_601, message: "There is no method nothing." } })
    }), LONG)

  it.effect(
    "waits with the sandbox's events as progress, until it needs a decision, and until its turn has ended",
    () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey({ grant: "wait" })
        const { id, turn } = yield* running(key)
        const client = yield* connected(key)
        const approval = { approval_id: "a1", tool: "Run the tests", expires_at: "2036-01-01T00:00:00.000Z" }
        const asked = yield* waiting(client, id)
        yield* drive(id, [{ _tag: "RequestApproval", turnId: turn, approval }])
        const stopped = yield* asked.over
        assert.deepInclude(stopped, { reason: "approval" })
        assert.deepInclude(stopped["pendingApprovals"][0], { approval_id: "a1", tool: "Run the tests" })
        assert.deepInclude(asked.told, "The agent asks for approval: Run the tests")

        const approved = yield* called(client, "decide_approval", { sandboxId: id, approvalId: "a1", decision: "approve" })
        assert.strictEqual(approved.structured["outcome"], "applied", approved.text)
        const going = yield* waiting(client, id)
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
        const ended = yield* going.over
        assert.deepInclude(ended, { reason: "turn_ended", turn: { id: turn, state: "succeeded" } })
        assert.match(ended["note"], /untrusted/u)
      }),
    LONG
  )

  it.effect("says after its time that nothing needs the caller yet", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "time" })
      const { id } = yield* running(key)
      const answer = yield* called(yield* connected(key), "wait_for_sandbox", { sandboxId: id, timeoutSeconds: 1 })
      assert.deepInclude(answer.structured, { reason: "timeout", next: "Nothing needs you yet: call wait_for_sandbox again." })
    }), LONG)

  it.effect("counts waits among the streams of the user, and ends a cancelled one at once", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "cancel" })
      const { id } = yield* running(key)
      const client = yield* connected(key)
      const live = yield* LiveResponses
      const calls = [yield* waiting(client, id), yield* waiting(client, id)]
      const third = yield* called(client, "wait_for_sandbox", { sandboxId: id })
      assert.isTrue(third.isError)
      assert.match(third.text, /^This user has 2 open streams already\. \(rate_limited, /u)
      for (const [n, { abort }] of calls.entries()) {
        abort.abort()
        // A wait that went on would keep its stream for ten minutes.
        yield* until(Effect.sync(() => live.count("stream")), (count) => count === 1 - n)
      }
      assert.strictEqual((yield* called(client, "get_sandbox", { sandboxId: id })).structured["turn"].state, "running")
    }), LONG)

  it.effect("does not end the call of another client of the same key", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "others" })
      const { id, turn } = yield* running(key)
      const call = yield* waiting(yield* connected(key), id)
      // Every id that the client may have used so far.
      for (let requestId = 0; requestId < 10; requestId++) {
        const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } }
        assert.strictEqual((yield* posted(key, cancel, { headers: { "mcp-session-id": "another" } })).status, 202)
        assert.strictEqual((yield* posted(key, cancel)).status, 202)
      }
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.deepInclude(yield* call.over, { reason: "turn_ended" })
    }), LONG)

  it.effect("has sandboxes as resources, with templates for their changes and files", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "resources" })
      const { id } = yield* running(key)
      const client = yield* connected(key)
      const { resources } = yield* Effect.promise(() => client.listResources())
      assert.deepStrictEqual(resources.map(({ uri }) => uri), [`slipway://sandboxes/${id}`])
      const { contents: [content] } = yield* Effect.promise(() => client.readResource({ uri: `slipway://sandboxes/${id}` }))
      assert.strictEqual(JSON.parse((content as { readonly text: string }).text).sandbox.id, id)
      const { resourceTemplates } = yield* Effect.promise(() => client.listResourceTemplates())
      assert.deepStrictEqual(resourceTemplates.map(({ name }) => name), ["sandbox", "sandbox-diff", "sandbox-file"])
      for (
        const uri of ["slipway://sandboxes/c_zzzzzzzzzzzz", "slipway://sandboxes/x", `slipway://sandboxes/${id}/files/%zz`,
          "file:///etc/passwd"]
      ) {
        const failed = yield* Effect.promise(() => client.readResource({ uri }).then(() => "read", (error: Error) => error.message))
        assert.include(failed, `There is no resource ${uri}.`)
      }
    }), LONG)
})
