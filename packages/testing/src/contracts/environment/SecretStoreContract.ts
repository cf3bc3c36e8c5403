/**
 * The rules that every `SecretStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh grants make it repeatable on one database.
 */
import { Acting, type AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Access } from "@slipway/domain/access/usecases/Access"
import {
  ALL_REPOSITORIES,
  MAX_SECRETS,
  MAX_SECRETS_OF_GRANT,
  MAX_VALUE_BYTES,
  MAX_VALUES_BYTES,
  SecretStore
} from "@slipway/domain/environment/ports/SecretStore"
import { MAX_TRUSTED_REFS } from "@slipway/domain/environment/rules/SetupTrust"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-23T04:40:00.123Z")
const later = DateTime.add(at, { minutes: 1 })
const SHOP = "Acme/shop"
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

/** Long enough that no other text is it by chance. */
const CANARY = "canary-\u{1F680}-'\"\\-\r\n-7Qm2"

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant.id
})
const set = (grantId: string, name: string, value: string, repo = SHOP, when = at) =>
  SecretStore.use((store) => store.set({ grantId, repo, name }, Redacted.make(value), when))
const list = (grantId: string, repo: string | null = null) => SecretStore.use((store) => store.list(grantId, repo))
const remove = (grantId: string, name: string, repo = SHOP) => SecretStore.use((store) => store.remove({ grantId, repo, name }, later))
const reveal = (grantId: string, names: ReadonlyArray<string>, repo = SHOP) =>
  Effect.map(
    SecretStore.use((store) => store.reveal({ grantId, repo }, names)),
    (values) => Object.fromEntries(Array.from(values, ([name, value]) => [name, Redacted.value(value)]))
  )
const namesOf = (secrets: ReadonlyArray<{ readonly repo: string; readonly name: string }>) =>
  secrets.map(({ name, repo }) => `${repo} ${name}`)
const tagOf = (refused: Effect.Effect<unknown, { readonly _tag: string }, SecretStore>) =>
  Effect.map(Effect.flip(refused), ({ _tag }) => _tag)

