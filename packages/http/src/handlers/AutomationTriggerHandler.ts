/**
 * Signed requests that start runs of automations: `POST /api/internal/v1/automations/{id}/trigger`. Standard Webhooks sign the bytes of
 * the body, so it is read as text, and the address has no secret.
 */
import { RunResource } from "@slipway/api/groups/AutomationsApi"
import { InvalidRequest, RateLimited, Refusal, Unauthorized, UnsupportedMediaType } from "@slipway/api/shared/Errors"
import { MAX_PAYLOAD } from "@slipway/domain/automation/rules/Event"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import { ByteSize, Clock, Effect, Option, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest } from "effect/http"
import { failures } from "../server/access/Authenticate.ts"
import { json } from "../server/reply/Respond.ts"
import { Routes } from "../server/Routes.ts"
import { Settings } from "../server/Settings.ts"
import { TRIGGER_PATH } from "../server/TriggerUrl.ts"
import { toRun } from "./internal/AutomationsHandlers.ts"

/** There is no registered scheme for signed bodies. */
const CHALLENGE = "Signature realm=\"slipway\""

const encode = Schema.encodeSync(RunResource)
const conflict = (code: string, reason: string) => new Refusal({ status: 409, code, reason, headers: {} })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const automations = yield* Automations
  const { refusedKeysPerMinute, requestsPerMinute } = yield* Settings
  const routes = yield* Routes
  routes.declare(TRIGGER_PATH, ["POST"], "internal")
  const asked = failures(requestsPerMinute)
  const forged = failures(refusedKeysPerMinute)

  /** Counts a request of the client's address; fails when it has to wait. */
  const count = Effect.fnUntraced(function*(counter: ReturnType<typeof failures>) {
    const { remoteAddress } = yield* HttpServerRequest.HttpServerRequest
    const wait = counter(Option.getOrElse(remoteAddress, () => ""), yield* Clock.currentTimeMillis)
    if (wait > 0) return yield* RateLimited.make("Too many requests came from this address.", { "retry-after": String(wait) })
  })

  yield* router.add(
    "POST",
    TRIGGER_PATH,
    Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      yield* count(asked)
      const { headers } = request
      if (!/^application\/json(?:;|$)/iu.test(headers["content-type"] ?? "")) {
        return yield* UnsupportedMediaType.make("The body must be application/json.")
      }
      const body = yield* Effect.provideService(request.text, HttpIncomingMessage.MaxBodySize, ByteSize.bytes(MAX_PAYLOAD))
      const { automationId = "" } = yield* HttpRouter.params
      const run = yield* automations.trigger(automationId, {
        id: headers["webhook-id"] ?? "",
        timestamp: headers["webhook-timestamp"] ?? "",
        signature: headers["webhook-signature"] ?? "",
        body
      }).pipe(Effect.catchTags({
        NotSigned: ({ message }) => Effect.andThen(count(forged), Unauthorized.make(message, { "www-authenticate": CHALLENGE })),
        InvalidRequest: ({ message }) => InvalidRequest.make(message),
        AutomationPaused: ({ message }) => conflict("automation_paused", message),
        TooManyRuns: ({ message }) => conflict("conflict", message)
      }))
      return json(JSON.stringify(encode(toRun(run))))
    })
  )
}))
