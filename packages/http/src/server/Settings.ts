/** Settings of the server. Nothing here reads the environment. */
import type { RateLimits } from "@slipway/domain/access/ports/AccessStore"
import { Context, Duration, Layer, type Redacted } from "effect"
import { trustNone, type Trust } from "./ClientAddress.ts"
import type { PreviewOrigins } from "./PreviewOrigin.ts"

interface Necessary {
  /** Absolute base of every link that is handed out, without a slash at its end; it may have a path. Never taken from a request. */
  readonly publicUrl: string
  /** Signs list cursors. Processes that share a database must share it; a new one only ends the lists under way. */
  readonly cursorKey: Redacted.Redacted
}

interface Adjustable {
  /** The beginning of the paths of requests, without a slash at its end; `null`: the path of `publicUrl`. Requests may also omit it. */
  readonly prefix: string | null
  /** Origins whose pages may read the API with an API key, as browsers send them: `https://app.example`. */
  readonly allowedOrigins: ReadonlyArray<string>
  /** Proxies of which `X-Forwarded-For` is believed. */
  readonly trustedProxies: Trust
  /** Requests a key or a session may make in any 60 s. */
  readonly requestsPerMinute: number
  /** Those of one user with all keys, and with all sessions; `null`: four times those of a key. */
  readonly requestsPerUser: number | null
  /** Those of one grant with all keys; `null`: eight times those of a key. */
  readonly requestsPerGrant: number | null
  /** Refused keys one address may present in any 60 s. */
  readonly refusedKeysPerMinute: number
  /** Event streams that one key, one user and one grant may hold open in this process; never more than half of all. */
  readonly streamsPerKey: number
  readonly streamsPerUser: number
  readonly streamsPerGrant: number
  /** Downloads that one key, one user and one grant may run at once in this process. */
  readonly downloadsPerKey: number
  readonly downloadsPerUser: number
  readonly downloadsPerGrant: number
  /** Attachments to terminals that one key, one user and one grant may hold open in this process. */
  readonly terminalsPerKey: number
  readonly terminalsPerUser: number
  readonly terminalsPerGrant: number
  /** Event streams this process holds open at most, for all keys together. */
  readonly streams: number
  /** The origins of previews and the key of their passes, which processes that share a database must share; `null`: no previews. */
  readonly previews: { readonly origins: PreviewOrigins; readonly key: Redacted.Redacted } | null
  /** Connections one address may have, and requests of one address that may be under way; never more than half of all. */
  readonly connectionsPerAddress: number
  /** How long a connection may wait for its next request. */
  readonly keepAlive: Duration.Duration
  /** Silence after which a stream sends a comment. */
  readonly heartbeat: Duration.Duration
  /** How long a reader may take nothing of what it was sent. */
  readonly patience: Duration.Duration
  /** How often open streams and downloads are checked for revocation. */
  readonly watch: Duration.Duration
}

const defaults: Adjustable = {
  prefix: null,
  allowedOrigins: [],
  trustedProxies: trustNone,
  requestsPerMinute: 120,
  requestsPerUser: null,
  requestsPerGrant: null,
  refusedKeysPerMinute: 60,
  streamsPerKey: 100,
  streamsPerUser: 200,
  streamsPerGrant: 500,
  downloadsPerKey: 8,
  downloadsPerUser: 16,
  downloadsPerGrant: 32,
  terminalsPerKey: 8,
  terminalsPerUser: 16,
  terminalsPerGrant: 32,
  streams: 10_000,
  previews: null,
  connectionsPerAddress: 512,
  // Longer than load balancers keep connections (60 s at most of them): they must close first, not we.
  keepAlive: Duration.seconds(65),
  heartbeat: Duration.seconds(15),
  patience: Duration.seconds(30),
  // Half of the second within which a revocation must show (docs/decisions/5).
  watch: Duration.millis(500)
}

export type Adjusted = Partial<Adjustable>
/** Settings without a default, and those of the others that differ from theirs. */
export type Given = Necessary & Adjusted

export class Settings extends Context.Service<Settings, Necessary & Adjustable>()("@slipway/http/Settings") {
  /** The defaults are those of docs/decisions/5 and 10. */
  static readonly layer = (given: Given) => Layer.succeed(Settings, { ...defaults, ...given })
}

/** How many requests may be accepted in any 60 s. */
export const rateLimitsOf = (
  { requestsPerGrant, requestsPerMinute, requestsPerUser }: Pick<Adjustable, "requestsPerMinute" | "requestsPerUser" | "requestsPerGrant">
): RateLimits => ({
  credential: requestsPerMinute,
  user: requestsPerUser ?? 4 * requestsPerMinute,
  grant: requestsPerGrant ?? 8 * requestsPerMinute
})

/** The path of the service at its host, without a slash at its end; empty, where it has the host for itself. */
export const basePathOf = (publicUrl: string): string => new URL(publicUrl).pathname.replace(/(?<!\/)\/+$/u, "")