const values = (it: Writer<SecretStore | Access | AuditLog | Ids>) => {
  it.effect("gives setup the values as they were set, and tells others everything but them", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      assert.deepStrictEqual(yield* list(grantId), [])
      const token = yield* set(grantId, "NPM_TOKEN", CANARY)
      assert.deepStrictEqual(token, { repo: SHOP, name: "NPM_TOKEN", createdAt: at, setAt: at })
      yield* set(grantId, "PIP_TOKEN", " second\n")
      assert.deepStrictEqual(yield* reveal(grantId, ["PIP_TOKEN", "NPM_TOKEN"]), { NPM_TOKEN: CANARY, PIP_TOKEN: " second\n" })
      assert.deepStrictEqual(yield* reveal(grantId, ["NPM_TOKEN"]), { NPM_TOKEN: CANARY })
      assert.deepStrictEqual(yield* reveal(grantId, []), {})
      const listed = yield* list(grantId, SHOP)
      assert.deepStrictEqual(listed[0], token)
      assert.notInclude(JSON.stringify(listed), "7Qm2")
    }))

  it.effect("puts a new value in the place of the old one, which is gone", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, "NPM_TOKEN", "first")
      const again = yield* set(grantId, "NPM_TOKEN", CANARY, SHOP, later)
      assert.deepStrictEqual(again, { repo: SHOP, name: "NPM_TOKEN", createdAt: at, setAt: later })
      assert.deepStrictEqual(yield* list(grantId), [again])
      assert.deepStrictEqual(yield* reveal(grantId, ["NPM_TOKEN"]), { NPM_TOKEN: CANARY })
    }))

  it.effect("keeps the secrets of grants, of repositories and of names apart; the case of a repository does not count", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* newGrant, yield* newGrant]
      yield* set(mine, "TOKEN", "mine")
      yield* set(mine, "TOKEN", "site", "acme/site")
      yield* set(mine, "A", "a")
      yield* set(other, "TOKEN", "other")
      assert.deepStrictEqual(namesOf(yield* list(mine)), ["Acme/shop A", "Acme/shop TOKEN", "acme/site TOKEN"])
      assert.deepStrictEqual(namesOf(yield* list(mine, "aCME/SHOP")), ["Acme/shop A", "Acme/shop TOKEN"])
      assert.deepStrictEqual(yield* list(mine, "acme/shop2"), [])
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN"], "ACME/shop"), { TOKEN: "mine" })
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN"], "acme/site"), { TOKEN: "site" })
      assert.deepStrictEqual(yield* reveal(other, ["TOKEN"]), { TOKEN: "other" })
      yield* set(mine, "TOKEN", "again", "acme/SHOP", later)
      assert.deepStrictEqual(namesOf(yield* list(mine, SHOP)), ["Acme/shop A", "acme/SHOP TOKEN"])
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN"]), { TOKEN: "again" })
      yield* remove(mine, "TOKEN")
      assert.deepStrictEqual(namesOf(yield* list(mine)), ["Acme/shop A", "acme/site TOKEN"])
      assert.deepStrictEqual(yield* reveal(other, ["TOKEN"]), { TOKEN: "other" })
    }))

  it.effect("lists by repository, whatever its case, and by name", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const sorted = [["acme/api", "Z"], ["Acme/shop", "B"], ["acme/SHOP", "C"], ["Acme/site", "A"], ["zoo/api", "A"], ["Zoo/shop", "B"]]
      for (const [repo, name] of sorted.toReversed()) yield* set(grantId, name ?? "", "v", repo)
      assert.deepStrictEqual(namesOf(yield* list(grantId)), sorted.map((words) => words.join(" ")))
    }))

  it.effect("gives a setup a secret of all repositories of the grant, unless its repository has one of that name", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* newGrant, yield* newGrant]
      const all = yield* set(mine, "TOKEN", "of all", ALL_REPOSITORIES)
      assert.deepStrictEqual(all, { repo: "*", name: "TOKEN", createdAt: at, setAt: at })
      yield* set(mine, "OTHER", "also of all", ALL_REPOSITORIES)
      yield* set(mine, "TOKEN", "of the shop")
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN", "OTHER"]), { TOKEN: "of the shop", OTHER: "also of all" })
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN"], "acme/site"), { TOKEN: "of all" })
      assert.deepStrictEqual(namesOf(yield* list(mine)), ["* OTHER", "* TOKEN", "Acme/shop TOKEN"])
      assert.deepStrictEqual(namesOf(yield* list(mine, SHOP)), ["Acme/shop TOKEN"])
      assert.deepStrictEqual(namesOf(yield* list(mine, ALL_REPOSITORIES)), ["* OTHER", "* TOKEN"])
      assert.strictEqual(yield* tagOf(reveal(other, ["TOKEN"])), "SecretsMissing")
      yield* remove(mine, "TOKEN")
      assert.deepStrictEqual(yield* reveal(mine, ["TOKEN"]), { TOKEN: "of all" })
      yield* remove(mine, "TOKEN", ALL_REPOSITORIES)
      assert.strictEqual(yield* tagOf(reveal(mine, ["TOKEN"])), "SecretsMissing")
    }))

  it.effect("names what is missing, and gives nothing then", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, "NPM_TOKEN", CANARY)
      const refused = yield* Effect.flip(reveal(grantId, ["PIP_TOKEN", "NPM_TOKEN", "GEM_TOKEN"]))
      assert(refused._tag === "SecretsMissing")
      assert.deepStrictEqual([refused.repo, refused.names], [SHOP, ["PIP_TOKEN", "GEM_TOKEN"]])
      assert.notInclude(refused.message, "7Qm2")
      assert.strictEqual(yield* tagOf(reveal(yield* newGrant, ["NPM_TOKEN"])), "SecretsMissing")
    }))

  it.effect("removes what is there, and finds no secret that is not", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* newGrant, yield* newGrant]
      yield* set(mine, "TOKEN", CANARY)
      for (
        const refused of [remove(other, "TOKEN"), remove(mine, "TOKEN", "acme/site"), remove(mine, "TOKEN2"), remove(absent, "TOKEN")]
      ) {
        assert.strictEqual(yield* tagOf(refused), "SecretNotFound")
      }
      yield* remove(mine, "TOKEN", "acme/SHOP")
      assert.strictEqual(yield* tagOf(remove(mine, "TOKEN")), "SecretNotFound")
      assert.strictEqual(yield* tagOf(reveal(mine, ["TOKEN"])), "SecretsMissing")
    }))
}

