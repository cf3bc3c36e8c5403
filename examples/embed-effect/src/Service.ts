/** Questions about a repository, over HTTP: the domain's use cases behind four routes of ours, and a worker with an agent of ours. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as Stores from "@slipway/domain/memory/Stores"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"

/** Where answers come from: a model, a search, a person. */
export class Answers extends Context.Service<Answers, { of(question: string): Effect.Effect<string> }>()("embed-effect/Answers") {
  static readonly layerEcho = Layer.succeed(Answers, Answers.of({ of: (question) => Effect.succeed(`You asked: ${question}`) }))
}

/** Who asks. An application has its own users; here everybody is the same one. */
const everybody: Principal = {
  credential: { _tag: "Key", keyId: "key" },
  grantId: "grant",
  organizationId: "org",
  userId: "user",
  scopes: new Set(["sandboxes"]),
  test: false
}

const Question = Schema.Struct({ question: Schema.String })
const question = Effect.flatMap(HttpServerRequest.schemaBodyJson(Question), (body) => Requests.prompt(body.question))
const conversation = Effect.map(HttpRouter.schemaPathParams(Schema.Struct({ id: SandboxId })), ({ id }) => id)

const refusals: Readonly<Record<string, number>> = {
  SchemaError: 400,
  InvalidRequest: 400,
  HttpServerError: 400,
  SandboxNotFound: 404,
  SandboxNotRunning: 409,
  TurnActive: 409
}

/** What the domain refuses is a 4xx here; anything else is a bug, or a store that cannot answer now. */
const answered = <E extends { readonly _tag: string; readonly message: string }, R>(
  reply: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) =>
  Effect.catch(
    reply,
    ({ _tag, message }) =>
      Effect.succeed(HttpServerResponse.jsonUnsafe({ error: { code: _tag, message } }, { status: refusals[_tag] ?? 503 }))
  )

const utf8 = new TextEncoder()

export const routes = Layer.unwrap(Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const events = yield* SandboxEvents
  return Layer.mergeAll(
    HttpRouter.add(
      "POST",
      "/conversations",
      answered(Effect.gen(function*() {
        const request = yield* Requests.creation({ repos: [{ fullName: "acme/shop" }], prompt: yield* question })
        const { sandbox } = yield* sandboxes.create(everybody, request)
        return HttpServerResponse.jsonUnsafe({ id: sandbox.id }, { status: 201 })
      }))
    ),
    HttpRouter.add(
      "POST",
      "/conversations/:id/questions",
      answered(Effect.gen(function*() {
        const { outcome } = yield* sandboxes.sendMessage(everybody, yield* conversation, yield* question)
        return HttpServerResponse.jsonUnsafe({ outcome }, { status: 202 })
      }))
    ),
    HttpRouter.add(
      "DELETE",
      "/conversations/:id",
      answered(Effect.gen(function*() {
        const { outcome } = yield* sandboxes.terminate(everybody, yield* conversation)
        return HttpServerResponse.jsonUnsafe({ outcome })
      }))
    ),
    // Everything from the beginning, then live, one event a line; ends with the conversation.
    HttpRouter.add(
      "GET",
      "/conversations/:id/events",
      answered(Effect.gen(function*() {
        const id = yield* conversation
        yield* sandboxes.get(everybody, id)
        const lines = Stream.map(events.entries(everybody, id), ({ wire }) => utf8.encode(`${wire}\n`))
        return HttpServerResponse.stream(lines, { contentType: "application/x-ndjson" })
      }))
    )
  )
}))

const agent = AgentRuntime.fromPrompt(({ text }) => Answers.use((answers) => answers.of(text)))

/** The domain with everything it needs: replace `Stores.layer()`, or the machine, and nothing else changes. */
export const domain = Layer.mergeAll(
  Sandboxes.layer,
  SandboxEvents.layer,
  WorkerNode.layerHere({ slots: 16 }).pipe(Layer.provide(agent))
).pipe(
  Layer.provide(MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })),
  Layer.provide(Stores.layer())
)
