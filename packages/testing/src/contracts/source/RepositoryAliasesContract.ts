/**
 * The rules that every `RepositoryAliases` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh names make it repeatable on one database.
 */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import { MAX_ALIASES, RepositoryAliases } from "@slipway/domain/source/ports/RepositoryAliases"
import type { RepositoryAlias } from "@slipway/domain/source/schema/RepositoryAlias"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-30T20:10:00.123Z")
const HOST = "gitlab.example.com"

/** An alias with letters of both cases. */
const newAlias = Effect.map(
  Effect.flatMap(Ids, ({ uuid7 }) => uuid7),
  (id): RepositoryAlias => ({ name: `Acme/Shop-${id}`, host: HOST, path: `Platform/payments/Shop-${id}` })
)
const upper = ({ host, name, path }: RepositoryAlias): RepositoryAlias => ({
  name: name.toUpperCase(),
  host: host.toUpperCase(),
  path: path.toUpperCase()
})

export const suite = (name: string, layer: Layer.Layer<RepositoryAliases | AuditLog | Ids, unknown>) =>
  define(`RepositoryAliases (${name})`, layer, (it) => {
    it.effect("finds an alias by its name and by its repository, in any case of letters", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const [alias, other] = [yield* newAlias, yield* newAlias]
        yield* aliases.set(alias, at)
        for (const spelled of [alias, upper(alias)]) {
          assert.deepStrictEqual(yield* aliases.find(spelled.name), alias)
          assert.deepStrictEqual(yield* aliases.at(spelled.host, spelled.path), alias)
        }
        assert.isNull(yield* aliases.find(other.name))
        assert.isNull(yield* aliases.at(alias.host, other.path))
        assert.isNull(yield* aliases.at("github.com", alias.path))
      }))

    it.effect("replaces the repository of a name, and its spelling", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const [alias, other] = [yield* newAlias, yield* newAlias]
        yield* aliases.set(alias, at)
        const moved = { ...alias, name: alias.name.toLowerCase(), path: other.path }
        yield* aliases.set(moved, at)
        assert.deepStrictEqual(yield* aliases.find(alias.name), moved)
        assert.isNull(yield* aliases.at(alias.host, alias.path))
      }))

    it.effect("gives a repository no second name, and changes nothing then", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const [alias, other] = [yield* newAlias, yield* newAlias]
        yield* aliases.set(alias, at)
        yield* aliases.set(other, at)
        const refused = yield* Effect.flip(aliases.set({ ...upper(alias), name: other.name }, at))
        assert.deepInclude(refused, { _tag: "AliasRefused", reason: "path", name: alias.name })
        assert.deepStrictEqual(yield* aliases.find(other.name), other)
        // Another host may have the same path.
        yield* aliases.set({ ...other, host: "git.example.com", path: alias.path }, at)
      }))

    it.effect("removes an alias once", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const alias = yield* newAlias
        yield* aliases.set(alias, at)
        assert.isTrue(yield* aliases.remove(upper(alias).name, at))
        assert.isFalse(yield* aliases.remove(alias.name, at))
        assert.isNull(yield* aliases.find(alias.name))
      }))

    it.effect("lists aliases in order of name, in any case of letters", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const [one, two] = [yield* newAlias, yield* newAlias]
        const [a, b] = [{ ...one, name: `aa/${one.name.slice(5)}` }, { ...two, name: `AB/${two.name.slice(5)}` }]
        for (const alias of [b, a]) yield* aliases.set(alias, at)
        assert.deepStrictEqual((yield* aliases.list).filter(({ name }) => name === a.name || name === b.name), [a, b])
      }))

    it.effect("appends each change to the audit log, and nothing where nothing changed", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const [alias, other] = [yield* newAlias, yield* newAlias]
        const entries = yield* appended(Effect.gen(function*() {
          yield* aliases.set(alias, at)
          yield* aliases.set(alias, DateTime.add(at, { minutes: 1 }))
          yield* Effect.flip(aliases.set({ ...alias, name: other.name }, at))
          yield* aliases.remove(other.name, at)
          yield* aliases.remove(alias.name, at)
        }))
        const subjects = { repo: alias.name, sourceHost: HOST, path: alias.path }
        assert.deepStrictEqual(
          entries,
          (["repository_alias.set", "repository_alias.removed"] as const).map((action) => ({ action, at, subjects }))
        )
      }))

    it.effect("keeps to its most aliases, also under changes at the same time", () =>
      Effect.gen(function*() {
        const aliases = yield* RepositoryAliases
        const free = MAX_ALIASES - (yield* aliases.list).length
        const many = yield* Effect.forEach(Array.from({ length: free + 7 }), () => newAlias)
        for (const alias of many.slice(8)) yield* aliases.set(alias, at)
        // A store with a pool opens its connections, so that the changes do not wait for them one after the other.
        yield* Effect.forEach(many.slice(0, 8), () => aliases.list, { concurrency: "unbounded" })
        const set = yield* Effect.forEach(many.slice(0, 8), (alias) => Effect.result(aliases.set(alias, at)), { concurrency: "unbounded" })
        const ends = set.map((one) => one._tag === "Success" ? one._tag : one.failure._tag)
        assert.deepStrictEqual(ends.toSorted(), [...Array.from({ length: 7 }, () => "AliasRefused"), "Success"])
        assert.lengthOf(yield* aliases.list, MAX_ALIASES)
        // A stored alias can be changed, and a removed one makes room.
        const [last] = many.slice(-1)
        if (last === undefined) return assert.fail("no alias was made")
        yield* aliases.set({ ...last, path: `${last.path}-2` }, at)
        yield* aliases.remove(last.name, at)
        yield* aliases.set(yield* newAlias, at)
        for (const alias of many) yield* aliases.remove(alias.name, at)
      }))
  })
