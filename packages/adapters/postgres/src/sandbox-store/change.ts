/** Changes that a worker, a request of a grant or the service's own rules decide. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { OpenedPull } from "@slipway/domain/sandbox/ports/SandboxFacts"
import type { Writer } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { Context, type DateTime, Effect, Result } from "effect"
import { guard } from "../sql/SqlFailure.ts"
import type { CachedRow } from "./rows/RowCache.ts"
import { selectSandbox } from "./statements/selectSandbox.ts"
import type { Store } from "./Store.ts"
import { write, writeLocked } from "./write.ts"

type Decide<E> = (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>

const fenceOf = (by: Writer): number | null => by !== "policy" && "fence" in by ? by.fence : null
/** Whether the writer may change the row. */
const isBy = ({ fence, sandbox }: CachedRow, by: Writer): boolean =>
  by === "policy" || ("fence" in by ? by.fence === fence : by.grantId === sandbox.grantId)

/**
 * Decides on the row as this process wrote it last, without reading it: the statement writes only if the row still is that version. `null`:
 * the row has to be read. Never inside a transaction of the caller.
 */
const changeKnown = <E>(store: Store, id: SandboxId, by: Writer, decide: Decide<E>, now: DateTime.Utc) =>
  Effect.contextWith((context: Context.Context<never>) => {
    const row = Context.getOrUndefined(context, store.sql.transactionService) === undefined ? store.known.find(id) : undefined
    if (row === undefined || !isBy(row, by)) return Effect.succeed(null)
    const events = Result.getOrElse(decide(row.sandbox), () => [])
    // A refusal, or a decision that changes nothing, must be made on the stored row.
    if (events.length === 0) return Effect.succeed(null)
    return Effect.map(
      // Not interruptible: a committed change must be hinted.
      guard(Effect.uninterruptible(write(store, row, events, now, fenceOf(by)))),
      (sandbox) => sandbox === null ? null : { before: row.sandbox, events, sandbox }
    )
  })

/** One statement if this process knows the row; otherwise a transaction that locks the row, decides and writes. */
export const change = Effect.fn("SandboxStore.change")(
  function*<E>(store: Store, id: SandboxId, by: Writer, decide: Decide<E>, now: DateTime.Utc) {
    const { sql, tellOpened } = store
    const opened = yield* OpenedPull
    const changed = opened === null ? yield* changeKnown(store, id, by, decide, now) : null
    if (changed !== null) return changed
    return yield* guard(sql.withTransaction(Effect.gen(function*() {
      const found = selectSandbox(store, { id, ...(by !== "policy" && "grantId" in by ? { grantId: by.grantId } : {}) }, true)
      const row = yield* fenceOf(by) === null ? found : Effect.catchTag(found, "SandboxNotFound", () => Effect.fail(new StaleLease()))
      if (!isBy(row, by)) return yield* new StaleLease()
      const before = row.sandbox
      const events = yield* Effect.fromResult(decide(before))
      const sandbox = yield* writeLocked(store, row, events, now, fenceOf(by))
      if (opened !== null && events.length > 0) yield* tellOpened(id, opened, now)
      return { before, events, sandbox }
    })))
  }
)
