/** `slipway orgs`: organizations, and whether they are suspended. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Organization } from "@slipway/domain/access/rules/User"
import { Members } from "@slipway/domain/access/usecases/Members"
import { DateTime, Effect, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

const shown = (organization: Organization) => ({
  id: organization.id,
  name: organization.name,
  createdAt: DateTime.formatIso(organization.createdAt),
  suspendedAt: organization.suspendedAt === null ? null : DateTime.formatIso(organization.suspendedAt)
})

const organization = Argument.String("organization").pipe(Argument.withDescription("Organization id or name"))

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const store = yield* MemberStore
    const organizations = yield* store.organizations
    yield* print(json, organizations.map(shown), () =>
      organizations.length === 0 ? "No organizations. The first start of the service makes one." : columns([
        ["ID", "NAME", "CREATED", "STATE"],
        ...organizations.map((organization) => [
          organization.id,
          organization.name,
          shown(organization).createdAt,
          organization.suspendedAt === null ? "active" : "suspended"
        ])
      ]))
  }))).pipe(
    Command.withDescription("List organizations, oldest first"),
    Command.withExamples([{ command: "slipway orgs list", description: "And which are suspended" }])
  )

const create = Command.make("create", {
  name: Argument.String("name").pipe(Argument.withDescription("Name of the organization"), Argument.withSchema(Schema.NonEmptyString)),
  json
}, ({ json, name }) =>
  administration(Effect.gen(function*() {
    const { made, organization } = yield* (yield* Members).createOrganization(name)
    yield* print(json, shown(organization), () =>
      made
        ? `Organization ${organization.name} is made: ${organization.id}\n` +
          `Next: slipway members add <user> --organization ${organization.name}, ` +
          `slipway grants create <name> --organization ${organization.name}`
        : `Organization ${organization.name} is there already: ${organization.id}`)
  }))).pipe(
    Command.withDescription("Make an organization: its members share its grants"),
    Command.withExamples([{ command: "slipway orgs create acme", description: "Without members at first" }])
  )

const suspend = Command.make("suspend", { organization, json }, ({ json, organization }) =>
  administration(Effect.gen(function*() {
    const members = yield* Members
    const suspended = yield* members.suspend(organization)
    yield* print(json, shown(suspended), () =>
      `${suspended.name} is suspended: its keys fail from their next request on. Its sandboxes go on.`)
  }))).pipe(
    Command.withDescription("Refuse an organization's keys until it is resumed"),
    Command.withExamples([{ command: "slipway orgs suspend default", description: "By name" }])
  )

const resume = Command.make("resume", { organization, json }, ({ json, organization }) =>
  administration(Effect.gen(function*() {
    const members = yield* Members
    const resumed = yield* members.resume(organization)
    yield* print(json, shown(resumed), () => `${resumed.name} is active: its keys work again.`)
  }))).pipe(
    Command.withDescription("Accept the keys of a suspended organization again"),
    Command.withExamples([{ command: "slipway orgs resume default", description: "By name" }])
  )

export const orgs = Command.make("orgs").pipe(
  Command.withDescription("Organizations: create, list, suspend, resume"),
  Command.withSubcommands([create, list, suspend, resume])
)
