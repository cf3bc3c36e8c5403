import { NodeHttpServer } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientResponse, HttpRouter } from "effect/http"
import { Answers, domain, routes } from "../src/Service.ts"

const Service = HttpRouter.serve(routes, { disableListenLog: true, disableLogger: true }).pipe(
  Layer.provide(domain),
  Layer.provide(Answers.layerEcho),
  Layer.provideMerge(NodeHttpServer.layerTest)
)

interface Event {
  readonly type: string
  readonly data: { readonly text?: string; readonly state?: string; readonly status?: string }
}
const post = (path: string, body: object) => HttpClient.execute(HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(path), body))
const eventsOf = (response: HttpClientResponse.HttpClientResponse) =>
  response.stream.pipe(Stream.decodeText(), Stream.splitLines, Stream.map((line): Event => JSON.parse(line)))
const follow = (id: string) => Effect.map(HttpClient.get(`/conversations/${id}/events`), eventsOf)
const turnEnded = ({ type }: Event) => type === "turn.completed"

it.layer(Service, { excludeTestServices: true })("a conversation", (it) => {
  it.effect("is answered, asked again, and ends when its reader says so", () =>
    Effect.gen(function*() {
      const begun = yield* post("/conversations", { question: "Where is the tax computed?" })
      const { id } = (yield* begun.json) as { readonly id: string }
      const first = yield* Stream.runCollect(Stream.takeUntil(yield* follow(id), turnEnded))
      assert.include(first.map(({ data }) => data.text), "You asked: Where is the tax computed?")
      assert.strictEqual(first.at(-1)?.data.state, "succeeded")

      assert.strictEqual((yield* post(`/conversations/${id}/questions`, { question: "And the fees?" })).status, 202)
      const second = yield* Stream.runCollect(Stream.takeUntil(yield* follow(id), ({ data }) => data.text === "You asked: And the fees?"))
      assert.isAbove(second.length, first.length)

      assert.strictEqual((yield* HttpClient.del(`/conversations/${id}`)).status, 200)
      const all = yield* Stream.runCollect(yield* follow(id))
      assert.strictEqual(all.at(-1)?.data.status, "terminated")
    }))

  it.effect("that nobody began is a 404, and an empty question a 400", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* HttpClient.get("/conversations/c_222222222222/events")).status, 404)
      assert.strictEqual((yield* post("/conversations", { question: "" })).status, 400)
    }))
})
