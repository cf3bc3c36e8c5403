/** The API as Effects, made from its definition: every endpoint by name. What the server refuses fails with `Refusal`: see its `code`. */
import { Api } from "@slipway/http/api/Api"
import type { Effect, Redacted } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"

/** `baseUrl` is the server's address without a path, e.g. `https://slipway.example`. */
export const make = ({ apiKey, baseUrl }: { readonly baseUrl: string; readonly apiKey: Redacted.Redacted }) =>
  HttpApiClient.make(Api, {
    baseUrl,
    transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(apiKey))
  })

export type EffectClient = Effect.Success<ReturnType<typeof make>>
