/** The origins of previews: each port of each sandbox has its own, so that its pages share nothing with the service or each other. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Option, Schema } from "effect"

/** A wildcard origin, such as `http://*.localhost:4000`. */
export interface PreviewOrigins {
  readonly scheme: "http" | "https"
  /** After the wildcard, with the port if there is one: `.localhost:4000`. */
  readonly suffix: string
}

export interface Target {
  readonly sandboxId: SandboxId
  readonly port: number
}

const WILDCARD = /^(?<scheme>https?):\/\/\*(?<suffix>(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+(?::\d{1,5})?)\/?$/u

/** `null`: not of the form `https://*.preview.example.com`, with or without a port. */
export const parse = (text: string): PreviewOrigins | null => {
  const { scheme, suffix } = WILDCARD.exec(text.toLowerCase())?.groups ?? {}
  return suffix === undefined || Number(suffix.split(":")[1] ?? 1) > 65_535
    ? null
    : { scheme: scheme === "https" ? "https" : "http", suffix }
}

const nameOf = (authority: string): string => authority.replace(/:\d*$/u, "").toLowerCase()

/** Previews of a service that people reach on their own machine, where browsers lead every name below `localhost` to it; else `null`. */
export const ofPublicUrl = (publicUrl: string): PreviewOrigins | null => {
  const { hostname, port, protocol } = new URL(publicUrl)
  return protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(hostname)
    ? { scheme: "http", suffix: `.localhost${port === "" ? "" : `:${port}`}` }
    : null
}

/** Whether requests of the service would be taken for those of previews. */
export const covers = ({ suffix }: PreviewOrigins, publicUrl: string): boolean => new URL(publicUrl).hostname.endsWith(nameOf(suffix))

export const originOf = ({ scheme, suffix }: PreviewOrigins, { port, sandboxId }: Target): string =>
  `${scheme}://${port}-${sandboxId.slice(2)}${suffix}`

const decodeId = Schema.decodeUnknownOption(SandboxId)

const LABEL = /^(?<port>[1-9]\d{3,4})-(?<id>[a-z2-9]{12})$/u

/** Whether the name of the host is one of previews: such a request reaches nothing else. The port is not compared: proxies change it. */
export const isPreview = ({ suffix }: PreviewOrigins, host: string): boolean => nameOf(host).endsWith(nameOf(suffix))

/** The target of a preview's host; `null`: its name is no preview's. */
export const targetOf = (origins: PreviewOrigins, host: string): Target | null => {
  if (!isPreview(origins, host)) return null
  const groups = LABEL.exec(nameOf(host).slice(0, -nameOf(origins.suffix).length))?.groups
  const port = Number(groups?.["port"])
  const sandboxId = Option.getOrNull(decodeId(`c_${groups?.["id"] ?? ""}`))
  return sandboxId === null || !(port >= 1024 && port <= 65_535) ? null : { sandboxId, port }
}
