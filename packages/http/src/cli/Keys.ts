/** `slipway keys`: API keys. */
import { DateTime, Effect, Option, Redacted, Schema, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Access } from "@slipway/domain/access/Access"
import { AccessStore, type KeyRecord } from "@slipway/domain/access/AccessStore"
import { Scope } from "@slipway/domain/access/Principal"
import { administration, json } from "./Administration.ts"
import { columns, print } from "./Output.ts"

/** `a,b` or `none`. */
const Scopes = Schema.String.pipe(
  Schema.decodeTo(Schema.Array(Schema.String), SchemaTransformation.transform({
    decode: (list: string): ReadonlyArray<string> => list === "none" ? [] : list.split(","),
    encode: (scopes: ReadonlyArray<string>) => scopes.length === 0 ? "none" : scopes.join(",")
  })),
  Schema.decodeTo(Schema.Array(Scope))
)

const shown = (key: KeyRecord) => ({
  id: key.id,
  grantId: key.grantId,
  label: key.label,
  prefix: key.prefix,
  last4: key.last4,
  scopes: key.scopes,
  createdAt: DateTime.formatIso(key.createdAt),
  lastUsedAt: key.lastUsedAt === null ? null : DateTime.formatIso(key.lastUsedAt),
  revokedAt: key.revokedAt === null ? null : DateTime.formatIso(key.revokedAt)
})

const create = Command.make("create", {
  grant: Flag.String("grant").pipe(
    Flag.withDescription("Grant that owns what the key creates; made if there is none of that name"),
    Flag.withSchema(Schema.NonEmptyString),
    Flag.withDefault("default")
  ),
  scopes: Flag.String("scopes").pipe(
    Flag.withDescription(`What the key opens: none, or any of ${Scope.literals.join(",")}`),
    Flag.withSchema(Scopes),
    Flag.withDefault(["sandboxes"] as ReadonlyArray<Scope>)
  ),
  label: Flag.String("label").pipe(Flag.withDescription("A name to tell keys apart"), Flag.withDefault("")),
  test: Flag.Boolean("test").pipe(
    Flag.withDescription("A test key: only models that need no account"),
    Flag.withDefault(false)
  ),
  json
}, ({ grant, json, label, scopes, test }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const minted = yield* access.createKey({ grant, label, scopes, kind: test ? "test" : "live" })
    const key = Redacted.value(minted.key)
    yield* print(json, { id: minted.record.id, key, grantId: minted.grant.id, grant: minted.grant.name, label, scopes }, () =>
      `${key}\n\nKey ${minted.record.id} of grant ${minted.grant.name}. It is shown only now: keep it safe.`)
  }))).pipe(
    Command.withDescription("Mint an API key. It is shown once: only its digest is kept."),
    Command.withExamples([{ command: "slipway keys create --grant ci --scopes sandboxes --json", description: "For a script" }])
  )

const list = Command.make("list", {
  grant: Flag.String("grant").pipe(Flag.withDescription("Only keys of the grant with this id"), Flag.optional),
  json
}, ({ grant, json }) =>
  administration(Effect.gen(function*() {
    const store = yield* AccessStore
    const keys = yield* store.listKeys(Option.getOrNull(grant))
    yield* print(json, keys.map(shown), () =>
      keys.length === 0 ? "No keys. Make one with: slipway keys create" : columns([
        ["ID", "KEY", "SCOPES", "CREATED", "LAST USED", "STATE", "LABEL"],
        ...keys.map((key) => {
          const { createdAt, lastUsedAt, revokedAt } = shown(key)
          const scopes = key.scopes.length === 0 ? "none" : key.scopes.join(",")
          return [key.id, `${key.prefix}…${key.last4}`, scopes, createdAt, lastUsedAt ?? "never", revokedAt === null ? "active" : "revoked", key.label]
        })
      ]))
  }))).pipe(Command.withDescription("List API keys, newest first"))

const revoke = Command.make("revoke", {
  id: Argument.String("id").pipe(Argument.withDescription("Id of the key, as shown by: slipway keys list")),
  json
}, ({ id, json }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const key = yield* access.revokeKey(id)
    yield* print(json, shown(key), () => `Key ${key.id} is revoked: it fails from its next request on.`)
  }))).pipe(Command.withDescription("Revoke an API key at once"))

export const keys = Command.make("keys").pipe(
  Command.withDescription("API keys: create, list, revoke"),
  Command.withSubcommands([create, list, revoke])
)
