/** `slipway partners`: the facts of sign-up and billing, reported by hand, and the feeds of partners. */
import { AccessStore, GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { Claim, Recorded } from "@slipway/domain/partner/rules/Attribution"
import { Claimant, ClaimTerms, Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import { formatUsd } from "@slipway/domain/text/FormatUsd"
import { DateTime, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

/** The grant with that id, or the unrevoked grant of that name. */
export const grantOf = Effect.fnUntraced(function*(idOrName: string) {
  const store = yield* AccessStore
  const grant = (yield* store.listGrants).find(({ id, name, revokedAt }) => id === idOrName || name === idOrName && revokedAt === null)
  return grant ?? (yield* new GrantNotFound({ grant: idOrName }))
})

const shown = ({ claimed, createdAt, terms }: Claim) => ({
  ...terms,
  status: claimed === null ? "pending" : "claimed",
  createdAt: DateTime.formatIso(createdAt),
  claimedAt: claimed === null ? null : DateTime.formatIso(claimed.at),
  recipientId: claimed?.recipientId ?? null,
  organizationId: claimed?.organizationId ?? null
})

/** The sentence about a recorded fact, which says if it was known before. */
const spoken = (recorded: Recorded, said: string) => recorded === "new" ? `${said}.` : `${said}, as was known already.`

const recipient = Flag.String("recipient").pipe(
  Flag.withDescription("Id of the user"),
  Flag.withSchema(Claimant.fields.recipientId)
)
const organization = Flag.String("organization").pipe(
  Flag.withDescription("Id of the organization, a UUID"),
  Flag.withSchema(Claimant.fields.organizationId)
)
const whole = <S extends Schema.Codec<number, number>>(number: S) => Schema.NumberFromString.pipe(Schema.decodeTo(number))

const createClaim = Command.make("create", {
  grant: Flag.String("grant").pipe(Flag.withDescription("Id or name of the partner's grant")),
  lead: Flag.String("lead").pipe(Flag.withDescription("The partner's name for the customer"), Flag.withSchema(ClaimTerms.fields.leadId)),
  variant: Flag.String("variant").pipe(
    Flag.withDescription("The partner's name for the offer"),
    Flag.withSchema(ClaimTerms.fields.variant)
  ),
  credits: Flag.String("credits").pipe(Flag.withDescription("Credits, at least 1"), Flag.withSchema(whole(ClaimTerms.fields.creditAmount))),
  id: Flag.String("id").pipe(
    Flag.withDescription("Claim id (UUID); makes the command safe to repeat"),
    Flag.withSchema(ClaimTerms.fields.claimId),
    Flag.optional
  ),
  json
}, ({ credits: creditAmount, grant: idOrName, id, json, lead: leadId, variant }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const ids = yield* Ids
    const grant = yield* grantOf(idOrName)
    const claimId = Option.isSome(id) ? id.value : yield* ids.uuid7
    const { claim, recorded } = yield* store.createClaim({ claimId, grantId: grant.id, leadId, variant, creditAmount })
    yield* print(json, shown(claim), () => spoken(recorded, `Claim ${claimId} of grant ${grant.name} is made: ${creditAmount} credits`))
  }))).pipe(
    Command.withDescription("Reserve a claim of credits"),
    Command.withExamples([{
      command: "slipway partners claims create --grant acme --lead lead-1 --variant b --credits 500",
      description: "500 credits for the first recipient who claims them"
    }])
  )

const claimClaim = Command.make("claim", {
  id: Argument.String("id").pipe(Argument.withDescription("Id of the claim"), Argument.withSchema(ClaimTerms.fields.claimId)),
  recipient,
  organization,
  json
}, ({ id, json, organization: organizationId, recipient: recipientId }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const { claim, recorded } = yield* store.claim(id, { recipientId, organizationId })
    yield* print(json, shown(claim), () =>
      spoken(recorded, `Claim ${id} is claimed: organization ${organizationId} has ${claim.terms.creditAmount} more credits`))
  }))).pipe(
    Command.withDescription("Claim credits for a user in an organization: adds the credits, once"),
    Command.withExamples([{
      command: "slipway partners claims claim <claim> --recipient <user> --organization <organization>",
      description: "Later work of a user there counts for the user's first claim"
    }])
  )

