/** The part of authentication that comes after routing: hands the principal on, and looks at the rest of the address. */
import { Effect, Layer, Option } from "effect"
import { HttpServerRequest } from "effect/http"
import { InvalidRequest, Unauthorized } from "../api/Errors.ts"
import { Authenticated, CurrentPrincipal } from "../api/Middleware.ts"
import { REALM } from "./Authenticate.ts"

const isWellEncoded = (target: string): boolean => {
  if (!target.includes("%")) return true
  try {
    decodeURIComponent(target)
    return true
  } catch {
    return false
  }
}

export const layer = Layer.succeed(Authenticated, {
  apiKey: (endpoint) =>
    Effect.gen(function*() {
      // `Edge` put it there. Without it a request got here on a way that nobody guards.
      const principal = yield* Effect.serviceOption(CurrentPrincipal)
      if (Option.isNone(principal)) return yield* Unauthorized.make("Send an API key.", { "www-authenticate": REALM })
      const { url } = yield* HttpServerRequest.HttpServerRequest
      if (!isWellEncoded(url)) return yield* InvalidRequest.make("The percent-encoding of the address is broken.")
      return yield* Effect.provideService(endpoint, CurrentPrincipal, principal.value)
    })
})
