/** `slipway grants`: API access grants and what they may spend. */
import { AccessStore, type Grant, GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { isRetention, RETENTION_BOUNDS } from "@slipway/domain/access/rules/Retention"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { type GrantSpending, Spending } from "@slipway/domain/models/ports/Spending"
import type { GrantBudget } from "@slipway/domain/models/rules/Budget"
import { Usd } from "@slipway/domain/models/schema/Budget"
import { BranchRule, BranchRules, DEFAULT_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import { formatUsd } from "@slipway/domain/text/FormatUsd"
import { InvalidRequest, reader } from "@slipway/domain/text/InvalidRequest"
import { DateTime, Effect, Option, Schema, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { settings as lifetimes } from "../../settings/Lifetimes.ts"
import { settings } from "../../settings/Models.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { organization } from "./Members.ts"

const shown = (grant: Grant) => ({
  id: grant.id,
  name: grant.name,
  organizationId: grant.organizationId,
  createdAt: DateTime.formatIso(grant.createdAt),
  revokedAt: grant.revokedAt === null ? null : DateTime.formatIso(grant.revokedAt),
  retentionDays: grant.retentionDays
})

/** Money as strings: JSON numbers lose cents in some readers. */
const shownSpending = ({ budget, own, reserved, spent }: GrantSpending) => ({
  spentUsd: formatUsd(spent),
  reservedUsd: formatUsd(reserved),
  budgetUsd: budget === null ? null : formatUsd(budget),
  ownBudget: own
})

const spoken = ({ budget, own, spent }: GrantSpending) => {
  const limit = budget === null ? "no limit" : `of ${formatUsd(budget)}`
  return `${formatUsd(spent)} USD spent, ${limit}${own ? "" : " (as configured for every grant)"}`
}

const readRules = reader(BranchRules, "branch")

const create = Command.make("create", {
  name: Argument.String("name").pipe(Argument.withDescription("Name of the grant"), Argument.withSchema(Schema.NonEmptyString)),
  organization,
  json
}, ({ json, name, organization }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const members = yield* Members
    const organizationId = Option.isNone(organization) ? undefined : (yield* members.organization(organization.value)).id
    const { grant, made } = yield* access.createGrant(name, organizationId)
    yield* print(json, shown(grant), () =>
      made ? `Grant ${grant.name} is made: ${grant.id}` : `Grant ${grant.name} is there already: ${grant.id}`)
  }))).pipe(
    Command.withDescription("Make a grant, the owner of sandboxes and keys"),
    Command.withExamples([{ command: "slipway grants create ci", description: "In the owner's organization" }, {
      command: "slipway grants create acme-ci --organization acme",
      description: "In another one"
    }])
  )

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const store = yield* AccessStore
    const grants = yield* store.listGrants
    yield* print(json, grants.map(shown), () =>
      grants.length === 0 ? "No grants. Make one with: slipway grants create <name>" : columns([
        ["ID", "NAME", "ORGANIZATION", "CREATED", "STATE"],
        ...grants.map((
          grant
        ) => [grant.id, grant.name, grant.organizationId, shown(grant).createdAt, grant.revokedAt === null ? "active" : "revoked"])
      ]))
  }))).pipe(
    Command.withDescription("List grants, newest first"),
    Command.withExamples([{ command: "slipway grants list --json", description: "For a script" }])
  )

const revoke = Command.make("revoke", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Grant id or name")),
  json
}, ({ grant: idOrName, json }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const grant = yield* access.revokeGrant(idOrName)
    yield* print(json, shown(grant), () => `Grant ${grant.name} is revoked: its keys fail from their next request on, its sandboxes end.`)
  }))).pipe(
    Command.withDescription("Revoke a grant and its keys, and end its sandboxes"),
    Command.withExamples([{ command: "slipway grants revoke ci", description: "By name" }])
  )

const Budget: Schema.Codec<GrantBudget, string> = Schema.Union([
  Schema.Literal("default"),
  Schema.Literal("none").pipe(
    Schema.decodeTo(Schema.Null, SchemaTransformation.transform({ decode: () => null, encode: () => "none" as const }))
  ),
  Usd
])

