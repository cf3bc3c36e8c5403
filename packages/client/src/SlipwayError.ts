/** Why a call failed. Aborting a call is no failure of it: that rejects with the reason of the `AbortSignal`, as `fetch` does. */
export class SlipwayError extends Error {
  override readonly name = "SlipwayError"
  /** Of the reply; 0 when there was none. */
  readonly status: number
  /**
   * For programs: the service's own, such as `turn_active` (docs/decisions/1); or of this client `unreachable`,
   * `timeout`, `empty_stream`, `redirected` and `invalid_reply`.
   */
  readonly code: string
  /** Names the reply in the service's logs. */
  readonly requestId: string | undefined
  /** Seconds after which another try may succeed, when the service said so. */
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

  /** Whether the same call may succeed later. */
  get isTemporary(): boolean {
    return ["unreachable", "timeout", "empty_stream"].includes(this.code) || this.status === 429 || this.status >= 500
  }
}
