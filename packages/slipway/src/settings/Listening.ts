/** The addresses of the service, and its clients. */
import * as ClientAddress from "@slipway/http/server/ClientAddress"
import * as AllowedOrigins from "@slipway/http/server/edge/AllowedOrigins"
import * as Effect from "effect/Effect"
import * as Defaults from "./Defaults.ts"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  host: Setting.withDefault({
    name: "SLIPWAY_HOST",
    type: Type.text("an address to listen on"),
    default: "127.0.0.1",
    about: "Address to listen on.",
    role: "http"
  }),
  port: Setting.withDefault({
    ...Defaults.port,
    type: { ...Type.integer(0, 65_535), expected: "a port from 0 to 65535" },
    about: "Port to listen on; 0 takes any free one.",
    role: "http"
  }),
  publicUrl: Setting.optional({
    name: "SLIPWAY_PUBLIC_URL",
    type: Type.publicAddress,
    about: "Address for clients, the beginning of every link; may have a path. " +
      "Without it, http:// and the address listened on; a process with SLIPWAY_ROLE=worker needs it.",
    role: "all"
  })
}

/** `publicUrl` has no slash at its end. */
export const load = Effect.map(
  Setting.values(settings),
  ({ publicUrl, ...loaded }) => ({ ...loaded, publicUrl: publicUrl === null ? null : publicUrl.replace(/(?<!\/)\/+$/u, "") })
)

/** Limits that protect clients from each other. */
export const edge = {
  connectionsPerAddress: Setting.withDefault({
    name: "SLIPWAY_CONNECTIONS_PER_ADDRESS",
    type: Type.integer(1, 100_000),
    default: "512",
    about: "Connections and active requests of one address; at most half of the process's capacity.",
    role: "http"
  }),
  allowedOrigins: Setting.optional({
    name: "SLIPWAY_ALLOWED_ORIGINS",
    type: Type.parsed(
      "origins between commas, such as https://app.example,http://localhost:3000",
      (value) => AllowedOrigins.parse(value) !== null
    ),
    about: "Origins whose pages may use the API in a browser, such as https://app.example,http://localhost:3000. They need an API " +
      "key: sessions count only on our pages. Without it, no other origin.",
    role: "http"
  }),
  trustedProxies: Setting.optional({
    name: "SLIPWAY_TRUSTED_PROXIES",
    type: Type.parsed(
      "addresses and networks between commas, such as 127.0.0.1,10.0.0.0/8",
      (value) => ClientAddress.parse(value) !== null
    ),
    about: "Proxies in front of the service, such as 127.0.0.1,10.0.0.0/8. Their requests count for the address in X-Forwarded-For. " +
      "Without it, all count for the sender.",
    role: "http"
  })
}

export const loadEdge = Effect.map(
  Setting.values(edge),
  ({ allowedOrigins, trustedProxies, ...loaded }) => ({
    ...loaded,
    allowedOrigins: allowedOrigins === null ? [] : AllowedOrigins.parse(allowedOrigins) ?? [],
    trustedProxies: ClientAddress.parse(trustedProxies ?? "") ?? ClientAddress.trustNone
  })
)
