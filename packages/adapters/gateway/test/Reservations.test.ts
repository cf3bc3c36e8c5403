/** No request costs more than was reserved for it, whatever it says. */
import { assert, describe, it, vi } from "@effect/vitest"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { costOf, noTokens } from "@slipway/domain/models/rules/Budget"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { PRICES } from "@slipway/testing/contracts/models/ModelGatewayContract"
import { Effect, Fiber, Schema } from "effect"
import { upperBound } from "../src/accounting/Estimate.ts"
import { prepare } from "../src/preparation/Preparation.ts"
import { layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const CONTEXT = 100_000
const upstream = (protocol: UpstreamProtocol, baseUrl = "http://127.0.0.1:9/v1") =>
  upstreamOf(protocol, baseUrl, { contextTokens: CONTEXT })
const PATH: Readonly<Record<UpstreamProtocol, string>> = {
  "openai-chat": "/v1/chat/completions",
  "openai-responses": "/v1/responses",
  "anthropic-messages": "/v1/messages"
}
const protocols = ["openai-chat", "openai-responses", "anthropic-messages"] as const

/** The bill of a model with long answers for a request, by the most expensive reading of it. */
const bill = (body: Record<string, unknown>) => {
  const limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"].flatMap((name) =>
    body[name] === undefined || body[name] === null ? [] : [Number(body[name]) > 0 ? Number(body[name]) : 20_000]
  )
  const answers = Math.max(1, Number(body["n"] ?? 1), Number(body["best_of"] ?? 1))
  const extra =
    ["prediction", "web_search_options", "search_parameters", "plugins", "models", "mcp_servers", "background", "audio", "modalities"]
      .filter((name) => Object.hasOwn(body, name)).length
  const tier = body["service_tier"] === undefined && body["speed"] === undefined ? 1 : 6
  const read = JSON.stringify(
    [body["messages"], body["input"], body["system"]],
    (name, value) => typeof value === "string" && (name === "text" || name === "content" || name === "input") ? "" : value
  )
  const hosted = /web_search|code_execution|computer_use|"x_search/u.test(JSON.stringify(body["tools"] ?? "")) ? 1 : 0
  const earlier = ["previous_response_id", "conversation", "prompt"].some((name) => Object.hasOwn(body, name))
  // Addresses, by any parser's reading, and content that is kept with the provider.
  const fetched = earlier || /h\s*t\s*t\s*p\s*s?\s*:|"file_id"|"file_data"|"source":|"item_reference"/iu.test(read)
  const inline = (read.match(/"data:image\/png/gu) ?? []).length
  return {
    input: Math.min(CONTEXT, fetched ? CONTEXT : Buffer.byteLength(JSON.stringify(body)) + inline * 48_000),
    output: (limits.length === 0 ? 20_000 : Math.max(...limits)) * answers * tier + 10_000 * (extra + hosted)
  }
}

const text = (content: unknown) => ({ messages: [{ role: "user", content }], input: [{ role: "user", content }] })

const attempts: Readonly<Record<string, object>> = {
  "a small limit beside a large one": { ...text("Hello"), max_tokens: 1, max_completion_tokens: 1000 },
  "a large limit beside a small one": { ...text("Hello"), max_tokens: 1000, max_completion_tokens: 1 },
  "a limit in words": { ...text("Hello"), max_tokens: "9000", max_output_tokens: "9000" },
  "a limit below zero": { ...text("Hello"), max_tokens: -1, max_output_tokens: -1 },
  "no limit": text("Hello"),
  "many answers": { ...text("Hello"), max_tokens: 1000, n: 8, best_of: 20 },
  "a faster service": { ...text("Hello"), max_tokens: 1000, service_tier: "priority", speed: "fast", inference_geo: "us" },
  "a prediction": { ...text("Hello"), max_tokens: 1000, prediction: { type: "content", content: "x" } },
  "speech": { ...text("Hello"), max_tokens: 1000, modalities: ["audio"], audio: { voice: "a", format: "wav" } },
  "a search": { ...text("Hello"), max_tokens: 1000, web_search_options: {}, search_parameters: { mode: "on" }, plugins: [{ id: "web" }] },
  "tools of the provider": {
    ...text("Hello"),
    max_tokens: 1000,
    tools: [{ type: "x_search" }, { type: "web_search_20260101" }, { type: "computer_use_next" }]
  },
  "another model": { ...text("Hello"), max_tokens: 1000, models: ["dear"], route: "fallback" },
  "what is kept with the provider": {
    ...text("Hello"),
    previous_response_id: "r",
    conversation: "c",
    prompt: { id: "p" },
    background: true
  },
  "an address of an image": text([{ type: "image_url", image_url: { url: "https://a.test/b.png" } }]),
  "an address in upper case": text([{ type: "image_url", image_url: { url: "HTTPS://a.test/b.png" } }]),
  "an address behind a space": text([{ type: "image_url", image_url: { url: " https://a.test/b.png" } }]),
  "an address with a tab in it": text([{ type: "input_image", image_url: "ht\ttps://a.test/b.png" }]),
  "an address without a type": text([{ image_url: " https://a.test/b.png" }]),
  "an address in a part that says it is text": text([{ type: "text", text: "x", image_url: " HTTPS://a.test/b.png" }]),
  "an image of Anthropic's by address": text([{ type: "image", source: { type: "url", url: " HTTPS://a.test/b.png" } }]),
  "a document that unpacks": text([{ type: "document", source: { type: "base64", media_type: "application/pdf", data: "AAAA" } }]),
  "a file": text([{ type: "file", file: { file_data: "data:application/pdf;base64,AAAA" } }]),
  "a file by its id": text([{ type: "input_file", file_id: "f" }]),
  "an item by its id": { messages: [], input: [{ type: "item_reference", id: "i" }], tools: [] },
  "a small image of many pixels": text([{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }]),
  "an image in the answer of a tool": text([{
    type: "tool_result",
    tool_use_id: "t",
    content: [{ type: "image", source: { type: "url", url: "Http://a" } }]
  }])
}

describe.each(protocols)("%s", (protocol) => {
  it.live.each(Object.entries(attempts))("reserves for %s what it can cost at most", ([, body]) =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access, account, of } = yield* open(upstream(protocol, provider.baseUrl))
      const spending = yield* Spending
      const asking = yield* Effect.forkChild(Provider.ask(access, PATH[protocol], { model: "m", ...body }))
      provider.answer = () => {}
      const { body: sent, response } = yield* provider.next
      const { reserved } = yield* spending.of(of.grantId)
      const { input, output } = bill(sent)
      Provider.json(response, 200, {
        usage: { prompt_tokens: input, completion_tokens: output, input_tokens: input, output_tokens: output }
      })
      yield* Fiber.join(asking)
      assert.isAtMost((yield* account).usage.costMicroUsd, reserved)
    }).pipe(Effect.scoped, Effect.provide(layer({ addresses: "allow" }))))

  it.live.each(["in one piece", "as a stream"])(
    "charges an abandoned answer (%s), though not a byte of it came",
    (how) =>
      Effect.gen(function*() {
        const provider = yield* Provider.start
        const streaming = how === "as a stream"
        provider.answer = ({ response }) => {
          if (streaming) response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders()
        }
        const { access, account, of } = yield* open(upstream(protocol, provider.baseUrl))
        const spending = yield* Spending
        const asking = yield* Effect.forkChild(
          Provider.ask(access, PATH[protocol], { ...text("Think for long."), stream: streaming, max_tokens: 900 })
        )
        const asked = yield* provider.next
        const { reserved } = yield* spending.of(of.grantId)
        // The gateway sees 200 ms pass at once.
        const now = performance.now.bind(performance)
        yield* Effect.acquireRelease(
          Effect.sync(() => vi.spyOn(performance, "now").mockImplementation(() => now() + 200)),
          (spy) => Effect.sync(() => spy.mockRestore())
        )
        yield* Fiber.interrupt(asking)
        yield* asked.aborted
        yield* Effect.eventually(
          Effect.flatMap(spending.of(of.grantId), ({ reserved }) => reserved === 0 ? Effect.void : Effect.fail("open"))
        )
        const { costMicroUsd } = (yield* account).usage
        // By the time: what the model thinks is not sent.
        assert.isAtLeast(costMicroUsd, costOf(PRICES, { ...noTokens, input: 20, output: streaming ? 50 : 900 }))
        assert.isAtMost(costMicroUsd, reserved)
        assert.strictEqual((yield* spending.of(of.grantId)).spent, costMicroUsd)
      }).pipe(Effect.scoped, Effect.provide(layer()))
  )
})

