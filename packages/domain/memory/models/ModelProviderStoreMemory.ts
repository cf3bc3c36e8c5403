/** `ModelProviderStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Scheduler from "effect/Scheduler"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { ModelProviderStore, ProviderNotFound, told } from "../../src/models/ports/ModelProviderStore.ts"
import { decide } from "../../src/models/rules/ModelProviders.ts"
import type { ModelProvider, ProviderName } from "../../src/models/schema/ModelProvider.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

interface Kept {
  readonly record: ModelProvider
  readonly key: Redacted.Redacted | null
}

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
  ModelProviderStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    let all: ReadonlyMap<ProviderName, Kept> = new Map()
    return ModelProviderStore.of({
      set: Effect.fnUntraced(function*(change, at) {
        const { isDefault, key, provider } = change
        const before = all.get(provider)
        const record = yield* Effect.fromResult(decide(before?.record ?? null, change, at))
        const others = Array.from(all, ([name, kept]): readonly [ProviderName, Kept] => [
          name,
          isDefault ? { ...kept, record: { ...kept.record, isDefault: false } } : kept
        ])
        all = new Map([...others, [provider, { record, key: key === "keep" ? before?.key ?? null : key }]])
        yield* audit.append([told("model_provider.set", provider, at)])
        return record
        // No other fiber runs between the check and the write.
      }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
      list: Effect.sync(() => Array.from(all.values(), ({ record }) => record).toSorted((a, b) => a.provider < b.provider ? -1 : 1)),
      remove: Effect.fnUntraced(function*(provider, at) {
        if (!all.has(provider)) return yield* new ProviderNotFound()
        all = new Map(Array.from(all).filter(([name]) => name !== provider))
        yield* audit.append([told("model_provider.removed", provider, at)])
      }),
      keys: Effect.sync(() => new Map(Array.from(all).flatMap(([name, { key }]) => key === null ? [] : [[name, key] as const])))
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
