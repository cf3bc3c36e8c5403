/** The sandboxes that wait for a person, as a hidden piece of every live page: its script counts them and announces new ones. */
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect } from "effect"
import { html } from "../html/Html.ts"

/** Announcements of more sandboxes help no reader. */
const MAX_WAITING = 20
/** Requests of one sandbox that are listed, oldest first. */
const MAX_ASKS = 20

export const make = Effect.map(SandboxDashboard, (dashboard) => (grantId: string) =>
  Effect.map(
    dashboard.list(grantId, { after: null, limit: MAX_WAITING, attention: "asking", repo: null, search: "" }),
    (found) => {
      const list = JSON.stringify(found.map(({ approvals, id, title, turn }) => ({
        id,
        title: visible(title),
        asks: [...approvals.map(({ approval_id }) => approval_id), ...questionsOf({ turn }).map(({ question_id }) => question_id)].slice(
          0,
          MAX_ASKS
        )
      })))
      return html`<div id="waiting" data-piece="waiting" hidden data-list="${list}"></div>`
    }
  ))