describe("a budget of five cents", () => {
  it.live("is not passed by any variant of a request, and cuts each second request", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      provider.answer = ({ body, response }) => {
        const { input, output } = bill(body)
        Provider.json(response, 200, { usage: { prompt_tokens: input, completion_tokens: output } })
      }
      // 3 and 15 dollars a million.
      const prices = { input: 3_000_000, cachedInput: 300_000, cacheWrite: 3_750_000, output: 15_000_000 }
      const { access, of } = yield* open(upstreamOf("openai-chat", provider.baseUrl, { contextTokens: CONTEXT, prices }))
      const spending = yield* Spending
      yield* spending.setBudget(of.grantId, 50_000)
      for (const body of Object.values(attempts)) {
        const before = provider.asked.length
        const asking = yield* Effect.forkChild(Provider.ask(access, PATH["openai-chat"], body))
        yield* Effect.eventually(
          Effect.suspend(() => provider.asked.length > before || asking.pollUnsafe() !== undefined ? Effect.void : Effect.fail("not sent"))
        )
        yield* Fiber.interrupt(asking)
        yield* Provider.ask(access, PATH["openai-chat"], body)
      }
      const { spent } = yield* spending.of(of.grantId)
      assert.isAtMost(spent, 50_000)
      assert.isAtLeast(spent, 20_000)
    }).pipe(Effect.scoped, Effect.provide(layer({ holdMillis: 500, addresses: "allow" }))))
})