const listClaims = Command.make("list", {
  grant: Flag.String("grant").pipe(Flag.withDescription("Only claims of the grant with this id or name"), Flag.optional),
  json
}, ({ grant, json }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const claims = yield* store.claims(Option.isSome(grant) ? (yield* grantOf(grant.value)).id : null)
    yield* print(json, claims.map(shown), () =>
      claims.length === 0 ? "No claims. Make one with: slipway partners claims create" : columns([
        ["ID", "CREDITS", "CREATED", "CLAIMED", "LEAD", "VARIANT"],
        ...claims.map(shown).map((
          { claimId, claimedAt, createdAt, creditAmount, leadId, variant }
        ) => [claimId, `${creditAmount}`, createdAt, claimedAt ?? "no", leadId, variant])
      ]))
  }))).pipe(
    Command.withDescription("List claims, newest first"),
    Command.withExamples([{
      command: "slipway partners claims list --grant acme --json",
      description: "The claims of one partner, for a script"
    }])
  )

const connect = Command.make("connect", {
  id: Argument.String("id").pipe(
    Argument.withDescription("Id of the project in your system"),
    Argument.withSchema(Project.fields.projectId)
  ),
  recipient,
  organization,
  repo: Flag.String("repo").pipe(Flag.withDescription("owner/name"), Flag.withSchema(Project.fields.repo)),
  at: Flag.String("at").pipe(
    Flag.withDescription("Time of the connection, such as 2026-11-21T02:41:00.123Z; default: now"),
    Flag.withSchema(Project.fields.connectedAt),
    Flag.optional
  ),
  json
}, ({ at, id: projectId, json, organization: organizationId, recipient: recipientId, repo }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const connectedAt = Option.isSome(at) ? at.value : yield* DateTime.now
    const project: Project = { projectId, recipientId, organizationId, repo, connectedAt }
    const recorded = yield* store.connectProject(project)
    yield* print(json, { ...project, connectedAt: DateTime.formatIso(connectedAt) }, () =>
      spoken(recorded, `Project ${projectId} is connected to ${repo}`))
  }))).pipe(
    Command.withDescription("Record that a user connected a repository to an organization"),
    Command.withExamples([{
      command: "slipway partners projects connect shop --recipient <user> --organization <organization> --repo acme/shop",
      description: "Just now"
    }])
  )

const paid = Command.make(
  "paid",
  {
    id: Argument.String("id").pipe(
      Argument.withDescription("Id of the invoice in your system"),
      Argument.withSchema(Invoice.fields.invoiceId)
    ),
    organization,
    kind: Flag.Literals("kind", Invoice.fields.kind.literals).pipe(
      Flag.withDescription("What was paid for"),
      Flag.withDefault("subscription_initial" as const)
    ),
    amount: Flag.String("amount-minor").pipe(
      Flag.withDescription("Amount in the currency's smallest unit"),
      Flag.withSchema(whole(Invoice.fields.amountMinor))
    ),
    currency: Flag.String("currency").pipe(Flag.withDescription("ISO 4217, such as EUR"), Flag.withSchema(Invoice.fields.currency)),
    at: Flag.String("at").pipe(
      Flag.withDescription("Time of the payment, such as 2026-11-21T02:41:00.123Z; default: now"),
      Flag.withSchema(Invoice.fields.paidAt),
      Flag.optional
    ),
    json
  },
  ({ amount: amountMinor, at, currency, id: invoiceId, json, kind, organization: organizationId }) =>
    administration(Effect.gen(function*() {
      const store = yield* PartnerStore
      const paidAt = Option.isSome(at) ? at.value : yield* DateTime.now
      const invoice: Invoice = { invoiceId, organizationId, kind, amountMinor, currency, paidAt }
      const recorded = yield* store.payInvoice(invoice)
      yield* print(json, { ...invoice, paidAt: DateTime.formatIso(paidAt) }, () => spoken(recorded, `Invoice ${invoiceId} is paid`))
    }))
).pipe(
  Command.withDescription("Record a paid invoice; an organization's first is its conversion"),
  Command.withExamples([{
    command: "slipway partners invoices paid in_1 --organization <organization> --amount-minor 1900 --currency EUR",
    description: "19 euros for a subscription that begins"
  }])
)

