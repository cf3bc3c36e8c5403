/** What the HTTP side may be told by whoever composes it. Nothing here reads the environment. */
import { Context, Duration, Layer, type Redacted } from "effect"

interface Given {
  /** Absolute base of every link that is handed out, without a slash at its end. Never taken from a request. */
  readonly publicUrl: string
  /** Signs list cursors. Processes that share a database must share it; a new one only ends the lists under way. */
  readonly cursorKey: Redacted.Redacted
}

interface Adjustable {
  /** Requests a key may make in any 60 s. */
  readonly requestsPerMinute: number
  /** Refused keys one address may present in any 60 s. */
  readonly refusedKeysPerMinute: number
  /** Event streams one key may hold open in this process. */
  readonly streamsPerKey: number
  /** Downloads one key may run at once in this process. */
  readonly downloadsPerKey: number
  /** Event streams this process holds open at most, for all keys together. */
  readonly streams: number
  /** Silence after which a stream sends a comment. */
  readonly heartbeat: Duration.Duration
  /** How long a reader may leave what it was sent unread. */
  readonly patience: Duration.Duration
  /** How often open streams and downloads are checked for revocation. */
  readonly watch: Duration.Duration
}

const defaults: Adjustable = {
  requestsPerMinute: 120,
  refusedKeysPerMinute: 60,
  streamsPerKey: 100,
  downloadsPerKey: 8,
  streams: 10_000,
  heartbeat: Duration.seconds(15),
  patience: Duration.seconds(30),
  // Half of the second within which a revocation must show (decisions, section 5).
  watch: Duration.millis(500)
}

export class Settings extends Context.Service<Settings, Given & Adjustable>()("@slipway/http/Settings") {
  /** The defaults are those of decisions, sections 5 and 10. */
  static readonly layer = (given: Given & Partial<Adjustable>) => Layer.succeed(Settings, { ...defaults, ...given })
}
