/** `slipway users`: people, and whether they may mint keys. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { User } from "@slipway/domain/access/rules/User"
import { Members } from "@slipway/domain/access/usecases/Members"
import { DateTime, Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

export const shown = (user: User) => ({
  id: user.id,
  name: user.name,
  email: user.email,
  githubLogin: user.githubLogin,
  createdAt: DateTime.formatIso(user.createdAt),
  approvedAt: user.approvedAt === null ? null : DateTime.formatIso(user.approvedAt)
})

export const user = Argument.String("user").pipe(Argument.withDescription("Id, e-mail address or GitHub login"))

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const store = yield* MemberStore
    const users = yield* store.users
    yield* print(json, users.map(shown), () =>
      users.length === 0 ? "No users. Add one with: slipway members add <user>" : columns([
        ["ID", "NAME", "E-MAIL", "GITHUB", "CREATED", "STATE"],
        ...users.map((user) => [
          user.id,
          user.name,
          user.email ?? "-",
          user.githubLogin ?? "-",
          shown(user).createdAt,
          user.approvedAt === null ? "not approved" : "approved"
        ])
      ]))
  }))).pipe(
    Command.withDescription("List users, oldest first"),
    Command.withExamples([{ command: "slipway users list", description: "Also people who wait for an approval" }])
  )

const approve = Command.make("approve", { user, json }, ({ json, user }) =>
  administration(Effect.gen(function*() {
    const members = yield* Members
    const approved = yield* members.approve(user)
    yield* print(json, shown(approved), () => `${approved.name} is approved: keys can be minted for ${approved.id}.`)
  }))).pipe(
    Command.withDescription("Let a user have keys minted"),
    Command.withExamples([{ command: "slipway users approve ada@example.com", description: "By e-mail address" }])
  )

const disapprove = Command.make("disapprove", { user, json }, ({ json, user }) =>
  administration(Effect.gen(function*() {
    const members = yield* Members
    const disapproved = yield* members.disapprove(user)
    yield* print(json, shown(disapproved), () =>
      `${disapproved.name} gets no more keys. Those that exist stay good: slipway members remove, or slipway keys revoke, ends them.`)
  }))).pipe(
    Command.withDescription("Stop minting keys for a user; existing keys stay valid"),
    Command.withExamples([{ command: "slipway users disapprove ada-l", description: "By GitHub login" }])
  )

export const users = Command.make("users").pipe(
  Command.withDescription("Users: list, approve, disapprove"),
  Command.withSubcommands([list, approve, disapprove])
)
