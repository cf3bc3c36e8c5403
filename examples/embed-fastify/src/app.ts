/** The domain behind Fastify: its schemas read the requests, its use cases answer them, our store keeps what they decide. */
import type { Principal } from "@slipway/domain/access/Principal"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { CreateSandbox } from "@slipway/domain/sandbox/CreateSandbox"
import { IdempotencyKey } from "@slipway/domain/sandbox/Idempotency"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/SandboxEvents"
import { SandboxId } from "@slipway/domain/SandboxId"
import { toResource } from "@slipway/http/api/SandboxResource"
import { Effect, Layer, ManagedRuntime, Option, Schema } from "effect"
import Fastify from "fastify"
import * as JournalStore from "./JournalStore.ts"

/** Who asks. An application has its own users; here everybody is the same one. */
const everybody: Principal = {
  credential: { _tag: "Key", keyId: "key" },
  grantId: "grant",
  organizationId: "org",
  userId: "user",
  scopes: new Set(["sandboxes"]),
  test: false
}

/** What the domain refuses, and how this service says so. Anything else is a bug, and Fastify's 500. */
const statuses: Readonly<Record<string, number>> = {
  SchemaError: 400,
  InvalidModel: 400,
  SandboxNotFound: 404,
  IdempotencyConflict: 409,
  SandboxNotRunning: 409,
  TurnActive: 409
}

/** The application, not listening yet. Closing it releases the store. */
export const makeApp = (journal: string) => {
  const runtime = ManagedRuntime.make(
    Layer.merge(Sandboxes.layer, SandboxEvents.layer).pipe(
      Layer.provide(JournalStore.layer(journal)),
      Layer.provide(Layer.merge(HintsMemory.layer, IdsMemory.layer))
    )
  )
  const app = Fastify()
  // A journal that cannot be used stops the start, not the first request.
  app.addHook("onReady", async () => void await runtime.context())
  app.addHook("onClose", () => runtime.dispose())

  app.setErrorHandler<Error & { readonly _tag?: string }>((error, _request, reply) => {
    const status = statuses[error._tag ?? ""] ?? 500
    return reply.code(status).send({
      error: { code: error._tag ?? "internal_error", message: status === 500 ? "Try again." : error.message }
    })
  })

  app.post("/sandboxes", async (request, reply) => {
    const { replayed, sandbox } = await runtime.runPromise(Effect.gen(function*() {
      const wanted = yield* Schema.decodeUnknownEffect(CreateSandbox)(request.body)
      const key = yield* Schema.decodeUnknownEffect(Schema.UndefinedOr(IdempotencyKey))(request.headers["idempotency-key"])
      return yield* Sandboxes.use((sandboxes) => sandboxes.create(everybody, wanted, Option.fromUndefinedOr(key)))
    }))
    return reply.code(replayed ? 200 : 201).send(toResource(sandbox, "http://localhost"))
  })

  const idOf = (params: unknown) => Schema.decodeUnknownEffect(Schema.Struct({ id: SandboxId }))(params)

  app.get("/sandboxes/:id", ({ params }) =>
    runtime.runPromise(Effect.gen(function*() {
      const { id } = yield* idOf(params)
      return toResource(yield* Sandboxes.use((sandboxes) => sandboxes.get(everybody, id)), "http://localhost")
    })))

  app.get("/sandboxes/:id/events", ({ params }) =>
    runtime.runPromise(Effect.gen(function*() {
      const { id } = yield* idOf(params)
      const entries = yield* SandboxEvents.use((events) => events.list(everybody, id, { after: 0, limit: 100 }))
      return entries.map(({ wire }): unknown => JSON.parse(wire))
    })))

  app.delete("/sandboxes/:id", ({ params }) =>
    runtime.runPromise(Effect.gen(function*() {
      const { id } = yield* idOf(params)
      return yield* Sandboxes.use((sandboxes) => sandboxes.terminate(everybody, id))
    })))

  return app
}
