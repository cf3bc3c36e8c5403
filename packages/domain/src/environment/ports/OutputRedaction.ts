/** Port: takes secrets out of what the processes of one sandbox write, while they write it, in every form that they travel in. */
import * as Context from "effect/Context"

/** One output, from its beginning on. */
export interface RedactedOutput {
  /** What can be shown by now. What may be the beginning of a secret waits. */
  push(bytes: Uint8Array): string
  /** What waited. Nothing comes after it. */
  end(): string
}

export class OutputRedaction extends Context.Service<OutputRedaction, {
  /** For outputs that may hold these values. One of less than `SHORTEST_REDACTED` characters is shown. */
  of(values: Iterable<string>): { stream(): RedactedOutput }
}>()("@slipway/domain/OutputRedaction") {
}
