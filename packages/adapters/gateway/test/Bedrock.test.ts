import { assert, describe, it } from "@effect/vitest"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { sign } from "../src/credentials/AwsCredentials.ts"
import * as CloudCredentials from "../src/credentials/CloudCredentials.ts"
import { destinationOf } from "../src/providers/Destinations.ts"
import * as Bedrock from "../testing/Bedrock.ts"
import * as Gateway from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const REGION = { region: "eu-central-1" }
const MODEL = "eu.anthropic.claude-opus-5-5-20261001-v1:0"

const upstreamAt = (provider: Provider.Provider, more: Partial<Upstream> = {}) =>
  Gateway.upstreamOf("anthropic-messages", provider.baseUrl.replace(/\/v1$/u, ""), {
    auth: "aws",
    keyVariable: null,
    model: MODEL,
    ...REGION,
    ...more
  })

const clouds = (account: Bedrock.Account = Bedrock.ACCOUNT) => CloudCredentials.ofEnvironment(Bedrock.variables(account))

/** Answers requests with a valid signature; others get what Bedrock says to them. */
const signed = (answer: Provider.Provider["answer"], service = "bedrock"): Provider.Provider["answer"] => (asked) => {
  void Bedrock.statusOf(asked, Bedrock.ACCOUNT, { ...REGION, service }).then((status) => {
    if (status === 200) return answer(asked)
    Provider.json(asked.response, 403, { message: `The request signature we calculated does not match. ${Bedrock.ACCOUNT.sessionToken}` }, {
      "x-amzn-errortype": "InvalidSignatureException"
    })
  })
}

/** `pieces` are written one after the other. */
const streaming = (pieces: ReadonlyArray<Buffer>, after: (asked: Provider.Asked) => void = ({ response }) => response.end()) =>
  signed((asked) => {
    asked.response.writeHead(200, Bedrock.STREAM)
    for (const piece of pieces) asked.response.write(piece)
    after(asked)
  })

const frames = (input: number, output: number, said?: string) => Bedrock.events(input, output, said).map(Bedrock.frame)

const sse = (all: ReadonlyArray<{ readonly type: string }>) =>
  all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

const asking = { model: "any", max_tokens: 100, stream: true, messages: [{ role: "user", content: "Hi" }] }
const PATH = "/v1/messages"

const started = Effect.fnUntraced(function*(more: Partial<Upstream> = {}) {
  const provider = yield* Provider.start
  const session = yield* Gateway.open(upstreamAt(provider, more))
  return { provider, ...session }
})

const layer = Gateway.layer({ clouds: clouds() })

