/**
 * What every `Setups` must do, beside the `SandboxStore`, `Leases` and `Upkeep` of the same rows. An adapter proves itself by running
 * this suite against its layer; a rule that is not here is not part of the port.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Ids } from "../src/Ids.ts"
import { terminate } from "../src/sandbox/Command.ts"
import { LEASE_SECONDS } from "../src/sandbox/Leases.ts"
import { MAX_SETUP_OUTPUT, type SetupRecord, Setups } from "../src/sandbox/Setups.ts"
import { Upkeep } from "../src/sandbox/Upkeep.ts"
import { assert } from "./Assert.ts"
import { at, command, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"
import { define } from "./Suite.ts"

const began: SetupRecord = {
  state: "running",
  startedAt: at,
  ms: null,
  cache: "miss",
  exitCode: null,
  output: "npm ci\n",
  told: null
}

export const suite = (name: string, layer: Layer.Layer<Stores | Setups, unknown>) =>
  define(`Setups (${name})`, layer, (it) => {
    it.effect("keeps the newest record of a sandbox as it was saved, and of another one nothing", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const [one, other] = [yield* make(), yield* make()]
        const { lease } = yield* leased(one.id)
        assert.isNull(yield* setups.find(one.id))
        yield* setups.save(lease, began)
        assert.deepStrictEqual(yield* setups.find(one.id), began)
        const output = `é'"\\\u{1F680}\u001b[31m\r\n${"x".repeat(MAX_SETUP_OUTPUT - 20)}`
        const failed: SetupRecord = {
          state: "failed",
          startedAt: DateTime.add(at, { seconds: 1 }),
          ms: 3_600_000,
          cache: "none",
          exitCode: 127,
          output,
          told: "# Setup\n"
        }
        yield* setups.save(lease, failed)
        assert.deepStrictEqual(yield* setups.find(one.id), failed)
        assert.isNull(yield* setups.find(other.id))
      }))

    it.effect("takes nothing from a worker whose lease is another's by now, or that never had one", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const { ageLease } = yield* StoreFixture
        const { id } = yield* make()
        const { lease } = yield* leased(id)
        yield* ageLease(id, LEASE_SECONDS)
        const { lease: next } = yield* leased(id)
        assert.strictEqual((yield* Effect.flip(setups.save(lease, began)))._tag, "StaleLease")
        assert.isNull(yield* setups.find(id))
        yield* setups.save(next, began)
        const nobodys = { ...next, fence: next.fence + 1 }
        assert.strictEqual((yield* Effect.flip(setups.save(nobodys, { ...began, output: "nobody's" })))._tag, "StaleLease")
        assert.strictEqual((yield* Effect.flip(setups.save(lease, { ...began, output: "late" })))._tag, "StaleLease")
        assert.deepStrictEqual(yield* setups.find(id), began)
      }))

    it.effect("forgets the record with the events of its sandbox, and keeps those of others", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const upkeep = yield* Upkeep
        const withSetup = Effect.tap(make(), ({ id }) => Effect.flatMap(leased(id), ({ lease }) => setups.save(lease, began)))
        const [over, live] = [yield* withSetup, yield* withSetup]
        yield* command(keyOf(over), terminate(yield* Ids), at)
        yield* upkeep.purgeEvents(DateTime.subtract(at, { seconds: 1 }), 10_000)
        assert.deepStrictEqual(yield* setups.find(over.id), began)
        yield* upkeep.purgeEvents(at, 10_000)
        assert.isNull(yield* setups.find(over.id))
        assert.deepStrictEqual(yield* setups.find(live.id), began)
      }))
  })