const budget = Command.make("budget", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Grant id or name")),
  usd: Argument.String("usd").pipe(
    Argument.withDescription(`US dollars such as 12.50, none for no limit, or default for ${settings.grantBudget.name}`),
    Argument.withSchema(Budget),
    Argument.optional
  ),
  json
}, ({ grant: idOrName, json, usd }) =>
  administration(Effect.gen(function*() {
    const spending = yield* Spending
    const store = yield* AccessStore
    const grant = (yield* store.listGrants).find(({ id, name, revokedAt }) => id === idOrName || name === idOrName && revokedAt === null)
    if (grant === undefined) return yield* new GrantNotFound({ grant: idOrName })
    const standing = yield* usd._tag === "None" ? spending.of(grant.id) : spending.setBudget(grant.id, usd.value)
    yield* print(json, { ...shown(grant), ...shownSpending(standing) }, () => `Grant ${grant.name}: ${spoken(standing)}.`)
  }))).pipe(
    Command.withDescription("Show a grant's model costs, or set its lifetime budget"),
    Command.withExamples([
      { command: "slipway grants budget ci", description: "What it has spent" },
      { command: "slipway grants budget ci 50", description: "50 US dollars, and no more" }
    ])
  )

const Retention = Schema.Union([
  Schema.Literal("default"),
  Schema.String.check(Schema.isPattern(/^\d+$/u)).pipe(
    Schema.decodeTo(
      Schema.Int.check(Schema.makeFilter(isRetention, {
        expected: `${RETENTION_BOUNDS.least} to ${RETENTION_BOUNDS.most} days`
      })),
      SchemaTransformation.transform({ decode: Number, encode: String })
    )
  )
])

const retention = Command.make("retention", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Grant id or name")),
  days: Argument.String("days").pipe(
    Argument.withDescription(
      `Days, ${RETENTION_BOUNDS.least} to ${RETENTION_BOUNDS.most}, or default for ${lifetimes.retention.name}`
    ),
    Argument.withSchema(Retention)
  ),
  json
}, ({ days, grant: idOrName, json }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const grant = yield* access.setRetention(idOrName, days === "default" ? null : days)
    const time = grant.retentionDays === null ? `as ${lifetimes.retention.name} says` : `for ${grant.retentionDays} days`
    yield* print(json, shown(grant), () => `Grant ${grant.name} keeps events, setup output and checkpoints of ended sandboxes ${time}.`)
  }))).pipe(
    Command.withDescription("Set how long a grant's ended sandboxes keep events, setup output and checkpoints"),
    Command.withExamples([
      { command: "slipway grants retention ci 7", description: "A week" },
      { command: "slipway grants retention ci default", description: "As every other grant" }
    ])
  )

const branches = Command.make("branches", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Grant id or name")),
  rules: Argument.String("branch").pipe(
    Argument.withDescription("Branches or patterns such as 'feature/*', which replace the present ones"),
    Argument.withSchema(BranchRule),
    Argument.variadic()
  ),
  none: Flag.Boolean("none").pipe(Flag.withDescription("Its sandboxes may continue no branch"), Flag.withDefault(false)),
  default: Flag.Boolean("default").pipe(
    Flag.withDescription(`Only ${DEFAULT_BRANCH_RULES.join(", ")}, as without any rules`),
    Flag.withDefault(false)
  ),
  json
}, ({ default: isDefault, grant: idOrName, json, none, rules: given }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const { grant, rules: before } = yield* access.branchesOf(idOrName)
    const asked = none ? [] : isDefault ? DEFAULT_BRANCH_RULES : given.length === 0 ? before : given
    if ([none, isDefault, given.length > 0].filter(Boolean).length > 1) {
      return yield* new InvalidRequest({ field: "branch", reason: "Name branches, or --none, or --default: one of the three." })
    }
    const rules = yield* Effect.fromResult(readRules(asked))
    if (rules !== before) yield* access.setBranches(grant.id, rules)
    yield* print(json, { ...shown(grant), branches: rules }, () =>
      rules.length === 0
        ? `Sandboxes of grant ${grant.name} may continue no branch.`
        : `Sandboxes of grant ${grant.name} may continue: ${rules.join(", ")}. Never the default branch or a protected one.`)
  }))).pipe(
    Command.withDescription("Show the branches that a grant's sandboxes may continue and push to, or replace them"),
    Command.withExamples([
      { command: "slipway grants branches ci", description: "The present ones" },
      { command: "slipway grants branches ci 'slipway/*' 'feature/*'", description: "Those of sandboxes, and features" }
    ])
  )

export const grants = Command.make("grants").pipe(
  Command.withDescription("API access grants: create, list, set a budget or a retention, branches, revoke"),
  Command.withSubcommands([create, list, budget, retention, branches, revoke])
)
