/** The role of a user in an organization. */
import * as Schema from "effect/Schema"

/** An owner may give more scopes than a member (`Minting.ts`). A viewer sees what a member sees, and changes nothing. */
export const Role = Schema.Literals(["owner", "member", "viewer"])
export type Role = typeof Role.Type
