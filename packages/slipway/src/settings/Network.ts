/** The way of outgoing requests. */
import * as ProxySettings from "@slipway/machine/network/ProxySettings"
import * as TrustedAuthorities from "@slipway/machine/network/TrustedAuthorities"
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

const proxy = Type.redacted(Type.parsed(ProxySettings.EXPECTED, (text) => ProxySettings.addressOf(text) !== null))

/** Their lower case is read too, and wins. */
export const settings = {
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
export const load = Effect.as(Setting.values(settings), {})
