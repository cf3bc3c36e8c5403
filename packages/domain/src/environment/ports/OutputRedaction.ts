/**
 * Port: removes secrets from the output of one sandbox's processes while they write, in every encoding that secrets travel in.
 */
import * as Context from "effect/Context"

/** One output stream, from its beginning. */
export interface RedactedOutput {
  /** The redacted text that is final by now. A possible beginning of a secret is held back. */
  push(bytes: Uint8Array): string
  /** The rest, redacted. Call it once, after the last `push`. */
  end(): string
}

/** Makes redactors for the secrets of one sandbox. */
export class OutputRedaction extends Context.Service<OutputRedaction, {
  /** A redactor for these values. Values shorter than `SHORTEST_REDACTED` characters are not redacted. */
  of(values: Iterable<string>): { stream(): RedactedOutput }
}>()("@slipway/domain/OutputRedaction") {
}