const bounds = (it: Writer<SecretStore | Access | AuditLog | Ids>) => {
  it.effect("holds so many secrets of a repository and no more, also when many are set at once; others in their place count once", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const wanted = Array.from({ length: MAX_SECRETS + 4 }, (_, i) => `TOKEN_${i}`)
      const results = yield* Effect.forEach(wanted, (name) => Effect.result(set(grantId, name, "v")), { concurrency: "unbounded" })
      const refused = results.flatMap((result) => result._tag === "Failure" ? [result.failure._tag] : [])
      assert.deepStrictEqual(refused, Array.from({ length: 4 }, () => "TooManySecrets"))
      const held = yield* list(grantId)
      assert.lengthOf(held, MAX_SECRETS)
      yield* set(grantId, held[0]?.name ?? "", "again")
      yield* set(grantId, "TOKEN", "v", "acme/site")
      yield* set(yield* newGrant, "TOKEN", "v")
      yield* remove(grantId, held[0]?.name ?? "")
      yield* set(grantId, "TOKEN", "v")
    }))

  it.effect("holds so many secrets of a grant, in whatever repositories", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      for (let i = 0; i < MAX_SECRETS_OF_GRANT; i++) yield* set(grantId, `TOKEN_${i}`, "v", `acme/shop-${i % 20}`)
      assert.strictEqual(yield* tagOf(set(grantId, "ONE_MORE", "v", "acme/site")), "TooManySecrets")
      yield* set(grantId, "TOKEN_0", "again", "acme/shop-0")
      assert.lengthOf(yield* list(grantId), MAX_SECRETS_OF_GRANT)
    }))

  it.effect("holds values of one repository up to a size together", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      // Two bytes each.
      const largest = "é".repeat(MAX_VALUE_BYTES / 2)
      for (let i = 0; i < MAX_VALUES_BYTES / MAX_VALUE_BYTES; i++) yield* set(grantId, `LARGE_${i}`, largest)
      assert.deepStrictEqual(yield* reveal(grantId, ["LARGE_0"]), { LARGE_0: largest })
      assert.strictEqual(yield* tagOf(set(grantId, "ONE_MORE", "v")), "TooManySecrets")
      yield* set(grantId, "LARGE_0", largest.slice(1))
      yield* set(grantId, "ONE_MORE", "vv")
      assert.strictEqual(yield* tagOf(set(grantId, "LARGE_0", largest)), "TooManySecrets")
      yield* set(grantId, "ONE_MORE", "v", "acme/site")
    }))

  it.effect("keeps no secret of a revoked grant, and sets none there or in a grant that never was", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* newGrant, yield* newGrant]
      yield* set(mine, "TOKEN", CANARY)
      yield* set(other, "TOKEN", CANARY)
      yield* (yield* Access).revokeGrant(mine)
      assert.deepStrictEqual(yield* list(mine), [])
      for (const grantId of [mine, absent]) assert.strictEqual(yield* tagOf(set(grantId, "TOKEN", "v")), "GrantNotFound")
      assert.strictEqual(yield* tagOf(reveal(mine, ["TOKEN"])), "SecretsMissing")
      assert.strictEqual(yield* tagOf(remove(mine, "TOKEN")), "SecretNotFound")
      assert.deepStrictEqual(yield* reveal(other, ["TOKEN"]), { TOKEN: CANARY })
    }))

  it.effect("tells the audit log of what changes, by whom, and never the value; of nothing else", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const subjects = { grantId, repo: SHOP, secret: "TOKEN" }
      const entries = yield* appended(Effect.gen(function*() {
        yield* set(grantId, "TOKEN", CANARY)
        yield* set(grantId, "TOKEN", CANARY, SHOP, later)
        yield* reveal(grantId, ["TOKEN"])
        yield* list(grantId)
        yield* remove(grantId, "TOKEN")
        yield* Effect.flip(remove(grantId, "TOKEN"))
        yield* Effect.flip(set(absent, "TOKEN", CANARY))
      }))
      assert.deepStrictEqual(entries, [
        { action: "secret.set", at, subjects },
        { action: "secret.set", at: later, subjects },
        { action: "secret.removed", at: later, subjects }
      ])
    }))
}

