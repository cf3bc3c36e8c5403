/** Names of sandboxes and of what belongs to them. */
import * as Schema from "effect/Schema"
import type { Ids, Uuid } from "./Ids.ts"

/** `c_` and 12 of `[a-z2-9]`, drawn at random: 34^12 values, so a collision is retried, never expected. */
export const SandboxId = Schema.String.check(
  Schema.isPattern(/^c_[a-z2-9]{12}$/u, { expected: "a sandbox id (c_ and 12 of a-z, 2-9)" })
).pipe(Schema.brand("SandboxId"))
export type SandboxId = typeof SandboxId.Type

/** Alphabet of the part after `c_`. */
export const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz23456789"

/** The working trees of a sandbox carry the same twelve characters: `w_…`. */
export const worktreeId = (id: SandboxId): string => `w_${id.slice(2)}`

/** Id of the sandbox's `n`th turn, counted from 1. Known before the turn exists, so a retried start names the same turn. */
export const turnId = (ids: Pick<Ids["Service"], "derive">, id: SandboxId, n: number): Uuid => ids.derive(`${id}/turn/${n}`)
