/** The store proves itself with the suite that every store of Slipway runs. */
import { assert, it } from "@effect/vitest"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/sandbox/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { sendMessage } from "@slipway/domain/sandbox/rules/Command"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import type { Hints } from "@slipway/domain/store/Hints"
import * as DurabilityContract from "@slipway/testing/contracts/sandbox/DurabilityContract"
import * as LeasesContract from "@slipway/testing/contracts/sandbox/LeasesContract"
import * as MaintenanceContract from "@slipway/testing/contracts/sandbox/MaintenanceContract"
import { at, command, drive, keyOf, running, StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as JournalStore from "../src/JournalStore.ts"

/** Its leases are of the memory beneath it: `rows` lets one of them age alone. */
const fixture = (all: SandboxRows.SandboxRows) =>
  Layer.effect(
    StoreFixture,
    Effect.gen(function*() {
      const ids = yield* Ids
      const services = yield* Effect.context<AuditLog | Hints | Ids>()
      const { rows } = all
      return StoreFixture.of({
        grant: ids.uuid7,
        ageLease: (id, seconds) =>
          Effect.sync(() => {
            const row = rows.get(id)
            if (row?.leaseUntil) row.leaseUntil = DateTime.subtract(row.leaseUntil, { seconds })
          }),
        ageWork: (ids, seconds) =>
          Effect.map(DateTime.now, (now) => {
            for (const row of rows.values()) {
              if (row.workSince !== null && ids.includes(row.sandbox.id)) row.workSince = DateTime.subtract(now, { seconds })
            }
          }),
        ageKeys: (_grantId, until) => TestClock.adjust(until === "before" ? `${RETENTION_DAYS} days` : "1 millis"),
        // What a process with other limits does to the same rows.
        under: (limits, use) =>
          Effect.scopedWith((scope) =>
            Effect.gen(function*() {
              const other = SandboxStoreMemory.over(all).pipe(
                Layer.provide(Layer.succeed(Policy, limits)),
                Layer.provide(Layer.succeedContext(services))
              )
              return yield* Effect.provideContext(use, Context.pick(SandboxStore, Maintenance)(yield* Layer.buildWithScope(other, scope)))
            })
          )
      })
    })
  )

const newJournal = () => path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")

const over = (journal: string, write?: typeof appendFileSync) =>
  Layer.unwrap(Effect.sync(() => {
    const rows = SandboxRows.make()
    return Layer.merge(JournalStore.layer(journal, SandboxStoreMemory.over(rows), write), fixture(rows))
  })).pipe(
    Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
  )

// Each suite has a file of its own: one is not to find what another has left.
register(suite("journal file", over(newJournal())))
register(LeasesContract.suite("journal file", over(newJournal())))
register(MaintenanceContract.suite("journal file", over(newJournal())))

/** Each process has memory of its own. A line is two writes: one may die when only its half is there. */
const storage = Layer.sync(DurabilityContract.Storage, () => {
  const journal = newJournal()
  let left: Buffer | null = null
  return DurabilityContract.Storage.of({
    start: Effect.suspend(() => {
      if (left !== null) writeFileSync(journal, left)
      left = null
      let writes = Number.POSITIVE_INFINITY
      const write = (part: Buffer) => {
        if (writes > 0) appendFileSync(journal, part)
        if (--writes > 0) return
        // Whatever else it does to the file, nobody was there to do it.
        left ??= readFileSync(journal)
        throw new Error("killed")
      }
      const layer = over(journal, (_file, line) => {
        const bytes = Buffer.from(line as Uint8Array)
        write(bytes.subarray(0, bytes.length / 2))
        write(bytes.subarray(bytes.length / 2))
      })
      return Effect.map(Layer.build(layer), (stores) => ({
        stores,
        killAtWrite: (n) =>
          Effect.sync(() => {
            writes = n
          })
      }))
    })
  })
})

register(DurabilityContract.suite("journal file", storage, {
  forgetsLeases: "they are in memory, as the worker is",
  forgetsPurges: "what was purged is in the file, and is purged again",
  forgetsAudit: "it is in memory: whoever needs one keeps it elsewhere"
}))

it.effect("a message that is repeated after a restart is answered with the turn that the first one started", () =>
  Effect.gen(function*() {
    const journal = newJournal()
    const send = (ids: Pick<Ids["Service"], "derive">, key: { readonly id: SandboxId; readonly grantId: string }) =>
      Effect.flatMap(SandboxStore, (store) =>
        store.command(key, sendMessage(ids, "Go on", "user-2"), at, { key: IdempotencyKey.make("m"), fingerprint: "1:a" }))
    const before = yield* Effect.gen(function*() {
      const { ids, sandbox, turn } = yield* running
      const ended = (id: string) =>
        ({ _tag: "EndTurn", turnId: id, state: "succeeded" }) as const
      yield* drive(sandbox, [ended(turn)])
      const sent = yield* send(ids, keyOf(sandbox))
      const second = turnId(ids, sandbox.id, 2)
      assert.strictEqual(sent.turnId, second)
      yield* drive(sandbox, [{ _tag: "StartTurn", turnId: second }, ended(second)])
      yield* command(keyOf(sandbox), sendMessage(ids, "And now?", "user-2"), at)
      return { ids, key: keyOf(sandbox), second }
    }).pipe(Effect.provide(over(journal)))
    const { result, turnId: answered } = yield* Effect.provide(send(before.ids, before.key), over(journal))
    assert.deepStrictEqual([result.outcome, answered], ["duplicate", before.second])
  }))
