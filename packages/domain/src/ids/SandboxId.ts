/** Names of sandboxes and of what belongs to them. */
import * as Schema from "effect/Schema"

/** `c_` and 12 of `[a-z2-9]`, drawn at random: 34^12 values, so a collision is retried, never expected. */
export const SandboxId = Schema.String.check(
  Schema.isPattern(/^c_[a-z2-9]{12}$/u, { expected: "a sandbox id (c_ and 12 of a-z, 2-9)" })
).pipe(Schema.brand("SandboxId"))
export type SandboxId = typeof SandboxId.Type

/** Alphabet of the part after `c_`. */
export const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz23456789"

/** The working trees of a sandbox carry the same twelve characters: `w_…`. */
export const worktreeId = (id: SandboxId): string => `w_${id.slice(2)}`
