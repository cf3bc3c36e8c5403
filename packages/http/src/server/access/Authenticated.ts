/** The part of authentication that comes after routing: hands the principal on, and looks at the rest of the address. */
import { InvalidRequest, type Refusal, Unauthorized } from "@slipway/api/shared/Errors"
import { Authenticated, CurrentPrincipal } from "@slipway/api/shared/Middleware"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Context, Effect, Layer, Option } from "effect"
import { HttpServerRequest } from "effect/http"
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

const unguarded = Unauthorized.make("Send an API key.", { "www-authenticate": REALM })
const broken = InvalidRequest.make("The percent-encoding of the address is broken.")

const allowed = Effect.contextWith((context: Context.Context<HttpServerRequest.HttpServerRequest>): Effect.Effect<Principal, Refusal> => {
  // `Edge` put it there. Without it the request came by an unguarded way.
  const principal = Context.getOption(context, CurrentPrincipal)
  if (Option.isNone(principal)) return Effect.fail(unguarded)
  return isWellEncoded(Context.get(context, HttpServerRequest.HttpServerRequest).url)
    ? Effect.succeed(principal.value)
    : Effect.fail(broken)
})

export const layer = Layer.succeed(Authenticated, {
  apiKey: (endpoint) => Effect.flatMap(allowed, (principal) => Effect.provideService(endpoint, CurrentPrincipal, principal))
})
