/** `slipway grants`: API access grants. */
import { DateTime, Effect, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { Access } from "@slipway/domain/access/Access"
import { AccessStore, type Grant } from "@slipway/domain/access/AccessStore"
import { administration, json } from "./Administration.ts"
import { columns, print } from "./Output.ts"

const shown = (grant: Grant) => ({
  id: grant.id,
  name: grant.name,
  organizationId: grant.organizationId,
  createdAt: DateTime.formatIso(grant.createdAt),
  revokedAt: grant.revokedAt === null ? null : DateTime.formatIso(grant.revokedAt)
})

const create = Command.make("create", {
  name: Argument.String("name").pipe(Argument.withDescription("Name of the grant"), Argument.withSchema(Schema.NonEmptyString)),
  json
}, ({ json, name }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const { grant, made } = yield* access.createGrant(name)
    yield* print(json, shown(grant), () => made ? `Grant ${grant.name} is made: ${grant.id}` : `Grant ${grant.name} is there already: ${grant.id}`)
  }))).pipe(Command.withDescription("Make a grant: it owns the sandboxes and keys made under it"))

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const store = yield* AccessStore
    const grants = yield* store.listGrants
    yield* print(json, grants.map(shown), () =>
      grants.length === 0 ? "No grants. Make one with: slipway grants create <name>" : columns([
        ["ID", "NAME", "CREATED", "STATE"],
        ...grants.map((grant) => [grant.id, grant.name, shown(grant).createdAt, grant.revokedAt === null ? "active" : "revoked"])
      ]))
  }))).pipe(Command.withDescription("List grants, newest first"))

const revoke = Command.make("revoke", {
  grant: Argument.String("grant").pipe(Argument.withDescription("Id or name of the grant")),
  json
}, ({ grant: idOrName, json }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const grant = yield* access.revokeGrant(idOrName)
    yield* print(json, shown(grant), () => `Grant ${grant.name} is revoked: its keys fail from their next request on, its sandboxes end.`)
  }))).pipe(Command.withDescription("Revoke a grant with all its keys, and end its sandboxes"))

export const grants = Command.make("grants").pipe(
  Command.withDescription("API access grants: create, list, revoke"),
  Command.withSubcommands([create, list, revoke])
)
