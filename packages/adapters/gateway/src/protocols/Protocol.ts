/** A model API as the gateway needs it: its routes, its allowed fields, and its usage reports. */
import type { Tokens } from "@slipway/domain/models/rules/Budget"
import type { Upstream, UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { chat } from "./ChatProtocol.ts"
import { messages } from "./MessagesProtocol.ts"
import { responses } from "./ResponsesProtocol.ts"

export type Json = Readonly<Record<string, unknown>>

/** The known tokens of an answer. `final`: they are complete. */
export interface Counted {
  readonly tokens: Tokens
  readonly final: boolean
}

/** A request in the form for the provider. */
interface Outward {
  readonly body: Json
  /** The most tokens of its answer, for any provider that reads `body`. */
  readonly outputTokens: number
}

export interface Protocol {
  /** The gateway's path that costs money. The provider's path is the same without `/v1`. */
  readonly route: string
  /** Paths without cost. */
  readonly free: ReadonlyArray<string>
  /** Request headers in lower case that an agent may set, besides those of any JSON request. */
  readonly headers: ReadonlyArray<string>
  /** The value of such a header for the provider. */
  header(value: string, upstream: Upstream): string
  credentials(key: string): Readonly<Record<string, string>>
  /**
   * Sets the operator's model, one answer of limited length, and usage reports. Keeps only fields that cost nothing beyond tokens at
   * the catalogue's prices.
   */
  prepare(body: Json, upstream: Upstream): Outward
  /** The fields of a request to a free path. */
  readonly freeFields: ReadonlySet<string>
  /** Adds one event of a stream, or a whole answer, to `counted`. */
  count(counted: Counted, event: Json): Counted
  error(error: { readonly status: number; readonly code: string; readonly message: string }): Json
}

export const protocols: Readonly<Record<UpstreamProtocol, Protocol>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages
}
