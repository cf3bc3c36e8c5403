/** What the gateway must know of a model API: its routes, what it must not let through, and where the usage stands. */
import type { Upstream, UpstreamProtocol } from "@slipway/domain/sandbox/ModelCatalogue"
import type { Tokens } from "@slipway/domain/sandbox/Budget"
import { chat } from "./ChatProtocol.ts"
import { messages } from "./MessagesProtocol.ts"
import { responses } from "./ResponsesProtocol.ts"

export type Json = Readonly<Record<string, unknown>>

/** What is known of an answer's tokens. `final`: nothing will be added. */
export interface Counted {
  readonly tokens: Tokens
  readonly final: boolean
}

export interface Protocol {
  /** Path at the gateway that costs money; the upstream's is the same without `/v1`. */
  readonly route: string
  /** Paths that cost nothing. */
  readonly free: ReadonlyArray<string>
  /** Request headers an agent may set beside those of any JSON request, in lower case. */
  readonly headers: ReadonlyArray<string>
  credentials(key: string): Readonly<Record<string, string>>
  /** The request as it may go out: the operator's model, one answer, reported usage, nothing the provider would do beside. */
  prepare(body: Json, upstream: Upstream): Json
  /** Tokens the answer may take at most; `undefined`: the request does not say. */
  outputLimit(body: Json): number | undefined
  /** `counted` with what one event of a stream, or a whole answer, says. */
  count(counted: Counted, event: Json): Counted
  error(error: { readonly status: number; readonly code: string; readonly message: string }): Json
}

export const protocols: Readonly<Record<UpstreamProtocol, Protocol>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages
}
