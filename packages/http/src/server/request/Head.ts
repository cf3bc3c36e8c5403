import { ulidUnsafe } from "effect/crypto/SecureRandom"
import type { Headers } from "effect/http"

/** The head of a request: its target with a query, and its headers by lower-case names. */
export interface Head {
  readonly method: string
  readonly url: string
  readonly headers: Headers.Headers
  readonly cookies: Readonly<Record<string, string>>
}

/** Without a fiber: a flood of refusals has to cost little. Ids of one process are ordered. */
export const newRequestId = (): string => `req_${ulidUnsafe()}`
