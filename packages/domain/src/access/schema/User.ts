/** The role of a user in an organization. */
import * as Schema from "effect/Schema"

/** An owner may give more scopes than a member (`Minting.ts`). */
export const Role = Schema.Literals(["owner", "member"])
export type Role = typeof Role.Type