const encodeEvent = Schema.encodeSync(PartnerEvent)

const events = Command.make("events", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Grant id or name")),
  after: Flag.Int("after").pipe(Flag.withDescription("Only events with a greater sequence"), Flag.withDefault(0)),
  limit: Flag.Int("limit").pipe(Flag.withDescription("Most events to show"), Flag.withDefault(100)),
  json
}, ({ after, grant: idOrName, json, limit }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const grant = yield* grantOf(idOrName)
    const found = yield* store.feed(grant.id, Math.max(0, after), Math.max(1, limit))
    yield* print(
      json,
      found.map((event) => encodeEvent(event)),
      () =>
        found.length === 0 ? `No events of grant ${grant.name} after ${after}.` : columns([
          ["SEQUENCE", "RECORDED", "TYPE", "CLAIM"],
          ...found.map(({ createdAt, data, sequence, type }) => [`${sequence}`, DateTime.formatIso(createdAt), type, data.claimId])
        ])
    )
  }))).pipe(
    Command.withDescription("Show the feed of a grant, as its partner reads it"),
    Command.withExamples([{ command: "slipway partners events acme --after 40 --json", description: "The events after event 40" }])
  )

const balance = Command.make("balance", {
  organization: Argument.String("organization").pipe(
    Argument.withDescription("Id of the organization"),
    Argument.withSchema(Claimant.fields.organizationId)
  ),
  json
}, ({ json, organization: organizationId }) =>
  administration(Effect.gen(function*() {
    const store = yield* PartnerStore
    const { balance, charges, movements } = yield* store.credits(organizationId)
    const dated = <A extends { readonly at: DateTime.Utc }>({ at, ...row }: A) => ({ ...row, at: DateTime.formatIso(at) })
    const rows = [
      ...movements.map(dated).map(({ at, claimId, credits }) => [at, `+${credits}`, `claim ${claimId}`]),
      // Millionths of a credit have the format of millionths of a dollar.
      ...charges.map(dated).map(({ at, micros, sandboxId }) => [at, `-${formatUsd(micros)}`, `sandbox ${sandboxId}`])
    ].sort(([a = ""], [b = ""]) => a < b ? 1 : a > b ? -1 : 0)
    yield* print(json, { organizationId, balance, movements: movements.map(dated), charges: charges.map(dated) }, () =>
      rows.length === 0 ? "No credits." : `${balance} credits\n\n${columns([["AT", "CREDITS", "OF"], ...rows])}`)
  }))).pipe(
    Command.withDescription("Show the credits of an organization, their sources and uses"),
    Command.withExamples([{
      command: "slipway partners balance <organization>",
      description: "Newest movement first; a sandbox is dated by its last"
    }])
  )

export const partners = Command.make("partners").pipe(
  Command.withDescription("Partners: claims of credits, projects, paid invoices, feeds"),
  Command.withSubcommands([
    Command.make("claims").pipe(
      Command.withDescription("Offers of credits"),
      Command.withSubcommands([createClaim, claimClaim, listClaims])
    ),
    Command.make("projects").pipe(Command.withDescription("Connected repositories"), Command.withSubcommands([connect])),
    Command.make("invoices").pipe(Command.withDescription("Payments"), Command.withSubcommands([paid])),
    events,
    balance
  ])
)
