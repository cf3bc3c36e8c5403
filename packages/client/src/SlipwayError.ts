/** Why a call failed. Aborting a call rejects with the reason of the `AbortSignal` instead, as `fetch` does. */
export class SlipwayError extends Error {
  override readonly name = "SlipwayError"
  /** The status of the reply; 0: no reply. */
  readonly status: number
  /**
   * For programs: the service's code, such as `turn_active` (docs/decisions/1), or one of this client: `unreachable`, `timeout`,
   * `empty_stream`, `redirected`, `invalid_reply`.
   */
  readonly code: string
  /** Identifies the reply in the service's logs. */
  readonly requestId: string | undefined
  /** Seconds after which a retry may succeed, if the service sent them. */
  readonly retryAfter: number | undefined

  constructor(
    message: string,
    { cause, code, requestId, retryAfter, status }: {
      readonly status: number
      readonly code: string
      readonly requestId?: string | undefined
      readonly retryAfter?: number | undefined
      readonly cause?: unknown
    }
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.requestId = requestId
    this.retryAfter = retryAfter
  }

  /** Whether a retry of the same call may succeed. */
  get isTemporary(): boolean {
    return ["unreachable", "timeout", "empty_stream"].includes(this.code) || this.status === 429 || this.status >= 500
  }
}
