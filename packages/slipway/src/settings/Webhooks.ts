/** The allowed receivers of webhooks. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  webhookPrivate: Setting.withDefault({
    name: "SLIPWAY_WEBHOOK_PRIVATE",
    type: Type.flag,
    default: "false",
    about: "Whether webhooks may also go to http and to private addresses. Grants that may register them then reach this network.",
    role: "all"
  })
}

export const load = Setting.values(settings)
