/** Forms come in, and errors look, as OAuth 2.0 has them (RFC 6749, section 5.2). */
import type { failures } from "@slipway/http/server/access/Authenticate"
import { json } from "@slipway/http/server/reply/Respond"
import { Clock, Effect, Option, Schema } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import type * as Form from "../layout/Form.ts"
import type { Refused } from "../layout/Refused.ts"

/** RFC 6749, section 5.1, wants both of the headers; `no-store` is in every reply. */
export const reply = (value: object) => json(JSON.stringify(value), { headers: { pragma: "no-cache" } })

/** Characters that `error_description` may not have (RFC 6749, section 5.2). */
const NOT_DESCRIPTIVE = /[^ !#-[\]-~]/gu

/** A refusal as OAuth has it. */
export class NotGiven extends Schema.TaggedError<NotGiven>()("NotGiven", {
  status: Schema.Int,
  code: Schema.String,
  text: Schema.String,
  headers: Schema.Record(Schema.String, Schema.String)
}) {
  static because(code: string, text: string): NotGiven {
    return new NotGiven({ status: 400, code, text, headers: {} })
  }

  /** A client that sent `Authorization` is answered with the scheme it used (RFC 6749, section 5.2). */
  static notByHeader(text: string): NotGiven {
    return new NotGiven({ status: 401, code: "invalid_client", text, headers: { "www-authenticate": "Basic realm=\"slipway\"" } })
  }

  static unavailable(text: string, seconds: number): NotGiven {
    return new NotGiven({ status: 503, code: "temporarily_unavailable", text, headers: { "retry-after": String(seconds) } })
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

/** The refusal of a form that cannot be read. */
export const misfit = ({ headers, status, text }: Refused) => {
  const seconds = headers?.["retry-after"]
  return seconds === undefined
    ? new NotGiven({ status, code: "invalid_request", text, headers: {} })
    : NotGiven.tooOften(Number(seconds))
}

/** A parameter without a value counts as left out (RFC 6749, section 3.2); a repeated parameter is refused. */
export const maybe = (form: Form.Form, name: string) => Effect.map(form.maybe(name), (value) => value === "" ? null : value)

/** As `maybe`; fails without a value. */
export const one = Effect.fnUntraced(function*(form: Form.Form, name: string) {
  return (yield* maybe(form, name)) ?? (yield* NotGiven.because("invalid_request", `The parameter ${name} is missing.`))
})

/** Counts one attempt of the address; fails when it has to wait. */
export const count = Effect.fnUntraced(function*(counter: ReturnType<typeof failures>) {
  const { remoteAddress } = yield* HttpServerRequest.HttpServerRequest
  const wait = counter(Option.getOrElse(remoteAddress, () => ""), yield* Clock.currentTimeMillis)
  if (wait > 0) return yield* NotGiven.tooOften(wait)
})
