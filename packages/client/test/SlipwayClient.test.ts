import { assert, layer } from "@effect/vitest"
import { Refusal } from "@slipway/api/shared/Errors"
import { SlipwayClient, SlipwayError, type StreamEvent } from "@slipway/client"
import * as EffectClient from "@slipway/client/effect"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { proxy } from "@slipway/http/testing/CuttingProxy"
import { address, create, creation, drive, layer as http, mintKey, running, turnOf } from "@slipway/http/testing/Harness"
import { Effect, Fiber, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"

const clientOf = Effect.fnUntraced(function*(grant = "acme") {
  const { host, port } = yield* address
  const { key } = yield* mintKey({ grant })
  return { key, client: new SlipwayClient({ baseUrl: `http://${host}:${port}/`, apiKey: key }) }
})

const failure = (promise: Promise<unknown>) =>
  Effect.promise(() =>
    promise.then(() => assert.fail("it succeeded"), (error: unknown) => {
      assert(error instanceof SlipwayError)
      return error
    })
  )

layer(
  http({
    trees: {
      has: () => Effect.succeed(true),
      list: (_key, directory) => Effect.succeed({ directory, entries: [], partialWarnings: [], scope: "all" }),
      open: () => Effect.succeed({ size: 5, bytes: Stream.succeed(new TextEncoder().encode("hello")) }),
      compare: () => Effect.succeed({ working: null, head: null, base: null })
    }
  }),
  { excludeTestServices: true }
)("the promise client", (it) => {
  it.effect("does what the API does", () =>
    Effect.gen(function*() {
      const { client } = yield* clientOf("everything")
      const sandbox = yield* Effect.promise(() =>
        client.createSandbox({ ...creation, toolApprovalMode: "prompt" }, { idempotencyKey: "k" })
      )
      const again = yield* Effect.promise(() => client.createSandbox({ ...creation, toolApprovalMode: "prompt" }, { idempotencyKey: "k" }))
      assert.deepStrictEqual(again, sandbox)
      assert.deepStrictEqual(yield* Effect.promise(() => client.getSandbox(sandbox.id)), sandbox)
      assert.deepStrictEqual((yield* Effect.promise(() => client.listSandboxes({ status: "queued", limit: 1 }))).data, [sandbox])
      const turn = yield* turnOf(again.id as never)
      yield* drive(again.id as never, [
        { _tag: "StartBoot" },
        { _tag: "FinishBoot", turnId: turn },
        { _tag: "StartTurn", turnId: turn },
        { _tag: "RequestApproval", turnId: turn, approval: { approval_id: "a/1", tool: "shell" } },
        { _tag: "RequestApproval", turnId: turn, approval: { approval_id: "a/2", tool: "shell" } }
      ])
      const { id } = sandbox
      assert.strictEqual((yield* Effect.promise(() => client.approve(id, "a/1"))).outcome, "applied")
      assert.strictEqual((yield* Effect.promise(() => client.deny(id, "a/2"))).outcome, "applied")
      assert.strictEqual((yield* Effect.promise(() => client.interruptTurn(id))).outcome, "applied")
      yield* drive(again.id as never, [{ _tag: "EndTurn", turnId: turn, state: "interrupted" }])
      assert.strictEqual((yield* Effect.promise(() => client.sendMessage(id, "go on"))).turnId, yield* turnOf(again.id as never, 2))
      assert.strictEqual((yield* Effect.promise(() => client.listMessages(id))).data[0]?.text, creation.prompt)
      assert.strictEqual((yield* Effect.promise(() => client.listEvents(id, { after: 1, limit: 1 }))).nextCursor, "2")
      assert.strictEqual((yield* Effect.promise(() => client.listFiles(id, { directory: "src" }))).directory, "src")
      assert.strictEqual(yield* Effect.promise(() => client.downloadFile(id, "a b").then((response) => response.text())), "hello")
      assert.strictEqual((yield* Effect.promise(() => client.getFileContent(id, "a"))).reviewHead, null)
      assert.strictEqual((yield* Effect.promise(() => client.getPullRequest(id))).pullRequest, null)
      assert.strictEqual((yield* Effect.promise(() => client.terminateSandbox(id))).outcome, "applied")
      assert.strictEqual((yield* failure(client.publishPullRequest(id))).code, "sandbox_not_running")
    }))

  it.effect("uploads files, names them, and sends them with prompts", () =>
    Effect.gen(function*() {
      const { client } = yield* clientOf("files")
      const bytes = new TextEncoder().encode("hello")
      const one = yield* Effect.promise(() => client.uploadFile(bytes, { name: "ü 'a'.txt", mediaType: "text/plain" }))
      assert.deepInclude(one, { name: "ü 'a'.txt", mediaType: "text/plain", size: 5 })
      const two = yield* Effect.promise(() => client.uploadFile(new File(["<b>"], "b.html", { type: "text/html" })))
      assert.deepInclude(two, { name: "b.html", mediaType: "text/html" })
      assert.deepInclude(yield* Effect.promise(() => client.uploadFile(bytes)), { name: "file", mediaType: "application/octet-stream" })
      assert.deepStrictEqual(yield* Effect.promise(() => client.getFile(one.id)), one)
      assert.strictEqual(yield* Effect.promise(() => client.getFileBytes(one.id).then((response) => response.text())), "hello")
      const { id } = yield* Effect.promise(() => client.createSandbox({ ...creation, files: [{ id: two.id }] }))
      const turn = yield* turnOf(SandboxId.make(id))
      yield* drive(SandboxId.make(id), [
        { _tag: "StartBoot" },
        { _tag: "FinishBoot", turnId: turn },
        { _tag: "StartTurn", turnId: turn },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" }
      ])
      const { turnId } = yield* Effect.promise(() => client.sendMessage(id, "go on", { files: [{ id: one.id }] }))
      yield* drive(SandboxId.make(id), [{ _tag: "StartTurn", turnId }])
      const { data } = yield* Effect.promise(() => client.listMessages(id))
      assert.deepStrictEqual(data.map(({ files }) => files.map(({ name }) => name)), [["b.html"], ["ü 'a'.txt"]])
      assert.strictEqual((yield* failure(client.uploadFile(new Uint8Array(20 * 1024 * 1024 + 1)))).code, "file_too_large")
    }))

  it.effect("makes one sandbox and one turn, although the replies are lost and it asks again", () =>
    Effect.gen(function*() {
      const { client: observer, key } = yield* clientOf("lossy")
      const { host, port } = yield* address
      let isLost = true
      const client = new SlipwayClient({
        baseUrl: `http://${host}:${port}`,
        apiKey: key,
        backoffMillis: 1,
        fetch: async (input, init) => {
          const response = await fetch(input, init)
          isLost = !isLost
          if (isLost) return response
          await response.arrayBuffer()
          throw new TypeError("the connection was cut")
        }
      })
      const { id } = yield* Effect.promise(() => client.createSandbox(creation))
      assert.deepStrictEqual((yield* Effect.promise(() => observer.listSandboxes())).data.map((sandbox) => sandbox.id), [id])
      const sandboxId = SandboxId.make(id)
      const turn = yield* turnOf(sandboxId)
      yield* drive(sandboxId, [
        { _tag: "StartBoot" },
        { _tag: "FinishBoot", turnId: turn },
        { _tag: "StartTurn", turnId: turn },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" }
      ])
      const sent = yield* Effect.promise(() => client.sendMessage(id, "go on"))
      assert.deepStrictEqual([sent.outcome, sent.turnId], ["duplicate", yield* turnOf(sandboxId, 2)])
    }))

  it.effect("throws what the service said", () =>
    Effect.gen(function*() {
      const { client } = yield* clientOf()
      const unknown = yield* failure(client.getSandbox("c_aaaaaaaaaaaa"))
      assert.deepStrictEqual([unknown.status, unknown.code, unknown.message, unknown.isTemporary], [404, "not_found", "No such sandbox.",
        false])
      assert.match(String(unknown.requestId), /^req_/u)
      const nobody = yield* failure(new SlipwayClient({ baseUrl: "http://127.0.0.1:1", apiKey: "x" }).listSandboxes())
      assert.deepStrictEqual([nobody.status, nobody.code, nobody.isTemporary], [0, "unreachable", true])
    }))

  it.effect(
    "streams until the sandbox is finished, and every durable event comes once although the connection is cut",
    () =>
      Effect.gen(function*() {
        const { key } = yield* clientOf()
        const { cut, url } = yield* proxy()
        const client = new SlipwayClient({ baseUrl: url, apiKey: key, reconnectMillis: 1 })
        const { id, turn } = yield* running(key)
        const seen: Array<StreamEvent> = []
        const reading = yield* Effect.forkChild(Effect.promise(async () => {
          for await (const event of client.streamEvents(id, { since: 0 })) {
            seen.push(event)
            if (seen.length % 7 === 0) cut()
          }
        }))
        for (let i = 0; i < 60; i++) {
          yield* drive(id, [{
            _tag: "RecordWork",
            turnId: turn,
            events: [{ type: "message.updated", turn_id: turn, data: { part_id: "m:text", message_id: "m", kind: "text", text: `${i}` } }]
          }])
          yield* Effect.yieldNow
        }
        yield* drive(id, [{ _tag: "Fail", reason: "agent_lost", error: "gone", retryable: false }])
        yield* Fiber.join(reading)
        const log = yield* Effect.flatMap(SandboxStore, (store) => store.log(id, 0, 1000))
        assert.deepStrictEqual(seen.flatMap((event) => "id" in event ? event.id : []), log.map(({ seq }) => String(seq)))
      })
  )

  it.effect("ends the stream of a finished sandbox as soon as the service says that nothing is left", () =>
    Effect.gen(function*() {
      const { key } = yield* clientOf()
      const { host, port } = yield* address
      const statuses: Array<number> = []
      const client = new SlipwayClient({
        baseUrl: `http://${host}:${port}`,
        apiKey: key,
        fetch: async (input, init) => {
          const response = await fetch(input, init)
          statuses.push(response.status)
          return response
        }
      })
      const id = yield* create(key)
      yield* Effect.promise(() => client.terminateSandbox(id))
      const types = yield* Effect.promise(async () => {
        const types: Array<string> = []
        for await (const event of client.streamEvents(id)) types.push(event.type)
        return types
      })
      assert.deepStrictEqual([types, statuses], [["snapshot", "sandbox.status"], [200, 200, 204]])
    }))

  it.effect("stops streaming when it is told to", () =>
    Effect.gen(function*() {
      const { client, key } = yield* clientOf()
      const id = yield* create(key)
      const stop = new AbortController()
      const types = yield* Effect.promise(async () => {
        const types: Array<string> = []
        for await (const event of client.streamEvents(id, { signal: stop.signal })) {
          types.push(event.type)
          if (types.length === 2) stop.abort()
        }
        return types
      })
      assert.deepStrictEqual(types, ["snapshot", "sandbox.status"])
    }))
})

layer(http().pipe(Layer.provideMerge(FetchHttpClient.layer)), { excludeTestServices: true })("the Effect client", (it) => {
  type Failure = Effect.Error<ReturnType<EffectClient.EffectClient[keyof EffectClient.EffectClient]>>

  it.effect("fails with one kind of error with a code, for every refusal: by the key's check, a schema, the domain", () =>
    Effect.gen(function*() {
      const { host, port } = yield* address
      const effectClient = (apiKey: string) => EffectClient.make({ baseUrl: `http://${host}:${port}`, apiKey: Redacted.make(apiKey) })
      const refusalOf = (call: Effect.Effect<unknown, Failure>) =>
        Effect.map(
          Effect.flip(Effect.catchTags(call, { HttpClientError: Effect.die, SchemaError: Effect.die })),
          (refused: Refusal) => [refused instanceof Refusal, refused.status, refused.code]
        )
      const { key } = yield* mintKey()
      const client = yield* effectClient(key)
      const unknown = { params: { sandboxId: "c_abcdefgh2345" as never } }
      assert.deepStrictEqual(yield* refusalOf((yield* effectClient("nobody")).getSandbox(unknown)), [true, 401, "unauthorized"])
      assert.deepStrictEqual(yield* refusalOf(client.getSandbox(unknown)), [true, 404, "not_found"])
      assert.deepStrictEqual(yield* refusalOf(client.listSandboxes({ query: { after: "x" } })), [true, 400, "invalid_cursor"])
      assert.deepStrictEqual(
        yield* refusalOf(client.createSandbox({
          headers: {},
          payload: { ...creation, toolApprovalMode: "auto", metadata: {}, model: "no/such" as never }
        })),
        [true, 400, "invalid_model"]
      )
    }))

  it.effect("has each endpoint", () =>
    Effect.gen(function*() {
      const { host, port } = yield* address
      const { key } = yield* mintKey()
      const client = yield* EffectClient.make({ baseUrl: `http://${host}:${port}`, apiKey: Redacted.make(key) })
      const made = yield* client.createSandbox({
        headers: { "idempotency-key": "k" as never },
        payload: { ...creation, toolApprovalMode: "auto", metadata: {} }
      })
      const again = yield* client.createSandbox({
        headers: { "idempotency-key": "k" as never },
        payload: { ...creation, toolApprovalMode: "auto", metadata: {} }
      })
      assert.deepStrictEqual([made.sandbox.id, again.constructor.name], [again.sandbox.id, "Replayed"])
      const sandboxId = made.sandbox.id
      assert.strictEqual((yield* client.getSandbox({ params: { sandboxId } })).status, "queued")
      assert.strictEqual((yield* client.terminateSandbox({ params: { sandboxId } })).outcome, "applied")
      const refused = yield* Effect.flip(client.sendMessage({ params: { sandboxId }, headers: {}, payload: { prompt: "x" } }))
      assert(refused._tag === "Refusal")
      assert.deepStrictEqual([refused.status, refused.code], [409, "sandbox_not_running"])
    }))
})
