import { assert, describe, it } from "@effect/vitest"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { costOf, noTokens, type Tokens } from "@slipway/domain/models/rules/Budget"
import { nothingSpent } from "@slipway/domain/models/rules/Usage"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { PRICES } from "@slipway/testing/contracts/models/ModelGatewayContract"
import { Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { get } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { KEY, layer, layerOn, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const PROMPT = "[[usage input=900 cached=300 output=77 reasoning=7]] [[think Hm.]] [[say A few words of an answer.]]"

const requests: Readonly<Record<UpstreamProtocol, { readonly path: string; readonly body: (stream: boolean) => object }>> = {
  "openai-chat": {
    path: "/v1/chat/completions",
    body: (stream) => ({ model: "dear-model", stream, n: 4, messages: [{ role: "user", content: PROMPT }] })
  },
  "openai-responses": {
    path: "/v1/responses",
    body: (stream) => ({
      model: "dear-model",
      stream,
      store: true,
      background: true,
      input: [{ role: "user", content: [{ type: "input_text", text: PROMPT }] }]
    })
  },
  "anthropic-messages": {
    path: "/v1/messages",
    body: (stream) => ({ model: "dear-model", stream, max_tokens: 99_999, messages: [{ role: "user", content: PROMPT }] })
  }
}

const tokens: Tokens = { input: 900, cachedInput: 300, cacheWrite: 0, output: 77 }
const cost = (of: Partial<Tokens>) => costOf(PRICES, { ...noTokens, ...of })

describe.each(Object.keys(requests) as ReadonlyArray<UpstreamProtocol>)("%s", (protocol) => {
  const { body, path } = requests[protocol]

  it.live.each([true, false])("what an answer took is exactly what was served (streaming: %s)", (streaming) =>
    Effect.gen(function*() {
      const model = yield* FakeModel.start({ token: KEY })
      const { access, account, of } = yield* open(upstreamOf(protocol, `${model.url}/v1`))
      const reply = yield* Provider.ask(access, path, body(streaming))
      assert.strictEqual(reply.status, 200, reply.text)
      assert.isFalse(reply.broken)
      assert.include(reply.text, "words")
      const [request] = model.requests
      assert.strictEqual(request?.call.model, "the-model")
      assert.strictEqual(request?.call.streaming, streaming)
      assert.deepStrictEqual(yield* account, {
        usage: { llmRequestCount: 1, costMicroUsd: costOf(PRICES, tokens), creditsChargedMicros: 0 },
        tokens: { input: 900, cachedInput: 300, output: 77 },
        refusals: 0,
        refusedFor: null
      })
      const spending = yield* Spending
      yield* Effect.eventually(
        Effect.flatMap(spending.of(of.grantId), ({ reserved }) => reserved === 0 ? Effect.void : Effect.fail("reserved"))
      )
      assert.strictEqual((yield* spending.of(of.grantId)).spent, costOf(PRICES, tokens))
      assert.deepStrictEqual((yield* spending.release(of.sandboxId)).tokens, { input: 900, cachedInput: 300, output: 77 })
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("the operator's account and the agent's token never meet", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      // An upstream that echoes everything, a byte at a time.
      provider.answer = ({ headers, response }) => {
        response.writeHead(200, {
          "content-type": "text/event-stream",
          "x-request-id": `id ${KEY}`,
          "x-echo": KEY,
          "set-cookie": `k=${KEY}`
        })
        for (const byte of Buffer.from(Provider.sse({ echo: headers }))) response.write(Buffer.of(byte))
        response.end()
      }
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const token = Redacted.value(access.token)
      const reply = yield* Provider.ask(access, path, body(true), { "x-api-key": token, cookie: `t=${token}`, "x-forwarded-for": "me" })
      assert.include(reply.text, "[redacted]")
      assert.notInclude(reply.text + JSON.stringify([...reply.headers]), KEY)
      const [asked] = provider.asked
      assert.notInclude(JSON.stringify(asked?.headers), token)
      assert.include(JSON.stringify(asked?.headers), KEY)
      assert.isUndefined(asked?.headers["x-forwarded-for"])
      assert.strictEqual(asked?.headers["accept-encoding"], "identity")
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("an error of the provider comes through in its words, without the key", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access, account } = yield* open(upstreamOf(protocol, provider.baseUrl))
      for (const [status, headers] of [[429, { "retry-after": "7" }], [500, {}], [400, {}]] as const) {
        provider.answer = ({ response }) => Provider.json(response, status, { error: { message: `no, ${KEY}` } }, headers)
        const reply = yield* Provider.ask(access, path, body(true))
        assert.deepStrictEqual([reply.status, JSON.parse(reply.text)], [status, { error: { message: "no, [redacted]" } }])
        if (status === 429) assert.strictEqual(reply.headers.get("retry-after"), "7")
      }
      // However it is written: what is decoded to be checked is encoded again.
      const unicode = Array.from(KEY, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")
      for (const spelled of [unicode, unicode.replaceAll("\\", "\\\\"), encodeURIComponent(KEY), Buffer.from(KEY).toString("base64")]) {
        provider.answer = ({ response }) => {
          response.writeHead(400, { "content-type": "application/json" })
          response.end(`{"error":{"message":"no, ${spelled}","${spelled}":1}}`)
        }
        const reply = yield* Provider.ask(access, path, body(true))
        assert.include(reply.text, "no, [redacted]")
        for (const form of [KEY, spelled.slice(0, -4)]) assert.notInclude(reply.text, form)
      }
      // An agent learns nothing of the account itself.
      for (const status of [401, 403]) {
        provider.answer = ({ response }) =>
          Provider.json(response, status, { error: { message: "Incorrect API key provided: sk-ca****4286" } })
        const reply = yield* Provider.ask(access, path, body(true))
        assert.strictEqual(reply.status, status)
        assert.strictEqual(JSON.parse(reply.text).error.message, "The model's provider refuses the service's account.")
      }
      for (const [status, content] of [[502, "<html>"], [302, ""]] as const) {
        provider.answer = ({ response }) => Provider.json(response, status, content, { location: `${provider.baseUrl}/elsewhere` })
        const reply = yield* Provider.ask(access, path, body(true))
        assert.deepStrictEqual([reply.status, typeof JSON.parse(reply.text).error.message], [502, "string"])
      }
      assert.strictEqual(provider.asked.length, 11)
      assert.deepInclude((yield* account).usage, { llmRequestCount: 11, costMicroUsd: 0 })
      assert.deepStrictEqual((yield* account).tokens, { input: 0, cachedInput: 0, output: 0 })
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("refuses in the protocol's own shape: no token, another address, nonsense, too much", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const nobody = { ...access, token: Redacted.make("x".repeat(43)) }
      const replies = [
        yield* Provider.ask(nobody, path, body(true)),
        yield* Provider.ask(access, `${path}/else`, body(true)),
        yield* Provider.ask(access, "/v1/embeddings", {}),
        yield* Provider.ask(access, `/v1/..${path}`, body(true), {}, "DELETE"),
        yield* Provider.ask(access, path, "[1"),
        yield* Provider.ask(access, path, { messages: "x".repeat(70_000) }),
        yield* Provider.ask(access, path, body(true), { "content-encoding": "gzip" })
      ]
      assert.deepStrictEqual(replies.map(({ status }) => status), [401, 404, 404, 404, 400, 413, 415])
      for (const { headers, text } of replies) {
        const error: Record<string, unknown> = JSON.parse(text)
        assert.deepStrictEqual(Object.keys(error), protocol === "anthropic-messages" ? ["type", "error"] : ["error"])
        assert.strictEqual(headers.get("x-should-retry"), "false")
      }
      assert.strictEqual(provider.asked.length, 0)
    }).pipe(Effect.scoped, Effect.provide(layer({ maximumBytes: 65_536 }))))

  it.live("a provider that is not there, hangs, breaks off or talks nonsense is an error in plain words", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access, account } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const gone = yield* open(upstreamOf(protocol, "http://127.0.0.1:9/v1"))
      const absent = yield* Provider.ask(gone.access, path, body(true))
      assert.deepStrictEqual([absent.status, JSON.parse(absent.text).error.message], [502, "The model's provider cannot be reached."])
      assert.strictEqual((yield* gone.account).usage.llmRequestCount, 0)

      const told = (answer: (asked: Provider.Asked) => void) => {
        provider.answer = answer
        return Effect.map(Provider.ask(access, path, body(true)), ({ broken, status, text }) =>
          broken ? "cut" : [status, JSON.parse(text).error.message])
      }
      assert.deepStrictEqual(yield* told(() => {}), [504, "The model's provider did not answer in time."])
      assert.deepStrictEqual(
        yield* told(({ request }) =>
          request.socket.resetAndDestroy()
        ),
        [502, "The model's provider closed the connection."]
      )
      assert.deepStrictEqual(
        yield* told(({ request }) => {
          request.socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        }),
        [502, "The model's provider sent an invalid answer."]
      )
      assert.deepStrictEqual(
        yield* told(({ response }) => {
          response.writeHead(200, { "content-type": "text/html" })
          response.end("<html>")
        }),
        [502, "The model's provider sent an invalid answer."]
      )
      assert.deepStrictEqual(
        yield* told(({ response }) => {
          response.writeHead(200, { "content-type": "text/event-stream" })
          response.write("data: {\"half")
        }),
        "cut"
      )
      assert.deepStrictEqual(
        yield* told(({ response }) => {
          response.writeHead(200, { "content-type": "text/event-stream" })
          response.write("data: {\"half", () => response.destroy())
        }),
        "cut"
      )
      // All of them reached the provider, which may charge for them.
      assert.strictEqual((yield* account).usage.llmRequestCount, 6)
      assert.isAbove((yield* account).usage.costMicroUsd, 0)
    }).pipe(Effect.scoped, Effect.provide(layer({ limits: { firstByteMillis: 300, idleMillis: 300 } }))))

  it.live("garbage in an answer passes as it came, and is charged by its size", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const comment = `:${"x".repeat(300)}`
      const garbage = `data: {not json "usage"\n\r\n${comment}\ndata: [1]\ndata: {"usage":{"prompt_tokens":-1,"input_tokens":"9"}}\n\n`
      provider.answer = ({ response }) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(garbage)
      }
      const { access, account } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const reply = yield* Provider.ask(access, path, body(true))
      assert.deepStrictEqual([reply.status, reply.text], [200, garbage])
      const sent = Buffer.byteLength(JSON.stringify(provider.asked[0]?.body))
      const [input, output] = [Math.ceil(sent / 3), Math.ceil(garbage.length / 3)]
      assert.strictEqual((yield* account).usage.costMicroUsd, cost({ input, output }))
      assert.deepStrictEqual((yield* account).tokens, { input, cachedInput: 0, output })
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("cutting the session cuts a stream in its middle, here and at the provider", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      provider.answer = ({ response }) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(Provider.sse({ type: "ping" }))
      }
      const { access, close, of } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const asking = yield* Effect.forkChild(Provider.ask(access, path, body(true)))
      const asked = yield* provider.next
      yield* close
      yield* asked.aborted
      assert.isTrue((yield* Fiber.join(asking)).broken)
      assert.strictEqual((yield* Provider.ask(access, path, body(true))).status, 401)
      const spending = yield* Spending
      assert.strictEqual((yield* spending.of(of.grantId)).reserved, 0)
      assert.isAbove((yield* spending.of(of.grantId)).spent, 0)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("an agent that goes away lets the provider stop, and is charged for what it got", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      provider.answer = ({ response }) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(Provider.sse({ type: "message_start", message: { usage: { input_tokens: 50, output_tokens: 1 } } }))
      }
      const { access, account } = yield* open(upstreamOf(protocol, provider.baseUrl))
      const received = Deferred.makeUnsafe<void>()
      const asking = yield* Effect.forkChild(
        Provider.ask(access, path, body(true), {}, "POST", () => Deferred.doneUnsafe(received, Effect.void))
      )
      const asked = yield* provider.next
      yield* Deferred.await(received)
      yield* Fiber.interrupt(asking)
      yield* asked.aborted
      const { usage } = yield* Effect.eventually(
        Effect.flatMap(account, (now) => now.usage.llmRequestCount > 0 ? Effect.succeed(now) : Effect.fail("open"))
      )
      assert.strictEqual(usage.llmRequestCount, 1)
      if (protocol === "anthropic-messages") assert.isAtLeast(usage.costMicroUsd, cost({ input: 50, output: 1 }))
      else assert.isAtLeast(usage.costMicroUsd, cost({ input: 20 }))
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("what goes out", () => {
  const outgoing = (protocol: UpstreamProtocol, body: object) =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      yield* Provider.ask(access, requests[protocol].path, body)
      return provider.asked[0]?.body
    }).pipe(Effect.scoped, Effect.provide(layer()))

  it.live("asks a chat model for one answer, within the catalogue's limits, with its usage", () =>
    Effect.gen(function*() {
      const sent = yield* outgoing("openai-chat", {
        model: "dear",
        n: 9,
        stream: true,
        max_tokens: 5000,
        service_tier: "priority",
        temperature: 1,
        stream_options: { include_usage: false, x: 1 },
        tools: [{ type: "function", function: { name: "edit" } }, { type: "web_search" }],
        messages: []
      })
      assert.deepStrictEqual(sent, {
        model: "the-model",
        stream: true,
        max_tokens: 1000,
        temperature: 1,
        stream_options: { include_usage: true },
        tools: [{ type: "function", function: { name: "edit" } }],
        messages: []
      })
    }))

  it.live("leaves nothing of a Responses request with the provider, nor lets it read what others left", () =>
    Effect.gen(function*() {
      const sent = yield* outgoing("openai-responses", {
        model: "dear",
        store: true,
        background: true,
        previous_response_id: "resp_other",
        input: [],
        max_output_tokens: 10,
        tools: [{ type: "mcp", server_url: "https://evil.invalid" }]
      })
      assert.deepStrictEqual(sent, { model: "the-model", store: false, input: [], max_output_tokens: 10 })
    }))

  it.live("lets no Anthropic request use the provider's own tools", () =>
    Effect.gen(function*() {
      const sent = yield* outgoing("anthropic-messages", {
        model: "dear",
        max_tokens: 20,
        mcp_servers: [{}],
        container: "c",
        messages: [],
        tools: [{ type: "web_search_20250305", name: "web_search" }, { type: "bash_20250124", name: "bash" }, {
          name: "edit",
          input_schema: {}
        }]
      })
      assert.deepStrictEqual(sent, {
        model: "the-model",
        max_tokens: 20,
        messages: [],
        tools: [{ type: "bash_20250124", name: "bash" }, { name: "edit", input_schema: {} }]
      })
    }))

  // As their requests were seen on 2026-11-22: opencode 1.18.33, grok 1.0.41, codex 0.169.0, claude 2.1.329.
  it.live.each(
    [
      ["openai-chat", {
        temperature: 0,
        reasoning_effort: "high",
        messages: [],
        tool_choice: "auto",
        tools: [{ type: "function", function: { name: "f" } }]
      }],
      ["openai-responses", {
        input: [{
          type: "additional_tools",
          role: "developer",
          tools: [{ type: "namespace", name: "n", tools: [{ type: "function", name: "f" }] }]
        }],
        tools: [{ type: "function", name: "f" }, { type: "custom", name: "g" }],
        tool_choice: "auto",
        parallel_tool_calls: false,
        reasoning: { effort: "high", summary: "auto" },
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: "k"
      }],
      ["anthropic-messages", {
        messages: [],
        system: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }],
        tools: [{ name: "f", input_schema: {} }],
        metadata: { user_id: "u" },
        thinking: { type: "adaptive" },
        output_config: { effort: "high" },
        context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] }
      }]
    ] as const
  )("lets through what agents send: %s", ([protocol, fields]) =>
    Effect.gen(function*() {
      assert.deepInclude(yield* outgoing(protocol, fields), fields)
    }))

  it.live("lets no tools in by a Responses request's input, nor compacts, nor asks Anthropic for an hour's cache or a million tokens", () =>
    Effect.gen(function*() {
      const item = { type: "additional_tools", tools: [{ type: "web_search" }, { type: "namespace", tools: [{ type: "mcp" }] }] }
      assert.deepInclude(
        yield* outgoing("openai-responses", { input: [item], include: ["file_search_call.results"], reasoning: { mode: "pro" } }),
        {
          input: [{ type: "additional_tools", tools: [] }],
          include: [],
          reasoning: {}
        }
      )
      const hour = { type: "ephemeral", ttl: "1h" }
      const usual = { type: "ephemeral" }
      const sent = yield* outgoing("anthropic-messages", {
        cache_control: hour,
        system: [{ type: "text", text: "s", cache_control: hour }],
        messages: [{ role: "user", content: [{ type: "tool_result", content: [{ type: "text", text: "t", cache_control: hour }] }] }],
        context_management: { edits: [{ type: "compact_20260112" }] }
      })
      assert.deepInclude(sent, {
        cache_control: usual,
        system: [{ type: "text", text: "s", cache_control: usual }],
        messages: [{ role: "user", content: [{ type: "tool_result", content: [{ type: "text", text: "t", cache_control: usual }] }] }],
        context_management: { edits: [] }
      })
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf("anthropic-messages", provider.baseUrl))
      yield* Provider.ask(access, "/v1/messages", { messages: [] }, { "anthropic-beta": "a-1,context-1m-2025-08-07, b-2" })
      assert.strictEqual(provider.asked[0]?.headers["anthropic-beta"], "a-1,b-2")
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("counting tokens costs nothing; the models are the one", () =>
    Effect.gen(function*() {
      const model = yield* FakeModel.start()
      const { access, account } = yield* open(upstreamOf("anthropic-messages", `${model.url}/v1`))
      const counted = yield* Provider.ask(access, "/v1/messages/count_tokens", { model: "dear", messages: [] })
      assert.deepStrictEqual([counted.status, JSON.parse(counted.text)], [200, { input_tokens: 1000 }])
      const listed = yield* Provider.ask(access, "/v1/models", null, {}, "GET")
      assert.deepStrictEqual(JSON.parse(listed.text).data.map(({ id }: { id: string }) => id), ["the-model"])
      assert.strictEqual((yield* account).usage.llmRequestCount, 0)
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("budgets at the gateway", () => {
  it.live("50 requests at once never spend more than the budget", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      provider.answer = ({ response }) => {
        setTimeout(() => Provider.json(response, 200, { choices: [], usage: { prompt_tokens: 100, completion_tokens: 100 } }), 5)
      }
      const { access, account, of } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const spending = yield* Spending
      const each = cost({ input: 100, output: 100 })
      // An upper bound is some eight times the answer's cost: a thousand tokens of output may come.
      yield* spending.setBudget(of.grantId, 100_000)
      let most = 0
      const watching = yield* Effect.forkChild(Effect.forever(Effect.andThen(
        Effect.map(spending.of(of.grantId), ({ reserved, spent }) => {
          most = Math.max(most, reserved + spent)
        }),
        Effect.sleep(1)
      )))
      const replies = yield* Effect.forEach(Array.from({ length: 50 }), () =>
        Provider.ask(access, "/v1/chat/completions", { max_tokens: 1000, messages: [{ role: "user", content: "x".repeat(500) }] }), {
        concurrency: "unbounded"
      })
      yield* Fiber.interrupt(watching)
      const served = replies.filter(({ status }) =>
        status === 200
      ).length
      assert.deepStrictEqual([...new Set(replies.map(({ status }) => status))].sort(), [200, 402])
      assert.isAtMost(most, 100_000)
      assert.isAtLeast(served, 5)
      const { usage } = yield* account
      assert.strictEqual(usage.costMicroUsd, served * each)
      const refused = JSON.parse(replies.find(({ status }) => status === 402)?.text ?? "")
      assert.deepStrictEqual(refused.error, {
        message: "The spending budget of this API access grant is used up.",
        type: "insufficient_quota",
        param: null,
        code: "budget_exceeded"
      })
    }).pipe(Effect.scoped, Effect.provide(layer({ holdMillis: 2000, bounds: { requests: 50 } }))))
})

describe("a ledger that is away", () => {
  const down = new StoreUnavailable({ cause: "cut" })
  const ledger = (failing: { reserve: number; charge: number }, charges: Array<number | null>) =>
    Layer.mock(Spending, {
      sandboxLimit: null,
      creditMicros: () => 0,
      release: () => Effect.succeed(nothingSpent),
      reserve: () => Effect.suspend(() => failing.reserve-- > 0 ? Effect.fail(down) : Effect.void),
      charge: (_call, microUsd) =>
        Effect.suspend(() => failing.charge-- > 0 ? Effect.fail(down) : Effect.sync(() => void charges.push(microUsd)))
    })
  const chat = { messages: [{ role: "user", content: "Hello" }] }

  it.live("lets nothing out that it cannot account for, and asks to come again", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const charges: Array<number | null> = []
      yield* Effect.gen(function*() {
        const { access, account } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
        const reply = yield* Provider.ask(access, "/v1/chat/completions", chat)
        assert.deepStrictEqual([reply.status, reply.headers.get("retry-after"), reply.headers.get("x-should-retry")], [503, "1", "true"])
        assert.strictEqual(provider.asked.length, 0)
        assert.deepStrictEqual(yield* account, { ...nothingSpent, refusals: 0, refusedFor: null })
        assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", chat)).status, 200)
      }).pipe(Effect.scoped, Effect.provide(layerOn(ledger({ reserve: 1, charge: 0 }, charges))))
      // A possible reservation is given back.
      assert.include(charges, null)
    }).pipe(Effect.scoped))

  it.live("learns what was spent when it is back", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      provider.answer = ({ response }) => Provider.json(response, 200, { usage: { prompt_tokens: 10, completion_tokens: 1 } })
      const charges: Array<number | null> = []
      yield* Effect.gen(function*() {
        const { access, close } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
        assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", chat)).status, 200)
        yield* close
      }).pipe(Effect.scoped, Effect.provide(layerOn(ledger({ reserve: 0, charge: 3 }, charges))))
      assert.deepStrictEqual(charges, [cost({ input: 10, output: 1 })])
    }).pipe(Effect.scoped))
})

describe("the gateway's socket", () => {
  it.live("answers as the port does, to our user alone", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-gateway-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
      )
      const socketPath = join(folder, "model.sock")
      yield* Effect.gen(function*() {
        const { access } = yield* open(upstreamOf("openai-chat", "http://127.0.0.1:9/v1"))
        assert.strictEqual(statSync(socketPath).mode & 0o777, 0o600)
        const statusOf = (token: string) =>
          Effect.promise(() =>
            new Promise<number | undefined>((resolve, reject) => {
              const request = get({ socketPath, path: "/v1/models", headers: { authorization: `Bearer ${token}` } }, (response) => {
                response.resume()
                resolve(response.statusCode)
              })
              request.once("error", reject)
            })
          )
        assert.deepStrictEqual([yield* statusOf(Redacted.value(access.token)), yield* statusOf("none")], [200, 401])
      }).pipe(Effect.scoped, Effect.provide(layer({ socket: socketPath })))
    }).pipe(Effect.scoped))
})
