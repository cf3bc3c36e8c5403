/** The tokens that people are told of: out of each form in which providers answer, and bounded whatever these claim. */
import { assert, describe, it } from "@effect/vitest"
import { read } from "@slipway/agents/testing/Transcript"
import { Spending } from "@slipway/domain/models/ports/Spending"
import type { TokenCounts } from "@slipway/domain/models/rules/Usage"
import type { UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const PATHS: Readonly<Record<UpstreamProtocol, string>> = {
  "openai-chat": "/v1/chat/completions",
  "openai-responses": "/v1/responses",
  "anthropic-messages": "/v1/messages"
}
const most = Number.MAX_SAFE_INTEGER

/** The content of one answer: the events of a stream, or the whole of it. */
type Answered = { readonly events: ReadonlyArray<object | "[DONE]"> } | { readonly whole: object }

/** The tokens after these answers, by the session's account and by the ledger. */
const told = (protocol: UpstreamProtocol, answers: ReadonlyArray<Answered>) =>
  Effect.gen(function*() {
    const provider = yield* Provider.start
    const { access, account, close, of } = yield* open(upstreamOf(protocol, provider.baseUrl))
    for (const answered of answers) {
      provider.answer = ({ response }) => {
        if ("whole" in answered) return Provider.json(response, 200, answered.whole)
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(Provider.sse(...answered.events))
      }
      const stream = "events" in answered
      const reply = yield* Provider.ask(access, PATHS[protocol], { model: "m", stream, max_tokens: 100, messages: [], input: [] })
      assert.deepStrictEqual([reply.status, reply.broken], [200, false], reply.text)
    }
    const { tokens } = yield* account
    // The ledger is told by the end of the session.
    yield* close
    assert.deepStrictEqual((yield* (yield* Spending).release(of.sandboxId)).tokens, tokens)
    return tokens
  }).pipe(Effect.scoped, Effect.provide(layer()))

const chunk = (more: object) => ({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", choices: [], ...more })
const responseOf = (usage: object | null) => ({ id: "resp_1", object: "response", status: "completed", output: [], usage })

/** Messages as recordings of claude have them; the forms of chat and responses are written by hand, not recorded. */
const FORMS: ReadonlyArray<readonly [string, UpstreamProtocol, Answered, TokenCounts]> = [
  ["OpenAI's chat in one piece", "openai-chat", {
    whole: {
      object: "chat.completion",
      choices: [],
      usage: {
        prompt_tokens: 2006,
        completion_tokens: 300,
        total_tokens: 2306,
        prompt_tokens_details: { cached_tokens: 1920, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 128 }
      }
    }
  }, { input: 2006, cachedInput: 1920, output: 300 }],
  ["OpenAI's chat as a stream, whose last chunk has no choice", "openai-chat", {
    events: [
      chunk({ choices: [{ index: 0, delta: { content: "Hi" } }], usage: null }),
      chunk({ usage: { prompt_tokens: 2006, completion_tokens: 300, total_tokens: 2306, prompt_tokens_details: { cached_tokens: 1920 } } }),
      "[DONE]"
    ]
  }, { input: 2006, cachedInput: 1920, output: 300 }],
  ["a chat server that tells no details", "openai-chat", {
    whole: { choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } }
  }, { input: 11, cachedInput: 0, output: 7 }],
  ["a chat server that repeats the usage so far in every chunk", "openai-chat", {
    events: [1, 4, 9].map((completion_tokens) => chunk({ usage: { prompt_tokens: 20, completion_tokens } }))
  }, { input: 20, cachedInput: 0, output: 9 }],
  ["xAI's chat, whose reasoning is in the total alone", "openai-chat", {
    whole: {
      choices: [],
      usage: { prompt_tokens: 30, completion_tokens: 5, total_tokens: 135, prompt_tokens_details: { cached_tokens: 10 } }
    }
  }, { input: 30, cachedInput: 10, output: 105 }],
  ["Responses in one piece", "openai-responses", {
    whole: responseOf({
      input_tokens: 900,
      input_tokens_details: { cached_tokens: 300 },
      output_tokens: 77,
      output_tokens_details: { reasoning_tokens: 7 },
      total_tokens: 977
    })
  }, { input: 900, cachedInput: 300, output: 77 }],
  ["Responses as a stream", "openai-responses", {
    events: [
      { type: "response.created", response: responseOf(null) },
      { type: "response.output_text.delta", delta: "the word usage" },
      {
        type: "response.completed",
        response: responseOf({ input_tokens: 900, input_tokens_details: { cached_tokens: 300 }, output_tokens: 77 })
      }
    ]
  }, { input: 900, cachedInput: 300, output: 77 }],
  ["Responses as a stream that ends early", "openai-responses", {
    events: [{ type: "response.incomplete", response: responseOf({ input_tokens: 900, output_tokens: 1000 }) }]
  }, { input: 900, cachedInput: 0, output: 1000 }],
  ["Anthropic's Messages in one piece, whose input leaves out what was read from and written to the cache", "anthropic-messages", {
    whole: {
      type: "message",
      content: [],
      usage: { input_tokens: 50, cache_creation_input_tokens: 400, cache_read_input_tokens: 9000, output_tokens: 123 }
    }
  }, { input: 9450, cachedInput: 9000, output: 123 }],
  ["Anthropic's Messages as a stream, whose output comes last", "anthropic-messages", {
    events: [
      {
        type: "message_start",
        message: { usage: { input_tokens: 50, cache_creation_input_tokens: 400, cache_read_input_tokens: 9000, output_tokens: 1 } }
      },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "usage" } },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 123 } },
      { type: "message_stop" }
    ]
  }, { input: 9450, cachedInput: 9000, output: 123 }],
  ["Anthropic's Messages as a stream that corrects its input at the end", "anthropic-messages", {
    events: [
      { type: "message_start", message: { usage: { input_tokens: 50, cache_read_input_tokens: 0, output_tokens: 1 } } },
      { type: "message_delta", usage: { input_tokens: 60, cache_read_input_tokens: 40, output_tokens: 9 } }
    ]
  }, { input: 100, cachedInput: 40, output: 9 }]
]

