/** The rights of a user for whom the service works without a request: they are read anew each time. */
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { AccessStore } from "../ports/AccessStore.ts"
import type { MemberStore } from "../ports/MemberStore.ts"
import type { Principal } from "../schema/Principal.ts"

/** The user has no rights any more. `message`: a sentence for people. */
export interface NoRights {
  readonly code: "grant_revoked" | "organization_suspended" | "not_a_member" | "viewer"
  readonly message: string
}

/** The principal of the user now, or why there is none. `keyId`: the name of the work, in place of a key. `work`: its noun for people. */
export const presentRights = Effect.fn("Access.presentRights")(function*(
  { access, members }: { readonly access: AccessStore["Service"]; readonly members: MemberStore["Service"] },
  { grantId, keyId, test, userId, work }: {
    readonly grantId: string
    readonly keyId: string
    readonly test: boolean
    readonly userId: string
    readonly work: string
  }
): Effect.fn.Return<Principal | NoRights, StoreUnavailable> {
  const grant = (yield* access.listGrants).find(({ id }) => id === grantId)
  if (grant === undefined || grant.revokedAt !== null) {
    return { code: "grant_revoked", message: `The ${work}'s grant is revoked.` }
  }
  const { organizationId } = grant
  const organization = (yield* members.organizations).find(({ id }) => id === organizationId)
  if (organization === undefined || organization.suspendedAt !== null) {
    return { code: "organization_suspended", message: "The grant's organization is suspended." }
  }
  const member = (yield* members.members(organizationId)).find(({ user }) => user.id === userId)
  if (member?.active !== true) {
    return { code: "not_a_member", message: `The ${work}'s creator is no longer a member of the organization.` }
  }
  if (member.role === "viewer") {
    return { code: "viewer", message: `The ${work}'s creator is a viewer now, who changes nothing.` }
  }
  return {
    credential: { _tag: "Key", keyId },
    grantId,
    organizationId,
    userId,
    scopes: new Set(["sandboxes"]),
    test
  }
})
