/** The API as Effects, made from its definition: every endpoint by name. */
import { Api } from "@slipway/api/Api"
import type { Refusal } from "@slipway/api/shared/Errors"
import { Effect, type Redacted, type Schema } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { type HttpApi, HttpApiClient, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"

type Endpoints = typeof Api extends HttpApi.HttpApi<infer _, infer Groups> ? HttpApiGroup.Endpoints<Groups> : never

/** A server fails with errors of the domain too, its own and those of middleware; of each, a client is told a refusal. */
type Told<Endpoint> = Omit<Endpoint, "~Error" | "~Middleware"> & {
  readonly "~Error": Schema.Codec<Refusal>
  readonly "~Middleware": never
}

/**
 * What the server refuses fails with `Refusal`: see its `code`. `HttpClientError`: there was no reply, or one that the API does
 * not name. `SchemaError`: what was asked or replied is not what the API says.
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
    // What decodes an error makes a refusal of it: its schema has the domain's error beside it for servers alone.
    (client) => client as EffectClient
  )
