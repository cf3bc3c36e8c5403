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
import { json } from "@slipway/http/server/reply/Respond"
import { Routes } from "@slipway/http/server/Routes"
import { rateLimitsOf, Settings } from "@slipway/http/server/Settings"
import { Clock, DateTime, Duration, Effect, Option, Redacted, Schema } from "effect"
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import * as Form from "../layout/Form.ts"
import type { Refused } from "../layout/Refused.ts"
import { DEVICE_PAGE } from "./DevicePage.ts"

const AUTHORIZATION = "/oauth/device_authorization"
const TOKEN = "/oauth/token"
const REVOCATION = "/oauth/revoke"

/** The one public client: our command line and every other program of a person. It has no secret. */
const CLIENT = "slipway"

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"

/** Logins that one address may begin in any 60 s. */
const BEGUN_PER_MINUTE = 10

/** RFC 6749, section 5.1, wants both of the headers; `no-store` is in every reply. */
const reply = (value: object) => json(JSON.stringify(value), { headers: { pragma: "no-cache" } })

/** Characters that `error_description` may not have (RFC 6749, section 5.2). */
const NOT_DESCRIPTIVE = /[^ !#-[\]-~]/gu

/** A refusal as OAuth has it. */
class NotGiven extends Schema.TaggedError<NotGiven>()("NotGiven", {
  status: Schema.Int,
  code: Schema.String,
  text: Schema.String,
  headers: Schema.Record(Schema.String, Schema.String)
}) {
  static because(code: string, text: string): NotGiven {
    return new NotGiven({ status: 400, code, text, headers: {} })
  }

  /** A client that sent `Authorization` is answered with the scheme it used (RFC 6749, section 5.2). */
  static notByHeader(): NotGiven {
    const text = `The client ${CLIENT} has no secret: send client_id in the form, and no Authorization header.`
    return new NotGiven({ status: 401, code: "invalid_client", text, headers: { "www-authenticate": "Basic realm=\"slipway\"" } })
  }

  static tooOften(seconds: number): NotGiven {
    const text = `Too many requests of this kind from this address. Try again in ${seconds} s.`
    return new NotGiven({ status: 429, code: "temporarily_unavailable", text, headers: { "retry-after": String(seconds) } })
  }

  get reply(): HttpServerResponse.HttpServerResponse {
    return json(JSON.stringify({ error: this.code, error_description: this.text.replaceAll(NOT_DESCRIPTIVE, "'") }), {
      status: this.status,
      headers: { pragma: "no-cache", ...this.headers }
    })
  }
}

const misfit = ({ headers, status, text }: Refused) => {
  const seconds = headers?.["retry-after"]
  return seconds === undefined
    ? new NotGiven({ status, code: "invalid_request", text, headers: {} })
    : NotGiven.tooOften(Number(seconds))
}

const isMachine = Schema.is(Machine)

/** A parameter without a value counts as left out (RFC 6749, section 3.2); a repeated parameter is refused. */
const maybe = (form: Form.Form, name: string) => Effect.map(form.maybe(name), (value) => value === "" ? null : value)

const one = Effect.fnUntraced(function*(form: Form.Form, name: string) {
  return (yield* maybe(form, name)) ?? (yield* NotGiven.because("invalid_request", `The parameter ${name} is missing.`))
})

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

/** Counts one attempt of the address; fails when it has to wait. */
const count = Effect.fnUntraced(function*(counter: ReturnType<typeof failures>) {
  const { remoteAddress } = yield* HttpServerRequest.HttpServerRequest
  const wait = counter(Option.getOrElse(remoteAddress, () => ""), yield* Clock.currentTimeMillis)
  if (wait > 0) return yield* NotGiven.tooOften(wait)
})

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
        if (request.headers["authorization"] !== undefined) return yield* NotGiven.notByHeader()
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
