/**
 * The rules of `Workers`, and of the `SandboxDashboard` that shows the same workers. An adapter proves itself by running this suite
 * against its layer; a rule that is not here is not part of the port.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { FORGOTTEN_SECONDS, GONE_SECONDS, MAX_WORKERS, type WorkerReport, Workers } from "@slipway/domain/sandbox/ports/Workers"
import { terminate } from "@slipway/domain/sandbox/rules/Command"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { asking, at, command, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"

/** Lets seconds pass since the last report of every worker. */
export class WorkersFixture extends Context.Service<WorkersFixture, {
  readonly age: (seconds: number) => Effect.Effect<void>
}>()("@slipway/testing/WorkersFixture") {}

const report = (worker: string, more: Partial<WorkerReport> = {}): WorkerReport => ({
  worker,
  machine: "machine-1",
  slots: { all: 8, taken: 3 },
  agents: { all: 32, taken: 5 },
  boots: { all: 8, taken: 1 },
  isDraining: false,
  ...more
})

/** For every store: one without workers. */
export const suite = (name: string, layer: Layer.Layer<Workers | WorkersFixture | SandboxDashboard | Stores, unknown>) =>
  define(`Workers (${name})`, layer, (it) => {
    it.effect("lists the last report of each worker, in the order of machines, without workers that left", () =>
      Effect.gen(function*() {
        const workers = yield* Workers
        assert.deepStrictEqual(yield* workers.list, [])
        const last = report("c", {
          slots: { all: 2, taken: 3 },
          agents: { all: 4, taken: 4 },
          boots: { all: 1, taken: 0 },
          isDraining: true
        })
        const names = Effect.map(workers.list, (list) => list.map(({ worker }) => worker))
        const elsewhere = [report("b", { machine: "Zürich" }), report("a", { machine: "Zürich" }), report("d", { machine: "Aachen" })]
        for (const one of [...elsewhere, report("c"), last]) yield* workers.report(one)
        assert.deepStrictEqual(yield* names, ["d", "a", "b", "c"])
        assert.deepInclude((yield* workers.list)[3], { ...last, isThere: true })
        yield* workers.leave("a")
        assert.deepStrictEqual(yield* names, ["d", "b", "c"])
        for (const worker of ["b", "c", "c", "d"]) yield* workers.leave(worker)
        assert.deepStrictEqual(yield* workers.list, [])
      }))

    it.effect("tells when each was heard of last", () =>
      Effect.gen(function*() {
        const workers = yield* Workers
        const { age } = yield* WorkersFixture
        for (const worker of ["a", "b"]) yield* workers.report(report(worker))
        yield* age(50)
        yield* workers.report(report("b"))
        const [a, b] = yield* workers.list
        assert(a !== undefined && b !== undefined)
        assert.isAtLeast(b.seenAt.epochMilliseconds - a.seenAt.epochMilliseconds, 50_000)
        for (const worker of ["a", "b"]) yield* workers.leave(worker)
      }))

    it.effect("tells of the first, where there are more than it tells of", () =>
      Effect.gen(function*() {
        const workers = yield* Workers
        const names = Array.from({ length: MAX_WORKERS + 1 }, (_, i) => `w${String(i).padStart(3, "0")}`)
        yield* Effect.forEach(names.toReversed(), (worker) => workers.report(report(worker)), { concurrency: 8 })
        assert.deepStrictEqual((yield* workers.list).map(({ worker }) => worker), names.slice(0, -1))
        yield* Effect.forEach(names, (worker) => workers.leave(worker), { concurrency: 8 })
      }))

    it.effect("holds one for gone that says nothing, tells of it for a while, and takes it back", () =>
      Effect.gen(function*() {
        const workers = yield* Workers
        const { age } = yield* WorkersFixture
        const isThere = Effect.map(workers.list, (list) => list.map(({ isThere }) => isThere))
        yield* workers.report(report("a"))
        yield* age(GONE_SECONDS - 10)
        assert.deepStrictEqual(yield* isThere, [true])
        yield* age(11)
        assert.deepStrictEqual(yield* isThere, [false])
        yield* workers.report(report("a"))
        assert.deepStrictEqual(yield* isThere, [true])
        yield* age(FORGOTTEN_SECONDS + 1)
        assert.deepStrictEqual(yield* isThere, [])
        yield* workers.leave("a")
      }))

    it.effect("tells those who wait how many can be at work, and how many are: not those that wait for a person", () =>
      Effect.gen(function*() {
        const workers = yield* Workers
        const dashboard = yield* SandboxDashboard
        const { age } = yield* WorkersFixture
        const grantId = yield* (yield* StoreFixture).grant
        const line = Effect.map(dashboard.queue(grantId), ({ atWork, slots }) => ({ atWork, slots }))
        assert.deepStrictEqual(yield* line, { atWork: 0, slots: 0 })
        yield* workers.report(report("gone", { slots: { all: 100, taken: 0 } }))
        yield* age(GONE_SECONDS + 1)
        yield* workers.report(report("a"))
        yield* workers.report(report("b", { slots: { all: 2, taken: 0 } }))
        yield* workers.report(report("leaves", { slots: { all: 100, taken: 0 }, isDraining: true }))
        const boots = yield* make()
        yield* leased(boots.id)
        assert.deepStrictEqual(yield* line, { atWork: 1, slots: 10 })
        const { sandbox } = yield* asking
        yield* leased(sandbox.id)
        assert.deepStrictEqual(yield* line, { atWork: 1, slots: 10 })
        for (const worker of ["gone", "a", "b", "leaves"]) yield* workers.leave(worker)
        for (const one of [boots, sandbox]) yield* command(keyOf(one), terminate(yield* Ids), at)
        // To end one, no agent is needed.
        assert.deepStrictEqual(yield* line, { atWork: 0, slots: 0 })
      }))
  })
