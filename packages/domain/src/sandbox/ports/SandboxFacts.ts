/**
 * Facts about a write of a sandbox that its store does not keep itself, such as those that partners get. The caller provides them around
 * the write. A store with partner features (`PartnerStore`) records them in the transaction of the write; any other store ignores them.
 * Checked by `PartnerStoreContract`.
 */
import * as Context from "effect/Context"
import type { Pull } from "../../source/schema/PullRequest.ts"

/** The organization of the grant that a sandbox is created for. Partners get the start of the task if its creator has a touch there. */
export const TaskOrganization = Context.Reference<string | null>("@slipway/domain/TaskOrganization", { defaultValue: () => null })

/**
 * The pull request that a change reports. Partners get it with the events of the change, once, if the sandbox started under a touch. A
 * change without events tells nothing.
 */
export const OpenedPull = Context.Reference<Pull | null>("@slipway/domain/OpenedPull", { defaultValue: () => null })
