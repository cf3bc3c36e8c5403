/** The owners of the organization that runs the service: they may change what serves all organizations. */
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Admitted } from "@slipway/domain/access/rules/Session"
import { Effect } from "effect"

export const isServiceOwner = ({ owner }: MemberStore["Service"], { visit: { place } }: { readonly visit: Admitted }) =>
  place.role === "owner" ? Effect.map(owner, ({ organizationId }) => organizationId === place.organizationId) : Effect.succeed(false)
