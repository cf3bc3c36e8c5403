import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as FakeModel from "../testing/fake-model/FakeModel.ts"

const send = (url: string, body: object, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body)
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

/** Asks, reads the first words, and leaves. */
const leaveEarly = async (url: string, body: object) => {
  const client = new AbortController()
  const response = await fetch(url, { method: "POST", signal: client.signal, body: JSON.stringify(body) })
  await response.body?.getReader().read()
  client.abort()
}

const script = "[[think hm]] [[say hello there]] [[usage input=10 cached=4 output=6 reasoning=2]]"
const user = (content: string) => [{ role: "user", content }]

const requests = {
  "/v1/chat/completions": (prompt: string) => ({ model: "m", reasoning_effort: "high", messages: user(prompt) }),
  "/v1/responses": (prompt: string) => ({ model: "m", reasoning: { effort: "high" }, input: user(prompt) }),
  "/v1/messages": (prompt: string) => ({ model: "m", output_config: { effort: "high" }, messages: user(prompt) })
}
const paths = Object.keys(requests) as ReadonlyArray<keyof typeof requests>

describe("FakeModel", () => {
  for (const path of paths) {
    for (const stream of [true, false]) {
      it.live(`answers ${path} with the script of the last prompt, ${stream ? "streamed" : "whole"}`, () =>
        Effect.gen(function*() {
          const model = yield* FakeModel.start()
          const { status, text } = yield* send(`${model.url}${path}`, { ...requests[path](script), stream })
          assert.strictEqual(status, 200)
          for (const word of ["hello", "there"]) assert.include(text, word)
          const [request] = model.requests
          assert.deepStrictEqual(request?.usage, { input: 10, cached: 4, output: 6, reasoning: 2 })
          assert.strictEqual(request?.call.effort, "high")
          assert.strictEqual(request?.state, "answered")
        }))
    }

    it.live(`refuses at ${path} by script, by request and without the key`, () =>
      Effect.gen(function*() {
        const model = yield* FakeModel.start({ token: "t" })
        const ask = (prompt: string, token = "t") =>
          Effect.map(send(`${model.url}${path}`, requests[path](prompt), { authorization: `Bearer ${token}` }), ({ status }) => status)
        assert.strictEqual(yield* ask("[[error 429 too fast]]"), 429)
        assert.strictEqual(yield* ask("[[error no]]"), 500)
        assert.strictEqual(yield* ask("[[say hi]]", "wrong"), 401)
        model.refuse({ status: 503, message: "later", retryAfter: 1 }, 2)
        assert.deepStrictEqual([yield* ask("[[say hi]]"), yield* ask("[[say hi]]"), yield* ask("[[say hi]]")], [503, 503, 200])
        assert.deepStrictEqual(model.requests.map(({ usage }) => usage === null), [true, true, true, true, true, false])
      }))
  }

  it.live("goes one step further with each result of a tool, in the agent's own tools", () =>
    Effect.gen(function*() {
      const model = yield* FakeModel.start({ workspace: { path: "/ws", repositories: [{ name: "a/b", folder: "b" }] } })
      const tools = [{ type: "function", function: { name: "write", parameters: { properties: { filePath: {}, content: {} } } } }]
      const prompt = { role: "user", content: "[[write path=a.txt content=one]] [[say done]]" }
      const first = yield* send(`${model.url}/v1/chat/completions`, { model: "m", tools, messages: [prompt] })
      assert.deepStrictEqual(JSON.parse(JSON.parse(first.text).choices[0].message.tool_calls[0].function.arguments), {
        filePath: "/ws/b/a.txt",
        content: "one\n"
      })
      const second = yield* send(`${model.url}/v1/chat/completions`, {
        model: "m",
        tools,
        messages: [prompt, { role: "tool", content: "ok" }]
      })
      assert.strictEqual(JSON.parse(second.text).choices[0].message.content, "done")
    }))

  it.live("hangs until the client leaves", () =>
    Effect.gen(function*() {
      const model = yield* FakeModel.start()
      yield* Effect.promise(() => leaveEarly(`${model.url}/v1/messages`, { stream: true, messages: user("[[say hi]] [[hang]]") }))
      while (model.requests[0]?.state === "answering") yield* Effect.sleep(5)
      assert.strictEqual(model.requests[0]?.state, "aborted")
      assert.deepStrictEqual(model.requests[0]?.usage, { input: 1000, cached: 200, output: 1, reasoning: 0 })
    }))
})
