/** `slipway members`: the members of an organization. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Member } from "@slipway/domain/access/rules/User"
import { Role } from "@slipway/domain/access/schema/User"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import * as Users from "./Users.ts"

const shown = (organizationId: string, { active, role, user }: Member) => ({ organizationId, role, active, user: Users.shown(user) })

export const organization = Flag.String("organization").pipe(
  Flag.withDescription("Organization id or name; default: the owner's"),
  Flag.optional
)

const list = Command.make("list", { organization, json }, ({ json, organization }) =>
  administration(Effect.gen(function*() {
    const { id } = yield* (yield* Members).organization(Option.getOrNull(organization))
    const members = yield* (yield* MemberStore).members(id)
    yield* print(
      json,
      members.map((member) => shown(id, member)),
      () =>
        members.length === 0 ? "No members. Add one with: slipway members add <user>" : columns([
          ["USER", "NAME", "ROLE", "STATE"],
          ...members.map(({ active, role, user }) => [user.id, user.name, role, active ? "active" : "removed"])
        ])
    )
  }))).pipe(
    Command.withDescription("List the members of an organization, with removed ones"),
    Command.withExamples([{ command: "slipway members list --organization acme", description: "Of another organization than the owner's" }])
  )

const add = Command.make("add", {
  user: Users.user,
  role: Flag.Literals("role", Role.literals).pipe(
    Flag.withDescription("An owner may give more scopes to keys than a member; a viewer changes nothing"),
    Flag.withDefault("member" as const)
  ),
  organization,
  json
}, ({ json, organization, role, user }) =>
  administration(Effect.gen(function*() {
    const members = yield* Members
    const { id, name } = yield* members.organization(Option.getOrNull(organization))
    const member = yield* members.add(id, user, role)
    yield* print(json, shown(id, member), () =>
      `${member.user.name} (${member.user.id}) is ${role} of ${name}.` +
      (member.user.approvedAt === null ? ` To let them have keys: slipway users approve ${member.user.id}` : ""))
  }))).pipe(
    Command.withDescription("Add a user to an organization; a new e-mail address or GitHub login makes a user"),
    Command.withExamples([{ command: "slipway members add ada-l --role owner", description: "By GitHub login" }])
  )

const remove = Command.make(
  "remove",
  { user: Users.user, organization, json },
  ({ json, organization, user }) =>
    administration(Effect.gen(function*() {
      const members = yield* Members
      const { id, name } = yield* members.organization(Option.getOrNull(organization))
      const member = yield* members.remove(id, user)
      yield* print(
        json,
        shown(id, member),
        () => `${member.user.name} is removed from ${name}: their keys fail from their next request on.`
      )
    }))
).pipe(
  Command.withDescription("Remove a member and refuse their keys in the organization"),
  Command.withExamples([{ command: "slipway members remove ada@example.com", description: "By e-mail address" }])
)

export const members = Command.make("members").pipe(
  Command.withDescription("Members of an organization: list, add, remove"),
  Command.withSubcommands([list, add, remove])
)
