/** A law is worth something only if a broken store breaks it: each of these stores has one defect. */
import { assert, describe, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { type StoreLaw, storeLaws } from "@slipway/testing/laws/Laws"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

type Store = SandboxStore["Service"]

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(StoreFixture)({ grant: ids.uuid7 })))

const withDefect = (plant: (store: Store) => Partial<Store>) =>
  Layer.effect(SandboxStore, Effect.map(SandboxStore, (store) => SandboxStore.of({ ...store, ...plant(store) }))).pipe(
    Layer.provide(SandboxStoreMemory.layer),
    Layer.merge(Fixture),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layerSeeded("planted")))
  )

describe("the laws notice a store that", () => {
  const notices = <A>(
    defect: string,
    { given, holds }: StoreLaw<A, SandboxStore | Ids | StoreFixture>,
    plant: (store: Store) => Partial<Store>
  ) =>
    it.effect(defect, () =>
      Effect.gen(function*() {
        const result = yield* Arbitrary.checkEffect(
          given,
          (value) => Effect.as(holds(value), true).pipe(Effect.catchCause(() => Effect.succeed(false))),
          {
            runs: 40,
            maxShrinks: 20
          }
        )
        assert.strictEqual(result._tag, "Falsified")
      }).pipe(Effect.provide(withDefect(plant))))

  notices("loses the first event of a log", storeLaws.reachable, (store) => ({
    log: (id, after, limit) => store.log(id, Math.max(after, 1), limit)
  }))
  notices("loses an event in the middle of a log", storeLaws.replay, (store) => ({
    log: (id, after, limit) => Effect.map(store.log(id, after, limit), (entries) => entries.filter(({ seq }) => seq !== 3))
  }))
  notices("goes on counting after the end", storeLaws.final, (store) => {
    let reads = 0
    return { find: (key) => Effect.map(store.find(key), (sandbox) => ({ ...sandbox, revision: sandbox.revision + reads++ })) }
  })
  notices("answers a repeated command as if it were the first", storeLaws.identity, (store) => ({
    command: (key, command, now, keyed) =>
      Effect.map(
        store.command(key, command, now, keyed),
        ({ result, ...recorded }) => ({ ...recorded, result: { ...result, outcome: "applied" } })
      )
  }))
  notices("forgets who decided", storeLaws.firstDecision, (store) => ({
    approvals: (id, ids) =>
      Effect.map(store.approvals(id, ids), (known) => known.map((approval) => ({ ...approval, by: "timeout" as const })))
  }))
  notices(
    "ignores idempotency keys",
    storeLaws.idempotency,
    (store) => ({ create: (request) => store.create({ ...request, keyed: null }) })
  )
  notices("keeps keys for all grants together", storeLaws.idempotency, (store) => {
    const users = new Map<string, string>()
    return {
      create: ({ creation, keyed }) => {
        const grantId = keyed === null ? creation.grantId : users.get(keyed.key) ?? creation.grantId
        if (keyed !== null) users.set(keyed.key, grantId)
        return store.create({ creation: { ...creation, grantId }, keyed })
      }
    }
  })
  notices("finds sandboxes of any grant", storeLaws.isolation, (store) => {
    const owners = new Map<SandboxId, string>()
    return {
      create: (request) => {
        owners.set(request.creation.id, request.creation.grantId)
        return store.create(request)
      },
      find: ({ grantId, id }) => store.find({ grantId: owners.get(id) ?? grantId, id })
    }
  })
})
