/**
 * The rules that every `RepositorySettings` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh grants make it repeatable on one database.
 */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { MAX_REPOSITORIES, RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import { NO_SETTINGS, type RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-29T14:10:00.123Z")
const later = DateTime.add(at, { minutes: 1 })
const SHOP = "Acme/shop"
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

const SETTINGS: RepoSettings = {
  labels: ["agent", "needs \"review\" \u{1F680}\\"],
  reviewers: ["ada", "acme/payments"],
  coAuthor: true,
  mcpFile: true,
  feedback: { comments: "mention", checks: "failing", rounds: 5, publish: false }
}
const OTHERS: RepoSettings = { ...NO_SETTINGS, labels: ["other"] }

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant.id
})
const of = (grantId: string, repo = SHOP) => RepositorySettings.use((port) => port.of({ grantId, repo }))
const set = (grantId: string, settings: RepoSettings, repo = SHOP, when = at) =>
  RepositorySettings.use((port) => port.set({ grantId, repo }, settings, when))
const list = (grantId: string) => RepositorySettings.use((port) => port.list(grantId))

export const suite = (name: string, layer: Layer.Layer<RepositorySettings | Access | AuditLog | Ids, unknown>) =>
  define(`RepositorySettings (${name})`, layer, (it) => {
    it.effect("gives settings as they were set, and those of no choice where none were", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        assert.deepStrictEqual([yield* of(grantId), yield* list(grantId)], [NO_SETTINGS, []])
        yield* set(grantId, SETTINGS)
        assert.deepStrictEqual(yield* of(grantId), SETTINGS)
        assert.deepStrictEqual(yield* of(grantId, "acme/docs"), NO_SETTINGS)
        assert.deepStrictEqual(yield* list(grantId), [{ repo: SHOP, settings: SETTINGS, setAt: at }])
      }))

    it.effect("takes spellings of a name for the same repository, and lists the newest spelling", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        yield* set(grantId, OTHERS)
        yield* set(grantId, SETTINGS, "acme/SHOP", later)
        assert.deepStrictEqual(yield* of(grantId, "ACME/Shop"), SETTINGS)
        assert.deepStrictEqual(yield* list(grantId), [{ repo: "acme/SHOP", settings: SETTINGS, setAt: later }])
      }))

    it.effect("lists in order of repository, in any case of letters", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        for (const repo of ["b/b", "A/z", "a/a", "B/a"]) yield* set(grantId, SETTINGS, repo)
        assert.deepStrictEqual((yield* list(grantId)).map(({ repo }) => repo), ["a/a", "A/z", "B/a", "b/b"])
      }))

    it.effect("keeps the settings of one grant from another", () =>
      Effect.gen(function*() {
        const [mine, theirs] = [yield* newGrant, yield* newGrant]
        yield* set(mine, SETTINGS)
        assert.deepStrictEqual([yield* of(theirs), yield* list(theirs)], [NO_SETTINGS, []])
        yield* set(theirs, OTHERS)
        yield* set(theirs, NO_SETTINGS)
        assert.deepStrictEqual(yield* of(mine), SETTINGS)
      }))

    it.effect("stores nothing for settings of no choice", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        yield* set(grantId, SETTINGS)
        yield* set(grantId, OTHERS, "acme/docs")
        yield* set(grantId, NO_SETTINGS, "acme/SHOP", later)
        assert.deepStrictEqual(yield* of(grantId), NO_SETTINGS)
        assert.deepStrictEqual((yield* list(grantId)).map(({ repo }) => repo), ["acme/docs"])
      }))

    it.effect("refuses settings for a grant that is unknown or revoked, and changes nothing", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        yield* set(grantId, SETTINGS)
        yield* (yield* Access).revokeGrant(grantId)
        for (const grant of [grantId, absent]) {
          assert.strictEqual((yield* Effect.flip(set(grant, OTHERS))).message, "There is no such grant.")
        }
        assert.deepStrictEqual(yield* of(absent), NO_SETTINGS)
      }))

    it.effect("holds a grant to its most repositories, also under changes at the same time", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        yield* Effect.forEach(Array.from({ length: MAX_REPOSITORIES - 1 }, (_, i) => `acme/r${i}`), (repo) => set(grantId, OTHERS, repo))
        const both = yield* Effect.forEach(["acme/one", "acme/two"], (repo) => Effect.result(set(grantId, OTHERS, repo)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(both.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
        // Stored settings can be changed, and deleted settings make room.
        yield* set(grantId, SETTINGS, "acme/r0")
        yield* set(grantId, NO_SETTINGS, "acme/r1")
        yield* set(grantId, SETTINGS, "acme/three")
        assert.lengthOf(yield* list(grantId), MAX_REPOSITORIES)
      }))

    it.effect("appends each change to the audit log, and nothing where nothing changed", () =>
      Effect.gen(function*() {
        const grantId = yield* newGrant
        const entries = yield* appended(Effect.gen(function*() {
          yield* set(grantId, NO_SETTINGS)
          yield* set(grantId, SETTINGS)
          yield* set(grantId, SETTINGS, SHOP, later)
          yield* set(grantId, NO_SETTINGS, SHOP, later)
          yield* Effect.ignore(set(absent, SETTINGS))
        }))
        assert.deepStrictEqual(
          entries,
          [at, later].map((at) => ({
            action: "repository_settings.changed" as const,
            at,
            subjects: { grantId, repo: SHOP }
          }))
        )
      }))
  })
