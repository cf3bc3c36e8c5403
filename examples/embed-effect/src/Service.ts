/** Questions about a repository, over HTTP: the domain's use cases behind four routes of ours. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Answerer from "./Answerer.ts"

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
        const { sandbox } = yield* sandboxes.create(everybody, request, Option.none())
        return HttpServerResponse.jsonUnsafe({ id: sandbox.id }, { status: 201 })
      }))
    ),
    HttpRouter.add(
      "POST",
      "/conversations/:id/questions",
      answered(Effect.gen(function*() {
        const { outcome } = yield* sandboxes.sendMessage(everybody, yield* conversation, yield* question, Option.none())
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
        const { frames } = yield* events.follow(everybody, yield* conversation, 0)
        const lines = Stream.flatMap(frames, (frame) => Stream.fromIterable(frame._tag === "Entries" ? frame.entries : []))
        return HttpServerResponse.stream(Stream.map(lines, ({ wire }) => utf8.encode(`${wire}\n`)), { contentType: "application/x-ndjson" })
      }))
    )
  )
}))

/** The domain with everything it needs: replace `SandboxStoreMemory.layer` and nothing else changes. */
export const domain = Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, Answerer.layer).pipe(
  Layer.provide(SandboxStoreMemory.layer),
  Layer.provide(Layer.merge(HintsMemory.layer, IdsMemory.layer))
)
