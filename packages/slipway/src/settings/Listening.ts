/** The addresses of the service, its clients, and the way of its own requests. */
import * as ClientAddress from "@slipway/http/server/ClientAddress"
import * as AllowedOrigins from "@slipway/http/server/edge/AllowedOrigins"
import * as PreviewOrigin from "@slipway/http/server/PreviewOrigin"
import * as ProxySettings from "@slipway/machine/network/ProxySettings"
import * as TrustedAuthorities from "@slipway/machine/network/TrustedAuthorities"
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
  }),
  previewUrl: Setting.optional({
    name: "SLIPWAY_PREVIEW_URL",
    type: Type.parsed("a wildcard origin, such as https://*.preview.example.com", (value) => PreviewOrigin.parse(value) !== null),
    about: "Origin of previews of servers in sandboxes, with a * for the name of each, such as https://*.preview.example.com. Choose a " +
      "domain on which nothing else runs. Without it, http://*.localhost with the service's port if people reach the service on " +
      "their own machine; otherwise no previews.",
    role: "http"
  })
}

/** `publicUrl` has no slash at its end. */
export const load = Effect.map(
  Setting.values(settings),
  ({ previewUrl, publicUrl, ...loaded }) => ({
    ...loaded,
    publicUrl: publicUrl === null ? null : publicUrl.replace(/(?<!\/)\/+$/u, ""),
    previewOrigins: previewUrl === null ? null : PreviewOrigin.parse(previewUrl)
  })
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

const proxy = Type.redacted(Type.parsed(ProxySettings.EXPECTED, (text) => ProxySettings.addressOf(text) !== null))

/** The way of requests to the outside. Their lower case is read too, and wins. */
export const outgoing = {
  httpsProxy: Setting.optional({
    name: "HTTPS_PROXY",
    type: proxy,
    about: "HTTP proxy for requests by https to the outside, git's included. https_proxy wins over it. Without it, they go directly.",
    role: "all",
    secret: true,
    inherited: true
  }),
  httpProxy: Setting.optional({
    name: "HTTP_PROXY",
    type: proxy,
    about: "The same for requests by http. http_proxy wins over it.",
    role: "all",
    secret: true,
    inherited: true
  }),
  noProxy: Setting.optional({
    name: "NO_PROXY",
    type: Type.text("names, addresses and networks between commas"),
    about: "Destinations without a proxy, such as .corp.example,10.0.0.0/8: a name counts with all below it, * is everything. This " +
      "machine and the metadata of clouds never need it. no_proxy wins over it.",
    role: "all"
  }),
  authorities: Setting.optional({
    name: TrustedAuthorities.VARIABLE,
    type: Type.file,
    about: "File of your own CA certificates, PEM, trusted beside those of Node and of the system: by this program, git and the " +
      "programs in boxes of this machine.",
    role: "all"
  })
}

/** Checked only: the process was prepared by its environment before. */
export const loadOutgoing = Effect.asVoid(Setting.values(outgoing))