describe("a request to Claude on Bedrock", () => {
  it.effect("has Bedrock's address, form and signature, and its frames arrive as Anthropic's events", () =>
    Effect.gen(function*() {
      const { access, account, provider } = yield* started()
      provider.answer = streaming(frames(100, 7))
      const reply = yield* Provider.ask(access, `${PATH}?beta=true`, {
        ...asking,
        context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
        system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral", ttl: "1h", scope: "global" } }]
      }, {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219, interleaved-thinking-2025-05-14,fast-mode-2026-02-01"
      })
      assert.strictEqual(reply.status, 200, reply.text)
      assert.strictEqual(reply.headers.get("content-type"), "text/event-stream; charset=utf-8")
      assert.strictEqual(reply.text, sse(Bedrock.events(100, 7)))
      const asked = provider.asked[0] ?? assert.fail("nothing was asked")
      assert.strictEqual(asked.url, "/model/eu.anthropic.claude-opus-5-5-20261001-v1%3A0/invoke-with-response-stream")
      assert.deepStrictEqual(asked.body, {
        anthropic_version: "bedrock-2023-05-31",
        anthropic_beta: ["interleaved-thinking-2025-05-14"],
        max_tokens: 100,
        messages: [{ role: "user", content: "Hi" }],
        system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }]
      })
      const { accept, "content-type": type } = asked.headers
      assert.deepStrictEqual([accept, type], ["application/vnd.amazon.eventstream", "application/json"])
      for (const name of ["x-api-key", "anthropic-version", "anthropic-beta"]) assert.notProperty(asked.headers, name)
      const { tokens, usage } = yield* account
      assert.deepStrictEqual(usage, { llmRequestCount: 1, costMicroUsd: 100 * 10 + 7 * 30, creditsChargedMicros: 0 })
      assert.deepStrictEqual(tokens, { input: 100, cachedInput: 0, output: 7 })
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("without streaming goes to InvokeModel", () =>
    Effect.gen(function*() {
      const { access, account, provider } = yield* started()
      provider.answer = signed(({ response }) =>
        Provider.json(response, 200, { type: "message", content: [], usage: { input_tokens: 9, output_tokens: 2 } })
      )
      const { stream: _, ...whole } = asking
      const reply = yield* Provider.ask(access, PATH, whole)
      assert.strictEqual(reply.status, 200)
      assert.match(provider.asked[0]?.url ?? "", /\/invoke$/u)
      assert.strictEqual((yield* account).usage.costMicroUsd, 9 * 10 + 2 * 30)
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("with another secret is refused, explained to the operator, and shows no secret", () =>
    Effect.gen(function*() {
      const { access, account, provider } = yield* started()
      provider.answer = streaming(frames(1, 1))
      const reply = yield* Provider.ask(access, PATH, asking)
      assert.strictEqual(reply.status, 403)
      assert.include(reply.text, "refuses the service's account")
      const { trouble, usage } = yield* account
      assert.include(trouble?.message, "the AWS credentials of this worker (status 403)")
      assert.strictEqual(usage.costMicroUsd, 0)
      assert.notInclude(reply.text + trouble?.message, "canary")
    }).pipe(
      Effect.scoped,
      Effect.provide(Gateway.layer({ clouds: clouds({ ...Bedrock.ACCOUNT, secretAccessKey: "canary-of-another-secret" }) }))
    ))

  it.effect("has no way to count tokens, and errors come in Anthropic's form", () =>
    Effect.gen(function*() {
      const { access, provider } = yield* started()
      assert.strictEqual((yield* Provider.ask(access, "/v1/messages/count_tokens", asking)).status, 404)
      provider.answer = signed(({ response }) => Provider.json(response, 400, { message: "Input is too long for requested model." }))
      const reply = yield* Provider.ask(access, PATH, asking)
      assert.strictEqual(reply.status, 400)
      assert.deepStrictEqual(JSON.parse(reply.text), {
        type: "error",
        error: { type: "invalid_request_error", message: "Input is too long for requested model." }
      })
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("shows no credentials that the provider repeats", () =>
    Effect.gen(function*() {
      const { access, provider } = yield* started()
      const { secretAccessKey, sessionToken } = Bedrock.ACCOUNT
      provider.answer = streaming(frames(1, 1, `${secretAccessKey} ${sessionToken}`))
      const reply = yield* Provider.ask(access, PATH, asking)
      assert.include(reply.text, "[redacted] [redacted]")
      assert.notInclude(reply.text, "canary")
    }).pipe(Effect.scoped, Effect.provide(layer)))
})

describe("a stream of Bedrock", () => {
  it.effect("may come byte by byte", () =>
    Effect.gen(function*() {
      const { access, provider } = yield* started()
      provider.answer = streaming([...Buffer.concat(frames(100, 7))].map((byte) => Buffer.from([byte])))
      assert.strictEqual((yield* Provider.ask(access, PATH, asking)).text, sse(Bedrock.events(100, 7)))
    }).pipe(Effect.scoped, Effect.provide(layer)))

  const cutAfter = 3
  it.effect.each<readonly [string, (whole: ReadonlyArray<Buffer>) => ReadonlyArray<Buffer>, (asked: Provider.Asked) => void]>([
    ["that loses its connection", (whole) => whole.slice(0, cutAfter), ({ response }) => response.socket?.end()],
    ["that ends within a frame", (whole) => [...whole.slice(0, cutAfter), whole[3]?.subarray(0, 20) ?? assert.fail()], ({ response }) =>
      response.end()],
    ["with a changed byte", (whole) => {
      const changed = Buffer.from(whole[3] ?? assert.fail())
      changed[changed.length - 20]! ^= 1
      return [...whole.slice(0, cutAfter), changed, ...whole.slice(4)]
    }, ({ response }) => response.end()],
    ["with a frame of 4 GiB", (whole) => [...whole.slice(0, cutAfter), Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])], () => {}],
    ["with a frame shorter than its own lengths", (whole) => [...whole.slice(0, cutAfter), Buffer.from([0, 0, 0, 0, 0, 0, 0, 0])], () => {}]
  ])("%s breaks off, and is charged for what was generated", ([, pieces, after]) =>
    Effect.gen(function*() {
      const { access, account, close, provider } = yield* started()
      provider.answer = streaming(pieces(frames(100, 7)), after)
      const reply = yield* Provider.ask(access, PATH, asking)
      assert.isTrue(reply.broken)
      const sent = sse(Bedrock.events(100, 7).slice(0, cutAfter))
      assert.isTrue(sent.startsWith(reply.text))
      yield* close
      const { tokens, usage } = yield* account
      assert.strictEqual(tokens.input, 100)
      // A token for each 3 bytes at least, and never more than the request allows.
      assert.isAtLeast(tokens.output, Math.min(100, Math.ceil(sent.length / 3)))
      assert.isAtMost(tokens.output, 100)
      assert.deepStrictEqual([usage.llmRequestCount, usage.costMicroUsd], [1, 100 * 10 + tokens.output * 30])
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("that Bedrock ends with a failure says so in Anthropic's form, and is charged as cut off", () =>
    Effect.gen(function*() {
      const { access, account, provider } = yield* started()
      provider.answer = streaming([...frames(100, 7).slice(0, 2),
        Bedrock.exception("throttlingException", "Too many tokens, please wait.")])
      const reply = yield* Provider.ask(access, PATH, asking)
      const error = { type: "error", error: { type: "rate_limit_error", message: "Too many tokens, please wait." } }
      assert.strictEqual(reply.text, sse([...Bedrock.events(100, 7).slice(0, 2), error]))
      const { tokens } = yield* account
      assert.strictEqual(tokens.input, 100)
      assert.isAbove(tokens.output, 1)
    }).pipe(Effect.scoped, Effect.provide(layer)))
})

describe("other models of Bedrock", () => {
  it.effect("take OpenAI's requests with a signature", () =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* Gateway.open(Gateway.upstreamOf("openai-chat", provider.baseUrl, {
        auth: "aws",
        keyVariable: null,
        model: "openai.gpt-oss-120b-1:0",
        ...REGION
      }))
      provider.answer = signed(({ response }) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(Provider.sse({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } }, "[DONE]"))
      })
      const reply = yield* Provider.ask(access, "/v1/chat/completions", { stream: true, messages: [] })
      assert.strictEqual(reply.status, 200, reply.text)
      const asked = provider.asked[0] ?? assert.fail("nothing was asked")
      assert.deepStrictEqual([asked.url, asked.body.model], ["/v1/chat/completions", "openai.gpt-oss-120b-1:0"])
      assert.match(
        asked.headers.authorization ?? "",
        /^AWS4-HMAC-SHA256 Credential=AKIDCANARY0001\/\d{8}\/eu-central-1\/bedrock\/aws4_request, /u
      )
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it("and Claude on bedrock-mantle take the companies' own paths, signed for that service", async () => {
    const upstream = Gateway.upstreamOf("anthropic-messages", "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1", {
      auth: "aws",
      keyVariable: null
    })
    const url = destinationOf(upstream).url(upstream, PATH, { streaming: true, isBeta: false })
    assert.strictEqual(url.href, "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages")
    const body = Buffer.from("{}")
    const { headers } = await sign(Bedrock.ACCOUNT, upstream, { method: "POST", url, body })
    const asked = { bytes: body, method: "POST", url: url.pathname, headers: { host: url.host, ...headers } }
    const place = { region: "us-east-1", service: "bedrock-mantle" }
    assert.strictEqual(await Bedrock.statusOf(asked, Bedrock.ACCOUNT, place), 200)
    assert.strictEqual(await Bedrock.statusOf({ ...asked, bytes: Buffer.from("{ }") }, Bedrock.ACCOUNT, place), 403)
    assert.strictEqual(await Bedrock.statusOf({ ...asked, url: "/other" }, Bedrock.ACCOUNT, place), 403)
    assert.strictEqual(await Bedrock.statusOf(asked, Bedrock.ACCOUNT, { ...place, service: "bedrock" }), 403)
  })
})
