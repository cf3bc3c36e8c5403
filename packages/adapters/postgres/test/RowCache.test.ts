import { assert, it, layer } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_SECONDS, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore, type Writer } from "@slipway/domain/sandbox/ports/SandboxStore"
import { initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { partId, type SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { at, eventsOf, leased, machine, running, StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { Context, Effect, Layer, Result, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import { RowCache } from "../src/sandbox-store/rows/RowCache.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import { stores } from "./Stores.ts"

const said = (turn: string, text: string): SandboxEvent => ({
  type: "message.updated",
  turn_id: turn,
  data: { part_id: partId.text("m"), message_id: "m", kind: "text", text }
})

/** A sandbox at work that `here` wrote last, and the store of another process over the same rows. */
const twoProcesses = Effect.gen(function*() {
  const here = yield* SandboxStore
  const there = Context.get(yield* Layer.build(Layer.fresh(SandboxStorePostgres.layer)), SandboxStore)
  const { sandbox, turn } = yield* running
  const say = (store: SandboxStore["Service"], text: string, by: Writer = "policy") =>
    store.change(sandbox.id, by, () => Result.succeed([said(turn, text)]), at)
  return { here, there, sandbox, say }
})

/** All that was said, by the log: in order, and without a number missing. */
const toldBy = Effect.fnUntraced(function*({ id }: Sandbox) {
  const events = yield* eventsOf(id)
  assert.deepStrictEqual(events.map(({ seq }) => seq), events.map((_, i) => i + 1))
  return events.flatMap(({ event }) => event.type === "message.updated" && event.data.kind === "text" ? [event.data.text] : [])
})

/** How many transactions of several statements it took. */
const transactionsOf = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const names: Array<string> = []
    const tracer = Tracer.make({
      span: (options) => {
        names.push(options.name)
        return new Tracer.NativeSpan(options)
      }
    })
    return Effect.map(Effect.withTracer(self, tracer), () => names.filter((name) => name === "sql.transaction").length)
  })

layer(stores(CheckpointsPostgres.layer))("a sandbox that this process wrote last", (it) => {
  it.effect("is changed by one statement, and is what it would have been by several", () =>
    Effect.gen(function*() {
      const { here, sandbox, say } = yield* twoProcesses
      assert.strictEqual(yield* transactionsOf(say(here, "one")), 0)
      const { before, sandbox: after } = yield* say(here, "two")
      assert.strictEqual(before.lastSeq, sandbox.lastSeq + 1)
      assert.deepStrictEqual(yield* here.find(sandbox), after)
      assert.deepStrictEqual(yield* toldBy(sandbox), ["one", "two"])
    }))

  it.effect("is decided on as another process left it", () =>
    Effect.gen(function*() {
      const { here, sandbox, say, there } = yield* twoProcesses
      const theirs = yield* say(there, "theirs")
      const ours = yield* say(here, "ours")
      assert.deepStrictEqual(ours.before, theirs.sandbox)
      assert.deepStrictEqual(yield* toldBy(sandbox), ["theirs", "ours"])
    }))

  it.effect("is refused by what it is, whatever it was, and leaves what was decided before unwritten", () =>
    Effect.gen(function*() {
      const { here, sandbox, say, there } = yield* twoProcesses
      yield* say(there, "theirs")
      const judged: Array<number> = []
      const refused = yield* Effect.flip(here.change(sandbox.id, "policy", ({ lastSeq }) => {
        judged.push(lastSeq)
        return lastSeq === sandbox.lastSeq ? Result.succeed([said(sandbox.turn?.id ?? "", "too late")]) : Result.fail("refused" as const)
      }, at))
      assert.strictEqual(refused, "refused")
      assert.deepStrictEqual(judged, [sandbox.lastSeq, sandbox.lastSeq + 1])
      assert.deepStrictEqual(yield* toldBy(sandbox), ["theirs"])
    }))

  it.effect("is not changed under a lease that another worker has by now", () =>
    Effect.gen(function*() {
      const { here, sandbox, say } = yield* twoProcesses
      const fixture = yield* StoreFixture
      const { lease } = yield* leased(sandbox.id)
      yield* say(here, "first", lease)
      yield* fixture.ageLease(sandbox.id, LEASE_SECONDS)
      const other = yield* leased(sandbox.id, { ...machine, worker: "worker-2" })
      assert.isAbove(other.lease.fence, lease.fence)
      assert.strictEqual((yield* Effect.flip(say(here, "late", lease)))._tag, "StaleLease")
      yield* say(here, "second", other.lease)
      assert.strictEqual((yield* Effect.flip(say(here, "later", lease)))._tag, "StaleLease")
      assert.deepStrictEqual(yield* toldBy(sandbox), ["first", "second"])
    }))

  it.effect("is not changed by another grant", () =>
    Effect.gen(function*() {
      const { here, sandbox, say } = yield* twoProcesses
      const { grant } = yield* StoreFixture
      assert.strictEqual((yield* Effect.flip(say(here, "not mine", { grantId: yield* grant })))._tag, "SandboxNotFound")
      yield* say(here, "mine", { grantId: sandbox.grantId })
      assert.deepStrictEqual(yield* toldBy(sandbox), ["mine"])
    }))

  it.effect("is known again once its lease was renewed", () =>
    Effect.gen(function*() {
      const { here, sandbox, say } = yield* twoProcesses
      const { lease } = yield* leased(sandbox.id)
      yield* say(here, "first", lease)
      yield* (yield* Leases).renew([lease])
      assert.strictEqual(yield* transactionsOf(say(here, "second", lease)), 1)
      assert.strictEqual(yield* transactionsOf(say(here, "third", lease)), 0)
      assert.deepStrictEqual(yield* toldBy(sandbox), ["first", "second", "third"])
    }))

  it.effect("is not known by what was rolled back", () =>
    Effect.gen(function*() {
      const { here, sandbox, say, there } = yield* twoProcesses
      const sql = yield* SqlClient.SqlClient
      const undone = Effect.andThen(say(here, "undone"), Effect.fail("undone" as const))
      assert.strictEqual(yield* Effect.flip(sql.withTransaction(undone)), "undone")
      // It has the number that the other one had.
      yield* say(there, "theirs")
      yield* say(here, "ours")
      assert.deepStrictEqual(yield* toldBy(sandbox), ["theirs", "ours"])
    }))

  it.effect("takes what several processes write at once in some order, each on top of what was before", () =>
    Effect.gen(function*() {
      const { here, sandbox, say, there } = yield* twoProcesses
      const texts = Array.from({ length: 24 }, (_, i) => `${i}`)
      const written = yield* Effect.forEach(texts, (text, i) => say(i % 2 === 0 ? here : there, text), { concurrency: "unbounded" })
      const told = yield* toldBy(sandbox)
      assert.deepStrictEqual(told.toSorted(), texts.toSorted())
      for (const [i, { before, sandbox: after }] of written.entries()) {
        assert.strictEqual(told[before.lastSeq - sandbox.lastSeq], texts[i])
        assert.strictEqual(after.lastSeq, before.lastSeq + 1)
      }
    }))
})

it("those written last are remembered, of sandboxes at work where no message waits", () => {
  const sandbox = initial({
    id: SandboxId.make("c_222222222222"),
    grantId: "g",
    createdBy: "user",
    title: "",
    repos: [],
    prompt: "",
    model: "offline/demo",
    agentRuntime: "opencode",
    reasoningEffort: null,
    toolApprovalMode: "auto",
    metadata: {},
    origin: null,
    continues: null,
    createdAt: at
  })
  const rows = new RowCache()
  const row = (n: number, more: Partial<Sandbox> = {}) => ({
    sandbox: { ...sandbox, ...more, id: `c_${n}` as SandboxId },
    fence: 1,
    version: "1"
  })
  const isKnown = (n: number) => rows.find(row(n).sandbox.id) !== undefined
  for (let n = 0; n < 100; n++) {
    rows.remember(row(n))
    rows.remember(row(0))
  }
  assert.deepStrictEqual(Array.from({ length: 100 }, (_, n) => n).filter(isKnown), [0, ...Array.from({ length: 63 }, (_, i) => 37 + i)])
  rows.remember(row(0, { status: "terminated" }))
  const waiting = { id: "00000000-0000-7000-8000-000000000000", author: { id: "user" } } as unknown as Sandbox["waiting"][number]
  rows.remember(row(99, { waiting: [waiting] }))
  assert.deepStrictEqual([0, 98, 99].map(isKnown), [false, true, false])
})
