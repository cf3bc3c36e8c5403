/** `slipway keys`: API keys. */
import { AccessStore, type KeyRecord } from "@slipway/domain/access/ports/AccessStore"
import { keyState } from "@slipway/domain/access/rules/KeyState"
import { MAX_LIFE_DAYS } from "@slipway/domain/access/rules/Minting"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { DateTime, Effect, Option, Redacted, Schema, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { ago, until } from "../terminal/Age.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { Days } from "./Days.ts"

/** `a,b` or `none`. */
const Scopes = Schema.String.pipe(
  Schema.decodeTo(
    Schema.Array(Schema.String),
    SchemaTransformation.transform({
      decode: (list: string): ReadonlyArray<string> => list === "none" ? [] : list.split(","),
      encode: (scopes: ReadonlyArray<string>) => scopes.length === 0 ? "none" : scopes.join(",")
    })
  ),
  Schema.decodeTo(Schema.Array(Scope))
)

const shown = (key: KeyRecord) => ({
  id: key.id,
  grantId: key.grantId,
  userId: key.userId,
  label: key.label,
  prefix: key.prefix,
  last4: key.last4,
  scopes: key.scopes,
  createdAt: DateTime.formatIso(key.createdAt),
  expiresAt: key.expiresAt === null ? null : DateTime.formatIso(key.expiresAt),
  lastUsedAt: key.lastUsedAt === null ? null : DateTime.formatIso(key.lastUsedAt),
  revokedAt: key.revokedAt === null ? null : DateTime.formatIso(key.revokedAt)
})

const create = Command.make("create", {
  grant: Flag.String("grant").pipe(
    Flag.withDescription("Grant that owns what the key creates; made if the name is new"),
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
  user: Flag.String("user").pipe(
    Flag.withDescription("Owner of the key: id, e-mail address or GitHub login of an approved member; default: the owner"),
    Flag.optional
  ),
  expires: Flag.String("expires").pipe(
    Flag.withDescription(`Lifetime in days, such as 90d, at most ${MAX_LIFE_DAYS}d; default: never`),
    Flag.withSchema(Days),
    Flag.optional
  ),
  keyOnly: Flag.Boolean("key-only").pipe(
    Flag.withDescription("Print the key and nothing else: export SLIPWAY_API_KEY=$(slipway keys create --key-only)"),
    Flag.withDefault(false)
  ),
  json
}, ({ expires, grant, json, keyOnly, label, scopes, test, user }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const members = yield* Members
    const minted = yield* access.createKey({
      grant,
      label,
      scopes,
      kind: test ? "test" : "live",
      userId: Option.isNone(user) ? undefined : (yield* members.user(user.value)).id,
      life: Option.getOrNull(expires)
    })
    const key = Redacted.value(minted.key)
    const { expiresAt, id, userId } = shown(minted.record)
    const until = expiresAt === null ? "" : `, good until ${expiresAt}`
    yield* print(json, { id, key, grantId: minted.grant.id, grant: minted.grant.name, userId, label, scopes, expiresAt }, () =>
      keyOnly
        ? key
        : `${key}\n\nKey ${id} of grant ${minted.grant.name}${until}. It is shown only now: keep it safe.`)
  }))).pipe(
    Command.withDescription("Mint an API key. It is shown once; only its digest is stored."),
    Command.withExamples([
      { command: "slipway keys create --grant ci --scopes sandboxes --json", description: "For a script" },
      { command: "slipway keys create --user ada-l --expires 90d", description: "For a person, for a quarter" }
    ])
  )

const list = Command.make("list", {
  grant: Flag.String("grant").pipe(Flag.withDescription("Only keys of the grant with this id"), Flag.optional),
  json
}, ({ grant, json }) =>
  administration(Effect.gen(function*() {
    const store = yield* AccessStore
    const keys = yield* store.listKeys(Option.getOrNull(grant))
    const now = yield* DateTime.now
    yield* print(json, keys.map((key) => ({ ...shown(key), state: keyState(key, now) })), () =>
      keys.length === 0 ? "No keys. Make one with: slipway keys create" : columns([
        ["LABEL", "KEY", "SCOPES", "STATE", "CREATED", "LAST USED", "EXPIRES", "ID"],
        ...keys.map((key) => {
          const { createdAt, expiresAt, lastUsedAt } = shown(key)
          const scopes = key.scopes.length === 0 ? "none" : key.scopes.join(",")
          const at = now.epochMilliseconds
          return [
            key.label === "" ? "(unnamed)" : key.label,
            `${key.prefix}…${key.last4}`,
            scopes,
            keyState(key, now),
            ago(createdAt, at),
            lastUsedAt === null ? "never" : ago(lastUsedAt, at),
            expiresAt === null ? "never" : until(expiresAt, at),
            key.id
          ]
        })
      ]))
  }))).pipe(
    Command.withDescription("List API keys, newest first"),
    Command.withExamples([{ command: "slipway keys list", description: "Last uses and expired keys" }])
  )

const revoke = Command.make("revoke", {
  id: Argument.String("id").pipe(Argument.withDescription("Key id from: slipway keys list")),
  json
}, ({ id, json }) =>
  administration(Effect.gen(function*() {
    const access = yield* Access
    const key = yield* access.revokeKey(id)
    yield* print(json, shown(key), () => `Key ${key.id} is revoked: it fails from its next request on.`)
  }))).pipe(
    Command.withDescription("Revoke an API key at once"),
    Command.withExamples([{ command: "slipway keys revoke <id>", description: "As slipway keys list shows it" }])
  )

export const keys = Command.make("keys").pipe(
  Command.withDescription("API keys: create, list, revoke"),
  Command.withSubcommands([create, list, revoke])
)
