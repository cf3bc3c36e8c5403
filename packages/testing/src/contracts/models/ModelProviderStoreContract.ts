/**
 * The rules that every `ModelProviderStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Each rule begins by removing what is stored.
 */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import type { ProviderChange } from "@slipway/domain/models/rules/ModelProviders"
import type { ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-29T04:40:00.123Z")
const later = DateTime.add(at, { minutes: 1 })

/** Long enough that no other text is it by chance. */
const CANARY = "sk-canary-7Qm2-0123456789"
const LOCAL = "http://localhost:11434/v1"

const set = (provider: ProviderName, key: string | null, more: Partial<ProviderChange> = {}, when = at) =>
  ModelProviderStore.use((store) =>
    store.set(
      { provider, key: key === null ? "keep" : Redacted.make(key), baseUrl: null, model: null, isDefault: false, ...more },
      when
    )
  )
const list = ModelProviderStore.use((store) => store.list)
const remove = (provider: ProviderName) => ModelProviderStore.use((store) => store.remove(provider, later))
const keys = Effect.map(
  ModelProviderStore.use((store) => store.keys),
  (found) => Object.fromEntries(Array.from(found, ([name, key]) => [name, Redacted.value(key)]))
)
const nothing = Effect.flatMap(list, (all) => Effect.forEach(all, ({ provider }) => remove(provider)))
const tagOf = (refused: Effect.Effect<unknown, { readonly _tag: string }, ModelProviderStore>) =>
  Effect.map(Effect.flip(refused), ({ _tag }) => _tag)

export const suite = (name: string, layer: Layer.Layer<ModelProviderStore | AuditLog, unknown>) =>
  define(`ModelProviderStore (${name})`, layer, (it) => {
    it.effect("gives the gateway the keys as they were set, and others everything but them", () =>
      Effect.gen(function*() {
        yield* nothing
        assert.deepStrictEqual([yield* list, yield* keys], [[], {}])
        const openai = yield* set("openai", CANARY, { model: "gpt-6.1-sol" })
        assert.deepStrictEqual(openai, {
          provider: "openai",
          hasKey: true,
          baseUrl: null,
          model: "gpt-6.1-sol",
          isDefault: false,
          setAt: at
        })
        const local = yield* set("compatible", null, { baseUrl: LOCAL, model: "qwen3" }, later)
        assert.deepStrictEqual([local.hasKey, local.baseUrl, local.setAt], [false, LOCAL, later])
        yield* set("anthropic", "sk-ant-other")
        const listed = yield* list
        assert.deepStrictEqual(listed.map(({ provider }) => provider), ["anthropic", "compatible", "openai"])
        assert.deepStrictEqual(listed.slice(1), [local, openai])
        assert.notInclude(JSON.stringify(listed), "7Qm2")
        assert.deepStrictEqual(yield* keys, { anthropic: "sk-ant-other", openai: CANARY })
      }))

    it.effect("replaces the settings and the key of a provider, or keeps its key for the same address", () =>
      Effect.gen(function*() {
        yield* nothing
        yield* set("xai", CANARY, { baseUrl: LOCAL })
        const kept = yield* set("xai", null, { baseUrl: LOCAL, model: "grok-4.7" }, later)
        assert.deepStrictEqual(yield* list, [kept])
        assert.deepStrictEqual([kept.hasKey, kept.model, kept.setAt], [true, "grok-4.7", later])
        assert.deepStrictEqual(yield* keys, { xai: CANARY })
        yield* set("xai", "sk-another", { baseUrl: null })
        assert.deepStrictEqual(yield* keys, { xai: "sk-another" })
        assert.deepStrictEqual((yield* list)[0]?.baseUrl, null)
      }))

    it.effect("refuses to keep a key for another address, and changes nothing", () =>
      Effect.gen(function*() {
        yield* nothing
        const before = yield* set("openai", CANARY)
        assert.strictEqual(yield* tagOf(set("openai", null, { baseUrl: LOCAL, isDefault: true })), "IncompleteProvider")
        assert.strictEqual(yield* tagOf(set("compatible", null, { model: "qwen3" })), "IncompleteProvider")
        assert.deepStrictEqual([yield* list, yield* keys], [[before], { openai: CANARY }])
      }))

    it.effect("has one default at most", () =>
      Effect.gen(function*() {
        yield* nothing
        const marked = Effect.map(list, (all) => all.filter(({ isDefault }) => isDefault).map(({ provider }) => provider))
        yield* set("openai", CANARY, { isDefault: true })
        yield* set("anthropic", CANARY)
        assert.deepStrictEqual(yield* marked, ["openai"])
        yield* set("anthropic", CANARY, { isDefault: true })
        assert.deepStrictEqual(yield* marked, ["anthropic"])
        yield* set("anthropic", null)
        assert.deepStrictEqual(yield* marked, [])
        yield* Effect.forEach(["openai", "anthropic", "xai"] as const, (name) => set(name, CANARY, { isDefault: true }), {
          concurrency: "unbounded"
        })
        assert.lengthOf(yield* marked, 1)
      }))

    it.effect("removes a provider with its key, and finds none that is not there", () =>
      Effect.gen(function*() {
        yield* nothing
        yield* set("openai", CANARY)
        yield* set("xai", "sk-another")
        yield* remove("openai")
        assert.deepStrictEqual([(yield* list).map(({ provider }) => provider), yield* keys], [["xai"], { xai: "sk-another" }])
        assert.strictEqual(yield* tagOf(remove("openai")), "ProviderNotFound")
        // A key that is set again is a new one.
        assert.strictEqual((yield* set("openai", null)).hasKey, false)
      }))

    it.effect("appends each change to the audit log, without the key", () =>
      Effect.gen(function*() {
        yield* nothing
        const entries = yield* appended(Effect.gen(function*() {
          yield* set("openai", CANARY)
          yield* Effect.ignore(set("compatible", null))
          yield* remove("openai")
          yield* Effect.ignore(remove("openai"))
        }))
        assert.deepStrictEqual(entries, [
          { action: "model_provider.set", at, subjects: { provider: "openai" } },
          { action: "model_provider.removed", at: later, subjects: { provider: "openai" } }
        ])
      }))
  })