const refs = (it: Writer<SecretStore | Access | AuditLog | Ids>) => {
  it.effect("lists refs of one repository in one grant, once each, and forgets those that are removed or whose grant is revoked", () =>
    Effect.gen(function*() {
      const store = yield* SecretStore
      const [mine, other] = [yield* newGrant, yield* newGrant]
      const refsOf = (grantId: string, repo: string | null = null) =>
        Effect.map(store.trustedRefs(grantId, repo), (refs) => refs.map(({ ref, repo }) => `${repo} ${ref}`))
      const first = yield* store.trustRef({ grantId: mine, repo: SHOP }, "release/*", at)
      assert.deepStrictEqual(first, { repo: SHOP, ref: "release/*", listedAt: at })
      assert.deepStrictEqual(yield* store.trustRef({ grantId: mine, repo: "ACME/shop" }, "release/*", later), first)
      yield* store.trustRef({ grantId: mine, repo: SHOP }, "Develop", at)
      yield* store.trustRef({ grantId: mine, repo: "acme/api" }, "develop", at)
      yield* store.trustRef({ grantId: other, repo: SHOP }, "theirs", at)
      assert.deepStrictEqual(yield* refsOf(mine), ["acme/api develop", "Acme/shop Develop", "Acme/shop release/*"])
      assert.deepStrictEqual(yield* refsOf(mine, "aCME/SHOP"), ["Acme/shop Develop", "Acme/shop release/*"])
      assert.deepStrictEqual(yield* refsOf(mine, "acme/shop2"), [])
      for (const [grantId, repo, ref] of [[mine, SHOP, "develop"], [mine, "acme/site", "Develop"], [other, SHOP, "Develop"]] as const) {
        assert.strictEqual((yield* Effect.flip(store.distrustRef({ grantId, repo }, ref, at)))._tag, "TrustedRefNotFound")
      }
      yield* store.distrustRef({ grantId: mine, repo: "acme/SHOP" }, "Develop", later)
      assert.deepStrictEqual(yield* refsOf(mine, SHOP), ["Acme/shop release/*"])
      yield* (yield* Access).revokeGrant(mine)
      assert.deepStrictEqual(yield* refsOf(mine), [])
      assert.deepStrictEqual(yield* refsOf(other), ["Acme/shop theirs"])
      for (const grantId of [mine, absent]) {
        assert.strictEqual((yield* Effect.flip(store.trustRef({ grantId, repo: SHOP }, "develop", at)))._tag, "GrantNotFound")
      }
    }))

  it.effect("holds so many refs of a repository and no more, also when many are listed at once, and tells the audit log", () =>
    Effect.gen(function*() {
      const store = yield* SecretStore
      const grantId = yield* newGrant
      const list = (ref: string, repo = SHOP) => store.trustRef({ grantId, repo }, ref, at)
      const wanted = Array.from({ length: MAX_TRUSTED_REFS + 3 }, (_, i) => `v${i}`)
      const results = yield* Effect.forEach(wanted, (ref) => Effect.result(list(ref)), { concurrency: "unbounded" })
      const refused = results.flatMap((result) => result._tag === "Failure" ? [result.failure._tag] : [])
      assert.deepStrictEqual(refused, Array.from({ length: 3 }, () => "TooManyTrustedRefs"))
      const [known] = yield* store.trustedRefs(grantId, SHOP)
      assert(known !== undefined)
      const subjects = { grantId, repo: SHOP, ref: known.ref }
      const entries = yield* appended(Effect.gen(function*() {
        yield* list(known.ref)
        yield* store.distrustRef({ grantId, repo: SHOP }, known.ref, later)
        yield* Effect.flip(store.distrustRef({ grantId, repo: SHOP }, known.ref, later))
        yield* list(known.ref)
        yield* Effect.flip(list("one-more"))
      }))
      assert.deepStrictEqual(entries, [
        { action: "trusted_ref.removed", at: later, subjects },
        { action: "trusted_ref.listed", at, subjects }
      ])
      yield* list("one-more", "acme/api")
    }))

  it.effect("is never asked to list what sandboxes push to, a commit, or no name of a ref", () =>
    Effect.gen(function*() {
      const secrets = yield* Secrets
      const grantId = yield* newGrant
      const wrong = ["", "*", "slipway/c_bbbbbbbbbbbb", "slipway/*", "refs/heads/slipway/x", "a".repeat(40), "a b", "re*", "/*", "-x",
        "x/**", "a..b/*"]
      for (const ref of wrong) {
        const refused = yield* Effect.flip(secrets.trustRef({ grantId, repo: SHOP, ref }))
        assert.strictEqual(refused._tag === "InvalidRequest" && refused.field, "ref", ref)
        assert.strictEqual((yield* Effect.flip(secrets.distrustRef({ grantId, repo: SHOP, ref })))._tag, "TrustedRefNotFound")
      }
      const refused = yield* Effect.flip(secrets.trustRef({ grantId, repo: "shop", ref: "develop" }))
      assert.strictEqual(refused._tag === "InvalidRequest" && refused.field, "repo")
      yield* secrets.trustRef({ grantId, repo: SHOP, ref: "release/*" })
      yield* secrets.trustRef({ grantId, repo: SHOP, ref: "v1.2" })
      assert.deepStrictEqual((yield* secrets.trustedRefs(grantId, null)).map(({ ref }) => ref), ["release/*", "v1.2"])
      yield* secrets.distrustRef({ grantId, repo: SHOP, ref: "v1.2" })
      assert.lengthOf(yield* secrets.trustedRefs(grantId, SHOP), 1)
    }).pipe(Effect.provide(Secrets.layer), Effect.provideService(Acting, { _tag: "Operator" })))
}

