/** Labels for the states and errors of a webhook endpoint. */
import {
  ATTEMPT_TIME,
  type DisabledReason,
  type Endpoint,
  feedTypes,
  isDelivered,
  type Outcome,
  type Trouble,
  type WantedTypes
} from "@slipway/domain/partner/rules/Webhook"
import { Duration } from "effect"
import { html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"

const reasons: Record<DisabledReason, string> = {
  gone: "The endpoint returned 410 Gone.",
  retries_exhausted: "Every attempt at the next event failed, for three days.",
  not_accepting: "It accepted nothing for a day."
}

const troubles: Record<Trouble, string> = {
  timeout: `no response within ${Duration.toSeconds(ATTEMPT_TIME)} s`,
  name_not_resolved: "its host name has no address",
  address_not_allowed: "its host name has a private address",
  tls: "TLS error",
  connection: "no connection, or no HTTP",
  event_unreadable: "the service cannot read the event: a newer version recorded it, or it is damaged",
  secret_unreadable: "the service cannot open the endpoint's secret: rotate it"
}

export const typesOf = (types: WantedTypes | null): Html =>
  types === null ? html`all of the feed` : html`${types.map((type, i) => html`${i > 0 && ", "}<code>${type}</code>`)}`

/** How it stands: whether events go there, and what is in their way. */
export const standingOf = ({ disabled, dueAt, failures, refusingSince }: Endpoint): Html => {
  if (disabled !== null) return html`<span class="state bad">disabled</span> since ${moment(disabled.at)}. ${reasons[disabled.reason]}`
  if (failures === 0 && refusingSince !== null) {
    return html`<span class="state wait">retrying</span> accepts nothing since ${moment(refusingSince)}`
  }
  if (failures === 0) return html`<span class="state good">enabled</span>`
  const failed = failures === 1 ? "1 failed attempt" : `${failures} failed attempts`
  return html`<span class="state wait">retrying</span> ${failed} at the next event; next attempt ${moment(dueAt)}`
}

/** How far it is in the feed: the next event comes after that one. */
export const reachedOf = ({ cursor, types }: Endpoint): string =>
  feedTypes(types)?.length === 0 ? "not of the feed" : cursor === 0 ? "start" : `event ${cursor}`

export const outcomeOf = (outcome: Outcome): Html => {
  if (outcome._tag === "Failed") return html`<span class="state bad">failed</span> ${troubles[outcome.trouble]}`
  const { status } = outcome
  if (isDelivered(outcome)) return html`<span class="state good">delivered</span> answered ${status}`
  const redirects = status >= 300 && status < 400 && ", and redirects are not followed"
  return html`<span class="state bad">failed</span> answered ${status}${redirects}`
}
