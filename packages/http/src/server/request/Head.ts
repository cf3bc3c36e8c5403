import type { Headers } from "effect/http"

/** The head of a request: its target with a query, and its headers by lower-case names. */
export interface Head {
  readonly method: string
  readonly url: string
  readonly headers: Headers.Headers
  readonly cookies: Readonly<Record<string, string>>
}
