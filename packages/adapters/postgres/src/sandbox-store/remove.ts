/** Deletion of sandboxes. */
import { deleted, SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { mayDelete } from "@slipway/domain/sandbox/rules/Sandbox"
import { type DateTime, Effect } from "effect"
import { forgetCheckpointsOf } from "../checkpoints/statements/checkpoints.ts"
import { guard } from "../sql/SqlFailure.ts"
import { bury, deleteRows, deleteSlice } from "./statements/deletion.ts"
import { selectSandbox } from "./statements/selectSandbox.ts"
import type { SandboxKey } from "./statements/selectSandboxes.ts"
import type { Store } from "./Store.ts"

/**
 * One transaction makes the sandbox a tombstone, which no reader sees, and deletes all of its rows but the rest of a long log. That rest
 * goes in further statements; `Maintenance.purgeEvents` finishes them if this process dies. Not interruptible after the commit.
 */
export const remove = Effect.fn("SandboxStore.delete")(function*(store: Store, key: SandboxKey, now: DateTime.Utc) {
  const { audit, hints, sql } = store
  const { id } = key
  yield* guard(Effect.uninterruptible(sql.withTransaction(Effect.gen(function*() {
    const { sandbox } = yield* selectSandbox(store, key, true)
    yield* Effect.fromResult(mayDelete(sandbox))
    const buried = yield* bury(sql, key, now)
    if (buried.length === 0) return yield* new SandboxNotFound()
    yield* deleteRows(sql, key)
    yield* forgetCheckpointsOf(sql, id)
    yield* deleteSlice(sql, id)
    yield* audit.append([deleted(id, now)])
    yield* sql.afterCommit(hints.publish([id]))
  }))))
  while ((yield* guard(deleteSlice(sql, id))).length > 0) continue
})
