import { assert, it } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import * as ModelProviderStoreMemory from "@slipway/domain/memory/models/ModelProviderStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as Models from "../../../src/service/Models.ts"
import * as Settings from "../../../src/settings/Settings.ts"
import { folder } from "../SlipwayProcess.ts"

const ID = "anthropic/claude-opus-5-5"
const KEY = "plain-canary-of-a-key-7Qm2"
const OWN = "https://api.anthropic.com/v1"

const stores = ModelProviders.layer.pipe(Layer.provideMerge(Layer.merge(ModelProviderStoreMemory.layer, HintsMemory.layer)))

/** Files as of an installed agent. */
const install = (dataDir: string) => {
  const program = profiles["claude"]?.program ?? assert.fail()
  const modules = path.join(Installed.folderIn(dataDir), "node_modules")
  const binary = path.join(modules, program.binaries(Installed.thisPlatform())[0] ?? "")
  mkdirSync(path.dirname(binary), { recursive: true })
  mkdirSync(path.join(modules, program.package), { recursive: true })
  writeFileSync(path.join(modules, program.package, "package.json"), JSON.stringify({ version: program.version }))
  writeFileSync(binary, "")
  chmodSync(binary, 0o755)
}

const following = Effect.gen(function*() {
  const settings = { ...yield* Settings.load, dataDir: yield* folder }
  const live = yield* Models.follow(settings, { ...yield* Models.find(settings), keys: new Map(), environment: new Set() })
  const problems = Effect.sync(() => live.here(null).checked.find(({ model }) => model.id === ID)?.problems ?? [])
  return { dataDir: settings.dataDir, live, problems }
})

/** Lets the clock go on until the look shows it. Files are read in real time, so a refresh ends some turns of the event loop later. */
const eventually = <A>(look: Effect.Effect<A>, wanted: (found: A) => boolean): Effect.Effect<A> =>
  Effect.gen(function*() {
    const found = yield* look
    if (wanted(found)) return found
    yield* TestClock.adjust("5 seconds")
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    return yield* eventually(look, wanted)
  })
const change = { provider: "anthropic", key: Redacted.make(KEY), baseUrl: null, model: null, isDefault: true } as const
const keyAt = (live: Models.LiveModels, baseUrl: string) => {
  const key = live.keys.get("ANTHROPIC_API_KEY", baseUrl)
  return key === undefined ? null : Redacted.value(key)
}

it.effect("a running process notices an installed agent and a stored key, and forgets a removed one", () =>
  Effect.gen(function*() {
    const { dataDir, live, problems } = yield* following
    const providers = yield* ModelProviders
    assert.lengthOf(yield* problems, 2)
    assert.deepStrictEqual([keyAt(live, OWN), live.everything().default], [null, "offline/demo"])
    install(dataDir)
    assert.deepStrictEqual(yield* eventually(problems, ({ length }) => length === 1), [
      "There is no key: run slipway setup, or set ANTHROPIC_API_KEY."
    ])
    yield* providers.set(change)
    assert.deepStrictEqual(yield* eventually(problems, ({ length }) => length === 0), [])
    assert.deepStrictEqual([keyAt(live, OWN), live.everything().default], [KEY, ID])
    assert.notInclude(yield* Redaction.useSync((redaction) => redaction.redact(`the key ${KEY}`)), KEY)
    yield* providers.remove("anthropic")
    yield* eventually(problems, ({ length }) => length === 1)
    assert.deepStrictEqual([keyAt(live, OWN), live.everything().default], [null, "offline/demo"])
  }).pipe(Effect.scoped, Effect.provide(stores)))

it.effect("gives a stored key to its own address alone, also where requests still go to the address before", () =>
  Effect.gen(function*() {
    const { live } = yield* following
    const providers = yield* ModelProviders
    const elsewhere = "https://models.acme.example/v1"
    yield* providers.set({ ...change, baseUrl: elsewhere })
    const key = Effect.sync(() => keyAt(live, elsewhere))
    assert.strictEqual(yield* eventually(key, (found) => found !== null), KEY)
    assert.isNull(keyAt(live, OWN))
    yield* providers.set({ ...change, key: Redacted.make("sk-another-key") })
    assert.isNull(yield* eventually(key, (found) => found === null))
    assert.strictEqual(keyAt(live, OWN), "sk-another-key")
  }).pipe(Effect.scoped, Effect.provide(stores)))

it.effect("a key of the environment wins over a stored one, and goes to no stored address", () =>
  Effect.gen(function*() {
    const settings = { ...yield* Settings.load, dataDir: yield* folder }
    const keys = new Map([["ANTHROPIC_API_KEY", Redacted.make("sk-of-the-environment")]])
    yield* (yield* ModelProviders).set({ ...change, baseUrl: "https://models.acme.example/v1" })
    const live = yield* Models.follow(settings, { ...yield* Models.find(settings), keys, environment: new Set(keys.keys()) })
    const { file } = live.here(null)
    assert.strictEqual(file.models.find(({ id }) => id === ID)?.upstream?.baseUrl, OWN)
    assert.strictEqual(keyAt(live, OWN), "sk-of-the-environment")
  }).pipe(Effect.scoped, Effect.provide(stores)))
