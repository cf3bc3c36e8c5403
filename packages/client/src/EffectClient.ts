/** The API as Effects, derived from its definition: every endpoint by name. */
import { Api } from "@slipway/api/Api"
import type { Refusal } from "@slipway/api/shared/Errors"
import { Effect, type Redacted, type Schema } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { type HttpApi, HttpApiClient, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"

type Endpoints = typeof Api extends HttpApi.HttpApi<infer _, infer Groups> ? HttpApiGroup.Endpoints<Groups> : never

/** A server also fails with the domain's errors, its own and those of middleware. Each of them is a refusal to a client. */
type Told<Endpoint> = Omit<Endpoint, "~Error" | "~Middleware"> & {
  readonly "~Error": Schema.Codec<Refusal>
  readonly "~Middleware": never
}

/**
 * Methods for all endpoints. A refusal of the server fails with `Refusal`: see its `code`. `HttpClientError`: no reply, or a reply
 * outside the API. `SchemaError`: an invalid request or reply.
 */
export type EffectClient = {
  readonly [Endpoint in Extract<Endpoints, HttpApiEndpoint.ConstraintRequest> as Endpoint["identifier"]]: HttpApiClient.Client.Method<
    Told<Endpoint>,
    never,
    never
  >
}

/** `baseUrl` is the server's address without a path, e.g. `https://slipway.example`. */
export const make = (
  { apiKey, baseUrl }: { readonly baseUrl: string; readonly apiKey: Redacted.Redacted }
): Effect.Effect<EffectClient, never, HttpClient.HttpClient> =>
  Effect.map(
    HttpApiClient.make(Api, {
      baseUrl,
      transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(apiKey))
    }),
    // Decoding turns an error into a refusal. Its schema has the domain's error too, but for servers only.
    (client) => client as EffectClient
  )
