/** Common to all endpoints: the caller, and the errors that come before the use case. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import {
  Forbidden,
  InsufficientScope,
  InternalError,
  InvalidRequest,
  MethodNotAllowed,
  Misfitting,
  PayloadTooLarge,
  RateLimited,
  StoreUnavailable,
  Unauthorized,
  Unavailable,
  UnsupportedMediaType
} from "./Errors.ts"

/** The owner of the request's key. */
export class CurrentPrincipal extends Context.Service<CurrentPrincipal, Principal>()("@slipway/api/CurrentPrincipal") {}

/** Lets a request pass that has a valid key with the endpoint's scope, within the rate limit. */
export class Authenticated extends HttpApiMiddleware.Service<Authenticated, { provides: CurrentPrincipal }>()(
  "@slipway/api/Authenticated",
  {
    security: {
      apiKey: HttpApiSecurity.bearer.pipe(
        HttpApiSecurity.annotate(
          OpenApi.Description,
          "An API key with the `sandboxes` scope; for `/metrics`, with `metrics:read`. Shown once, when it is made."
        )
      )
    },
    error: [
      InvalidRequest.schema,
      Misfitting,
      Unauthorized.schema,
      InsufficientScope.schema,
      Forbidden.schema,
      MethodNotAllowed.schema,
      RateLimited.schema,
      InternalError.schema,
      StoreUnavailable,
      Unavailable.schema
    ]
  }
) {}

/** A JSON body of at most 1 MiB, or none where the endpoint takes none. */
export class JsonBody extends HttpApiMiddleware.Service<JsonBody>()("@slipway/api/JsonBody", {
  error: [PayloadTooLarge.schema, UnsupportedMediaType.schema]
}) {}
