/**
 * How a command gets a key without a person typing one: the OAuth 2.0 device authorization grant (RFC 8628), and giving a key
 * back (RFC 7009). Forms come in, and errors look, as OAuth has them (RFC 6749, section 5.2). The person's side is
 * `DevicePage`.
 */
import { Acting } from "@slipway/domain/access/ports/AuditLog"
import { fromHeader } from "@slipway/domain/access/rules/ApiKey"
import { DEVICE_SCOPES, shownUserCode, UNNAMED_MACHINE } from "@slipway/domain/access/rules/DeviceLogin"
import { Machine } from "@slipway/domain/access/schema/DeviceLogin"
import { Access } from "@slipway/domain/access/usecases/Access"
import { DeviceLogins } from "@slipway/domain/access/usecases/DeviceLogins"
import { failures } from "@slipway/http/server/access/Authenticate"
import { Routes } from "@slipway/http/server/Routes"
import { rateLimitsOf, Settings } from "@slipway/http/server/Settings"
import { DateTime, Duration, Effect, Redacted, Schema } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import * as Form from "../layout/Form.ts"
import { DEVICE_PAGE } from "./DevicePage.ts"
import { count, maybe, misfit, NotGiven, one, reply } from "./OAuth.ts"

const AUTHORIZATION = "/oauth/device_authorization"
const TOKEN = "/oauth/token"
const REVOCATION = "/oauth/revoke"

/** The one public client: our command line and every other program of a person. It has no secret. */
const CLIENT = "slipway"

const NO_SECRET = `The client ${CLIENT} has no secret: send client_id in the form, and no Authorization header.`

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"

/** Logins that one address may begin in any 60 s. */
const BEGUN_PER_MINUTE = 10

const isMachine = Schema.is(Machine)

/** Whether every requested scope may be granted; they come in any order (RFC 6749, section 3.3). */
const isOurScope = (scope: string) => scope.split(" ").every((each) => DEVICE_SCOPES.some((ours) => ours === each))

interface Services {
  readonly logins: typeof DeviceLogins.Service
  readonly access: typeof Access.Service
  readonly settings: typeof Settings.Service
  readonly limits: ReturnType<typeof rateLimitsOf>
  /** Logins that began, by address. */
  readonly begun: ReturnType<typeof failures>
  /** Codes and keys that were not good, by address. */
  readonly missed: ReturnType<typeof failures>
}

const authorize = Effect.fnUntraced(function*({ begun, logins, settings }: Services, form: Form.Form) {
  const machine = (yield* maybe(form, "machine")) ?? UNNAMED_MACHINE
  if (!isMachine(machine)) {
    return yield* NotGiven.because("invalid_request", "machine: 1 to 126 characters of one line, without hidden ones, expected")
  }
  const scope = yield* maybe(form, "scope")
  if (scope !== null && !isOurScope(scope)) {
    return yield* NotGiven.because("invalid_scope", `The scope is ${DEVICE_SCOPES.join(" ")}.`)
  }
  yield* count(begun)
  const { deviceCode, interval, life, userCode } = yield* logins.begin(machine)
  const page = `${settings.publicUrl}${DEVICE_PAGE}`
  const shown = shownUserCode(userCode)
  return reply({
    device_code: Redacted.value(deviceCode),
    user_code: shown,
    verification_uri: page,
    verification_uri_complete: `${page}?user_code=${shown}`,
    expires_in: Duration.toSeconds(life),
    interval
  })
})

const give = Effect.fnUntraced(function*({ logins, missed }: Services, form: Form.Form) {
  if ((yield* one(form, "grant_type")) !== GRANT_TYPE) {
    return yield* NotGiven.because("unsupported_grant_type", `The only grant type is ${GRANT_TYPE}.`)
  }
  const code = Redacted.make(yield* one(form, "device_code"))
  const { grant, key, record } = yield* Effect.catchTags(logins.redeem(code), {
    DeviceLoginRefused: Effect.fnUntraced(function*({ because, message }) {
      // The answer to a guessed code.
      if (because === "invalid_grant") yield* count(missed)
      return yield* NotGiven.because(because, message)
    }),
    MintRefused: ({ message }) => NotGiven.because("access_denied", message)
  })
  const { createdAt, expiresAt, id, label, scopes, userId } = record
  return reply({
    access_token: Redacted.value(key),
    token_type: "Bearer",
    scope: scopes.join(" "),
    ...(expiresAt === null ? {} : { expires_in: Math.floor(Duration.toSeconds(DateTime.distance(createdAt, expiresAt))) }),
    key: { id, label, grant: { id: grant.id, name: grant.name }, userId }
  })
})

/** An unknown key counts as revoked (RFC 7009, section 2.2). */
const revoke = Effect.fnUntraced(function*({ access, limits, missed }: Services, form: Form.Form) {
  const credential = fromHeader(`Bearer ${yield* one(form, "token")}`)
  const admission = credential._tag === "Key" ? yield* access.admit(credential.key, limits) : null
  if (admission === null) {
    yield* count(missed)
    return reply({})
  }
  if (!admission.rate.accepted) return yield* NotGiven.tooOften(admission.rate.resetSeconds)
  const { credential: proven } = admission.principal
  if (proven._tag === "Key") {
    yield* access.revokeKey(proven.keyId).pipe(
      Effect.provideService(Acting, proven),
      // Keys are never deleted.
      Effect.catchTag("KeyNotFound", Effect.die)
    )
  }
  return reply({})
})

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const settings = yield* Settings
  const services: Services = {
    logins: yield* DeviceLogins,
    access: yield* Access,
    settings,
    limits: rateLimitsOf(settings),
    begun: failures(BEGUN_PER_MINUTE),
    missed: failures(settings.refusedKeysPerMinute)
  }
  const read = Form.ofStrangers(settings.refusedKeysPerMinute)
  const routes = yield* Routes

  for (const [path, answer] of [[AUTHORIZATION, authorize], [TOKEN, give], [REVOCATION, revoke]] as const) {
    routes.declare(path, ["POST"], "device_logins")
    yield* router.add(
      "POST",
      path,
      Effect.gen(function*() {
        const request = yield* HttpServerRequest.HttpServerRequest
        const form = yield* read(request)
        if (request.headers["authorization"] !== undefined) return yield* NotGiven.notByHeader(NO_SECRET)
        if ((yield* one(form, "client_id")) !== CLIENT) return yield* NotGiven.because("invalid_client", `The client is ${CLIENT}.`)
        if ((yield* maybe(form, "client_secret")) !== null) {
          return yield* NotGiven.because("invalid_client", `The client ${CLIENT} has no secret.`)
        }
        return yield* answer(services, form)
      }).pipe(
        Effect.catchTag("Refused", (refused) => Effect.fail(misfit(refused))),
        Effect.catchTag("NotGiven", (refused) => Effect.succeed(refused.reply))
      )
    )
  }
}))
