/** How a provider wants the requests of a protocol: their address, their form, and the form of its answers. */
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import type { Json } from "../protocols/Protocol.ts"

/** Request headers in lower case that an agent set and that its protocol allows. */
export type AgentHeaders = Readonly<Record<string, string>>

export interface Destination {
  /** The protocol's paths without cost that the provider does not have. */
  readonly lacks: ReadonlyArray<string>
  /** `path`: of the gateway, such as `/v1/messages`. `isBeta`: the agent asked for `?beta=true`. */
  url(upstream: Upstream, path: string, request: { readonly streaming: boolean; readonly isBeta: boolean }): URL
  /** The headers of `agent` that stay headers. */
  headers(agent: AgentHeaders): AgentHeaders
  /** The body in the provider's form. `isFree`: the path costs nothing. */
  body(body: Json, agent: AgentHeaders, isFree: boolean): Json
  /** The `accept` header of a request for a stream. */
  readonly accepts: string
  /** Makes server-sent events of the provider's stream; `null`: they are ones. */
  readonly decoder: "bedrock" | null
}

/** The address with the path behind it. */
export const beneath = (baseUrl: string, path: string): URL => new URL(`${baseUrl.replace(/(?<!\/)\/+$/u, "")}${path}`)
