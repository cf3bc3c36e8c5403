/** Ids of sandboxes, and ids derived from them. */
import * as Schema from "effect/Schema"

/** `c_` and 12 random characters of `[a-z2-9]`: 34^12 values. A collision is improbable and leads to a retry. */
export const SandboxId = Schema.String.check(
  Schema.isPattern(/^c_[a-z2-9]{12}$/u, { expected: "a sandbox id (c_ and 12 of a-z, 2-9)" })
).pipe(Schema.brand("SandboxId"))
export type SandboxId = typeof SandboxId.Type

/** Alphabet of the part after `c_`. */
export const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz23456789"

/** The id of a sandbox's working trees: `w_` and the same twelve characters. */
export const worktreeId = (id: SandboxId): string => `w_${id.slice(2)}`
