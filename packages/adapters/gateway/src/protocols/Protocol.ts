/** What the gateway must know of a model API: its routes, what it lets through, and where the usage stands. */
import type { Tokens } from "@slipway/domain/models/rules/Budget"
import type { Upstream, UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { chat } from "./ChatProtocol.ts"
import { messages } from "./MessagesProtocol.ts"
import { responses } from "./ResponsesProtocol.ts"

export type Json = Readonly<Record<string, unknown>>

/** What is known of an answer's tokens. `final`: nothing will be added. */
export interface Counted {
  readonly tokens: Tokens
  readonly final: boolean
}

/** A request as it may go out. */
interface Outward {
  readonly body: Json
  /** Tokens its answer can have at most, whoever reads `body`. */
  readonly outputTokens: number
}

export interface Protocol {
  /** Path at the gateway that costs money; the upstream's is the same without `/v1`. */
  readonly route: string
  /** Paths that cost nothing. */
  readonly free: ReadonlyArray<string>
  /** Request headers an agent may set beside those of any JSON request, in lower case. */
  readonly headers: ReadonlyArray<string>
  /** What of such a header goes on. */
  header(value: string, upstream: Upstream): string
  credentials(key: string): Readonly<Record<string, string>>
  /**
   * The operator's model, one answer of limited length, reported usage, and of all else only fields that are known to cost
   * nothing beyond tokens at the catalogue's prices.
   */
  prepare(body: Json, upstream: Upstream): Outward
  /** The fields that a request to a free path has. */
  readonly freeFields: ReadonlySet<string>
  /** `counted` with what one event of a stream, or a whole answer, says. */
  count(counted: Counted, event: Json): Counted
  error(error: { readonly status: number; readonly code: string; readonly message: string }): Json
}

export const protocols: Readonly<Record<UpstreamProtocol, Protocol>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages
}
