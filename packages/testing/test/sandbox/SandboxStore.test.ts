import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { terminate } from "@slipway/domain/sandbox/rules/Command"
import { creation } from "@slipway/testing/histories/Histories"
import { register } from "@slipway/testing/runners/Vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"
import { suites } from "./SandboxStore.suites.ts"
import { layer } from "./Stores.ts"

for (const suite of suites()) register(suite)

it.effect("memory: no other fiber runs between what a transaction reads and what it writes", () =>
  Effect.gen(function*() {
    const store = yield* SandboxStore
    const ids = yield* Ids
    yield* store.create({ creation, keyed: null })
    const now = yield* DateTime.now
    const twice = Array.from({ length: 2 }, () => store.command({ grantId: creation.grantId, id: creation.id }, terminate(ids), now))
    const answers = yield* Effect.all(twice, { concurrency: 2 })
    assert.deepStrictEqual(answers.map(({ result: { outcome } }) => outcome).toSorted(), ["applied", "duplicate"])
  }).pipe(
    // Each fiber makes room for the others as often as it can.
    Effect.provideService(Scheduler.MaxOpsBeforeYield, 3),
    Effect.provide(layer)
  ))
