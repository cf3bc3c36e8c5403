/**
 * Exchanges an OIDC token of a CI for a key of ten minutes (RFC 8693). It is open to everybody: the token is the proof. The text of a
 * refusal does not tell which trusts there are.
 */
import { CiTrusts } from "@slipway/domain/access/usecases/CiTrusts"
import { failures } from "@slipway/http/server/access/Authenticate"
import { Routes } from "@slipway/http/server/Routes"
import { Settings } from "@slipway/http/server/Settings"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import * as Form from "../layout/Form.ts"
import { count, maybe, misfit, NotGiven, one, reply } from "./OAuth.ts"

const PATH = "/api/internal/v1/token-exchange"

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"

const SUBJECT_TYPES = ["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"]

const ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"

/** Seconds until an issuer that could not be reached is asked again. */
const RETRY_SECONDS = 10

const expect = Effect.fnUntraced(function*(isRight: boolean, code: string, text: string) {
  if (!isRight) return yield* NotGiven.because(code, text)
})

const asked = Effect.fnUntraced(function*(form: Form.Form, publicUrl: string) {
  yield* expect((yield* one(form, "grant_type")) === GRANT_TYPE, "unsupported_grant_type", `The only grant type is ${GRANT_TYPE}.`)
  const type = yield* one(form, "subject_token_type")
  yield* expect(SUBJECT_TYPES.includes(type), "invalid_request", `subject_token_type is ${SUBJECT_TYPES.join(" or ")}.`)
  const wanted = (yield* maybe(form, "requested_token_type")) ?? ACCESS_TOKEN
  yield* expect(wanted === ACCESS_TOKEN, "invalid_request", `The only token type is ${ACCESS_TOKEN}.`)
  yield* expect((yield* maybe(form, "actor_token")) === null, "invalid_request", "A token of an actor is not taken.")
  const targets = [...form.all("resource"), ...form.all("audience")]
  yield* expect(targets.every((target) => target === publicUrl), "invalid_target", `The only target is ${publicUrl}.`)
  return Redacted.make(yield* one(form, "subject_token"))
})

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { publicUrl, refusedKeysPerMinute, requestsPerMinute } = yield* Settings
  const trusts = yield* CiTrusts
  const read = Form.ofStrangers(refusedKeysPerMinute)
  const all = failures(requestsPerMinute)
  const missed = failures(refusedKeysPerMinute)

  const exchange = Effect.fnUntraced(function*(form: Form.Form) {
    const token = yield* asked(form, publicUrl)
    const { key, record: { createdAt, expiresAt, scopes } } = yield* Effect.catchTags(trusts.exchange(token), {
      // RFC 8693, section 2.2.2.
      CiTokenRefused: ({ message }) => Effect.andThen(count(missed), NotGiven.because("invalid_request", message)),
      MintRefused: ({ message }) => NotGiven.because("invalid_request", message),
      CiIssuerUnavailable: ({ message }) => NotGiven.unavailable(message, RETRY_SECONDS)
    })
    return reply({
      access_token: Redacted.value(key),
      issued_token_type: ACCESS_TOKEN,
      token_type: "Bearer",
      expires_in: expiresAt === null ? 0 : Math.floor(Duration.toSeconds(DateTime.distance(createdAt, expiresAt))),
      scope: scopes.join(" ")
    })
  })

  const routes = yield* Routes
  routes.declare(PATH, ["POST"], "internal")
  yield* router.add(
    "POST",
    PATH,
    Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      yield* count(all)
      return yield* exchange(yield* read(request))
    }).pipe(
      Effect.catchTag("Refused", (refused) => Effect.fail(misfit(refused))),
      Effect.catchTag("NotGiven", (refused) => Effect.succeed(refused.reply))
    )
  )
}))
