/** What a user is in an organization. */
import * as Schema from "effect/Schema"

/** An owner gives more scopes than a member (`Minting.ts`). */
export const Role = Schema.Literals(["owner", "member"])
export type Role = typeof Role.Type
