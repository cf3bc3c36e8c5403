/** Writing the new state of a sandbox with its events. */
import { Appended, topicsOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { projectionOf } from "@slipway/domain/sandbox/rules/EventProjection"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { type DateTime, Effect } from "effect"
import type { CachedRow } from "./rows/RowCache.ts"
import { updateSandbox } from "./statements/updateSandbox.ts"
import type { Store } from "./Store.ts"

/**
 * Writes what the events make of the sandbox, by one statement, if the row still is as `row` says. `null`: another transaction changed it,
 * and nothing was written. `fence`: of the writing worker's lease; `null`: no worker writes. Hints go out after the commit.
 */
export const write = Effect.fnUntraced(function*(
  store: Store,
  row: CachedRow,
  events: ReadonlyArray<SandboxEvent>,
  now: DateTime.Utc,
  fence: number | null = null
) {
  const before = row.sandbox
  if (events.length === 0) return before
  const recording = projectionOf(before, events, now)
  const { entries, sandbox } = recording
  const [changed] = yield* updateSandbox(store, row, events, recording, fence)
  if (changed === undefined) return null
  yield* store.sql.afterCommit(Effect.andThen(
    Effect.sync(() => store.known.remember({ sandbox, fence: row.fence, version: changed.version })),
    store.hints.publish(topicsOf({ before, events, sandbox }), new Appended(entries))
  ))
  return sandbox
})

/** As `write`, of a row that this transaction has locked: it cannot have changed. */
export const writeLocked = (
  store: Store,
  row: CachedRow,
  events: ReadonlyArray<SandboxEvent>,
  now: DateTime.Utc,
  fence?: number | null
) =>
  Effect.flatMap(
    write(store, row, events, now, fence),
    (sandbox) => sandbox === null ? Effect.die(new Error("a sandbox changed while it was locked")) : Effect.succeed(sandbox)
  )
