/** Dependencies of the functions of this store. */
import type { Limits } from "@slipway/domain/models/rules/Budget"
import type { CreditPrice } from "@slipway/domain/models/rules/Credits"
import type { Context } from "effect"
import type { Clients } from "../sql/Clients.ts"

export interface Store extends Clients {
  /** Budgets of grants that have none of their own. */
  readonly configured: Limits
  /** `null`: credits are not enforced. */
  readonly price: Context.Service.Shape<typeof CreditPrice>
}
