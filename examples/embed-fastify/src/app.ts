/** The rules behind Fastify, as promises: their use cases read the requests and answer them, our store keeps what they decide. */
import { type Caller, open, type Slipway } from "@slipway/domain/promise"
import Fastify from "fastify"
import { Readable } from "node:stream"
import * as JournalStore from "./JournalStore.ts"

/** Who asks. An application has its own users; here everybody is the same one. */
const everybody: Caller = { grantId: "grant", organizationId: "org", userId: "user" }

/** What the domain refuses, and how this service says so. Anything else is a bug, and Fastify's 500. */
const statuses: Readonly<Record<string, number>> = {
  InvalidRequest: 400,
  InvalidModel: 400,
  SandboxNotFound: 404,
  IdempotencyConflict: 409,
  SandboxNotRunning: 409,
  TurnActive: 409
}

interface OfOne {
  readonly Params: { readonly id: string }
}

/** The application, not listening yet. Closing it releases the store. */
export const makeApp = (journal: string) => {
  let slipway!: Slipway
  const app = Fastify()
  // A journal that cannot be used stops the start, not the first request.
  app.addHook("onReady", async () => {
    slipway = await open({ store: JournalStore.layer(journal), ids: crypto })
  })
  app.addHook("onClose", async () => slipway?.close())

  app.setErrorHandler<Error & { readonly _tag?: string }>((error, _request, reply) => {
    const status = statuses[error._tag ?? ""] ?? 500
    return reply.code(status).send({
      error: { code: error._tag ?? "internal_error", message: status === 500 ? "Try again." : error.message }
    })
  })

  app.post("/sandboxes", async ({ body, headers }, reply) => {
    const key = headers["idempotency-key"]
    const { replayed, sandbox } = await slipway.create(everybody, body, { idempotencyKey: key?.toString() })
    return reply.code(replayed ? 200 : 201).send(sandbox)
  })

  app.get<OfOne>("/sandboxes/:id", ({ params: { id } }) => slipway.get(everybody, id))

  /** As server-sent events: what happened so far and what comes, until the sandbox is over or the reader is gone. */
  app.get<OfOne>("/sandboxes/:id/events", async ({ params: { id } }, reply) => {
    await slipway.get(everybody, id)
    return reply.type("text/event-stream").send(Readable.from(frames(slipway.events(everybody, id))))
  })

  app.delete<OfOne>("/sandboxes/:id", ({ params: { id } }) => slipway.terminate(everybody, id))

  return app
}

const frames = async function*(events: ReturnType<Slipway["events"]>) {
  for await (const event of events) yield `id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`
}