const Address = Schema.Literals(["https://a", "HTTP://a", " https://a", "h\nttps://a", "//a", "data:image/png;base64,AAAA",
  "data:image/svg+xml,https://a", "file-1"])
const Part = Schema.Struct({
  type: Schema.optionalKey(
    Schema.Literals(["text", "input_text", "image_url", "input_image", "image", "file", "input_file", "video_url", "refusal"])
  ),
  text: Schema.optionalKey(Schema.Literals(["", "x", "ä€😀", "https://a"])),
  image_url: Schema.optionalKey(Schema.Union([Address, Schema.Struct({ url: Address })])),
  source: Schema.optionalKey(Schema.Struct({ type: Schema.Literals(["url", "base64"]), url: Address })),
  file: Schema.optionalKey(Schema.Struct({ file_data: Address })),
  file_id: Schema.optionalKey(Schema.Literals(["file-1"]))
})
const Limit = Schema.optionalKey(
  Schema.Union([Schema.Int, Schema.Literals([1, 1000, 5000, "5000", "Infinity", true, 1e20, 0.5]), Schema.Null])
)
const Messages = Schema.Array(
  Schema.Struct({ role: Schema.Literals(["user", "assistant"]), content: Schema.Union([Schema.String, Schema.Array(Part)]) })
)
const Body = Schema.Struct({
  max_tokens: Limit,
  max_completion_tokens: Limit,
  max_output_tokens: Limit,
  n: Limit,
  best_of: Limit,
  stream: Schema.optionalKey(Schema.Literals([true, false, "true"])),
  service_tier: Schema.optionalKey(Schema.Literals(["priority", "flex"])),
  prediction: Schema.optionalKey(Schema.Struct({ content: Schema.String })),
  previous_response_id: Schema.optionalKey(Schema.String),
  tools: Schema.optionalKey(
    Schema.Array(Schema.Struct({ type: Schema.Literals(["function", "web_search", "code_execution_2", "x_search", "mcp"]) }))
  ),
  messages: Messages,
  input: Schema.Union([Schema.String, Messages])
})

describe.each(protocols)("any request (%s)", (protocol) => {
  it.prop("costs at most what is reserved for it", [Body], ([body]) => {
    const prepared = prepare({ bytes: Buffer.from(JSON.stringify(body)), upstream: upstream(protocol), free: false, headers: {} }, "allow")
    assert(prepared !== null && "body" in prepared)
    const outward: Record<string, unknown> = JSON.parse(Buffer.from(prepared.body).toString())
    const { input, output } = bill(outward)
    // As dear as it gets: nothing of it read from a cache, all of it written to one.
    const cost = costOf(PRICES, { input, cachedInput: 0, cacheWrite: input, output })
    assert.isAtMost(cost, upperBound(upstream(protocol), prepared))
  }, { arbitrary: { runs: 500 } })
})
