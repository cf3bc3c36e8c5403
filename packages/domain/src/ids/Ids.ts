/** Port: identifiers and digests. A use case asks for ids once per command and passes them to the deciders. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** Any RFC 9562 UUID in lower case. */
export type Uuid = string

/** Namespace of every derived id. Never change it: every `turn_id` and `commandId` would change. */
export const NAMESPACE: Uuid = "9ca5d5ad-254d-48f1-8385-9aae8e1bda6d"

/** Port: new ids, and ids derived from names. Tests replace it by a deterministic one. */
export class Ids extends Context.Service<Ids, {
  /** `length` characters drawn uniformly from `alphabet` by a cryptographic generator. Not unique by itself. */
  random(alphabet: string, length: number): Effect.Effect<string>
  /** A new UUIDv7: unique, and ordered by the clock to the millisecond. */
  readonly uuid7: Effect.Effect<Uuid>
  /** A new ULID: 26 characters, ordered by the clock to the millisecond. */
  readonly ulid: Effect.Effect<string>
  /** UUIDv5 of `name` under {@link NAMESPACE}: the same name gives the same id on every machine. */
  derive(name: string): Uuid
  /** SHA-256 of the UTF-8 bytes of `text`, 64 lower-case hex digits. */
  digest(text: string): string
}>()("@slipway/domain/Ids") {
}
