/** The rules behind Fastify, as promises: their use cases read the requests and answer them. */
import type { Caller, Slipway } from "@slipway/domain/promise"
import Fastify from "fastify"
import { Readable } from "node:stream"

/** What the domain refuses, and how this service says so. Anything else is a bug, and Fastify's 500. */
const statuses: Readonly<Record<string, number>> = {
  InvalidRequest: 400,
  InvalidModel: 400,
  RepoNotAccessible: 400,
  SandboxNotFound: 404,
  IdempotencyConflict: 409,
  SandboxNotRunning: 409,
  TurnActive: 409
}

interface OfOne {
  readonly Params: { readonly id: string }
}

/** The application, not listening yet. `by`: an application has its own users; here everybody is the same one. */
export const makeApp = (slipway: Slipway, by: Caller = { grantId: "grant", organizationId: "org", userId: "user" }) => {
  const app = Fastify()
  app.addHook("onClose", slipway.close)

  app.setErrorHandler<Error & { readonly _tag?: string }>((error, _request, reply) => {
    const status = statuses[error._tag ?? ""] ?? 500
    return reply.code(status).send({
      error: { code: error._tag ?? "internal_error", message: status === 500 ? "Try again." : error.message }
    })
  })

  app.post("/sandboxes", async ({ body, headers }, reply) => {
    const key = headers["idempotency-key"]
    const { replayed, sandbox } = await slipway.create(by, body, { idempotencyKey: key?.toString() })
    return reply.code(replayed ? 200 : 201).send(sandbox)
  })

  app.get<OfOne>("/sandboxes/:id", ({ params: { id } }) => slipway.get(by, id))

  /** As server-sent events: what happened so far and what comes, until the sandbox is over or the reader is gone. */
  app.get<OfOne>("/sandboxes/:id/events", async ({ params: { id } }, reply) => {
    await slipway.get(by, id)
    return reply.type("text/event-stream").send(Readable.from(frames(slipway.events(by, id))))
  })

  app.post<OfOne & { readonly Body: { readonly prompt?: unknown } | undefined }>(
    "/sandboxes/:id/messages",
    ({ body, params: { id } }) => slipway.sendMessage(by, id, body?.prompt, { whenBusy: "queue" })
  )

  app.delete<OfOne>("/sandboxes/:id", ({ params: { id } }) => slipway.terminate(by, id))

  return app
}

const frames = async function*(events: ReturnType<Slipway["events"]>) {
  for await (const event of events) yield `id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`
}
