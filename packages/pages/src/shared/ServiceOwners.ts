/** The owners of the organization that runs the service: they may change what serves all organizations. */
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Effect } from "effect"
import type * as Page from "../layout/Page.ts"

export const isServiceOwner = ({ owner }: MemberStore["Service"], { visit: { place } }: Page.Member) =>
  place.role === "owner" ? Effect.map(owner, ({ organizationId }) => organizationId === place.organizationId) : Effect.succeed(false)