const refusedNames = (it: Writer<SecretStore | Access | AuditLog | Ids>) => {
  it.effect("is never asked to keep what no variable can be: that is refused, without a word of the value", () =>
    Effect.gen(function*() {
      const secrets = yield* Secrets
      const grantId = yield* newGrant
      const values = ["", "nul\0-canary", "lone-\ud800-canary", "x".repeat(MAX_VALUE_BYTES + 1), "é".repeat(MAX_VALUE_BYTES / 2) + "x"]
      for (const value of values) {
        const refused = yield* Effect.flip(secrets.set({ grantId, repo: SHOP, name: "TOKEN" }, Redacted.make(value)))
        assert(refused._tag === "InvalidRequest")
        assert.deepStrictEqual([refused.field, refused.reason], ["value", "1 byte to 64 KiB of UTF-8 without NUL expected"])
      }
      for (const name of ["", "token", "1TOKEN", "NPM-TOKEN", "A".repeat(65), "PATH", "HOME", "TOKEN\n", "TOKEN\0"]) {
        const refused = yield* Effect.flip(secrets.set({ grantId, repo: SHOP, name }, Redacted.make(CANARY)))
        assert.strictEqual(refused._tag === "InvalidRequest" && refused.field, "name", name)
        assert.strictEqual(
          yield* Effect.map(Effect.flip(secrets.remove({ grantId, repo: SHOP, name })), ({ _tag }) => _tag),
          "SecretNotFound"
        )
      }
      for (const repo of ["", "shop", "../shop", "acme/shop/more"]) {
        const refused = yield* Effect.flip(secrets.set({ grantId, repo, name: "TOKEN" }, Redacted.make(CANARY)))
        assert.strictEqual(refused._tag === "InvalidRequest" && refused.field, "repo", repo)
        assert.deepStrictEqual(yield* secrets.list(grantId, repo), [])
      }
      assert.deepStrictEqual(yield* list(grantId), [])
      yield* secrets.set({ grantId, repo: SHOP, name: "TOKEN" }, Redacted.make("x".repeat(MAX_VALUE_BYTES)))
      assert.deepStrictEqual(namesOf(yield* secrets.list(grantId, null)), [`${SHOP} TOKEN`])
      yield* secrets.remove({ grantId, repo: SHOP, name: "TOKEN" })
      assert.deepStrictEqual(yield* list(grantId), [])
    }).pipe(Effect.provide(Secrets.layer), Effect.provideService(Acting, { _tag: "Operator" })))
}

export const suite = (name: string, layer: Layer.Layer<SecretStore | Access | AuditLog | Ids, unknown>) =>
  define(`SecretStore (${name})`, layer, (it) => {
    values(it)
    bounds(it)
    refs(it)
    refusedNames(it)
  })