describe("the tokens of an answer", () => {
  it.live.each(FORMS)("are those of %s", ([, protocol, answered, expected]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* told(protocol, [answered]), expected)
    }))

  it.live.each(["approve", "deny"])("are what claude counted itself, in the recording of %s", (scenario) =>
    Effect.gen(function*() {
      const frames = read("claude", scenario).map(({ frame }) => Object(frame))
      const turns = frames.findIndex(({ type }) => type === "result")
      const events: ReadonlyArray<{ readonly type: string }> = frames.slice(0, turns).flatMap(({ event, type }) =>
        type === "stream_event" ? [event] : []
      )
      const answers: Array<Array<{ readonly type: string }>> = []
      for (const event of events) {
        if (event.type === "message_start") answers.push([])
        answers.at(-1)?.push(event)
      }
      assert.isAbove(answers.length, 1)
      const counted = frames[turns].usage
      assert.deepStrictEqual(yield* told("anthropic-messages", answers.map((events) => ({ events }))), {
        input: counted.input_tokens + counted.cache_creation_input_tokens + counted.cache_read_input_tokens,
        cachedInput: counted.cache_read_input_tokens,
        output: counted.output_tokens
      })
    }))
})

describe("whatever a provider claims", () => {
  const claims: ReadonlyArray<readonly [UpstreamProtocol, (input: unknown, cached: unknown, output: unknown) => object]> = [
    ["openai-chat", (prompt_tokens, cached_tokens, completion_tokens) => ({
      choices: [],
      usage: { prompt_tokens, completion_tokens, prompt_tokens_details: { cached_tokens } }
    })],
    ["openai-responses",
      (input_tokens, cached_tokens, output_tokens) => responseOf({ input_tokens, output_tokens, input_tokens_details: { cached_tokens } })],
    ["anthropic-messages", (input_tokens, cache_read_input_tokens, output_tokens) => ({
      usage: { input_tokens, cache_read_input_tokens, cache_creation_input_tokens: cache_read_input_tokens, output_tokens }
    })]
  ]

  it.live.each(claims)("a total has its bound, after one answer and after many (%s)", ([protocol, claim]) =>
    Effect.gen(function*() {
      const all = { whole: claim(most, most, most) }
      for (const answers of [[all], [all, all, all]]) {
        assert.deepStrictEqual(yield* told(protocol, answers), { input: most, cachedInput: most, output: most })
      }
    }))

  it.live.each(claims)("what is no count is as if it were not there (%s)", ([protocol, claim]) =>
    Effect.gen(function*() {
      const good = { whole: claim(100, 10, 5) }
      const before = yield* told(protocol, [good])
      for (const no of [-1, 0.5, 2 ** 53, 1e300, "9", null, [9], {}, true]) {
        const { cachedInput, input, output } = yield* told(protocol, [good, { whole: claim(no, no, no) }])
        for (const count of [cachedInput, input, output]) assert.isTrue(Number.isSafeInteger(count) && count >= 0, String(no))
        // It is estimated by the size of what went to and fro, within the model's limits.
        assert.strictEqual(cachedInput, before.cachedInput, String(no))
        assert.isAtMost(input - before.input, 10_000, String(no))
        assert.isAtMost(output - before.output, 1000, String(no))
      }
    }))

  it.live("no more of the input was cached than there was", () =>
    Effect.gen(function*() {
      const [, claim] = claims[0]!
      assert.deepStrictEqual(yield* told("openai-chat", [{ whole: claim(7, most, 1) }]), { input: 7, cachedInput: 7, output: 1 })
    }))
})
