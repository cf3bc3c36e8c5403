/** The rows of checkpoints: the contents of puts, the record that makes one a checkpoint, and the sandboxes to prune. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { type Checkpoint, CheckpointNotFound, letGo } from "../ports/Checkpoints.ts"
import type { Origin, Sandbox } from "../rules/Sandbox.ts"
import type { SandboxEvent } from "../rules/SandboxEvent.ts"
import type { ContentRow, Statements } from "./Statements.ts"

type Details = Pick<Checkpoint, "repos" | "turnId">

/** The checkpoint of a recorded content. */
export const checkpointOf = ({ bytes, checkpoint, details, recordedAt }: ContentRow): Checkpoint | null =>
  recordedAt === null || bytes === null || details === null ? null : {
    checkpoint,
    createdAt: DateTime.makeUnsafe(recordedAt),
    bytes,
    ...JSON.parse(details) as Details
  }

const isRecorded = ({ recordedAt }: ContentRow) => recordedAt !== null

/** Has `Checkpoints.prune` look at these sandboxes. */
export const mark = ({ save }: Statements, ids: ReadonlyArray<SandboxId>) =>
  ids.length === 0 ? Effect.void : save("prunes", ids.map((sandboxId) => ({ sandboxId, dueAt: 0 })))

/** Keeps what a fork starts with. Fails if that is not stored. */
export const holdStart = Effect.fnUntraced(function*(statements: Statements, { checkpoint, sandboxId }: Origin) {
  const [sandbox] = yield* statements.sandboxes([sandboxId])
  if (sandbox?.deletedAt !== null) return yield* new CheckpointNotFound()
  const content = (yield* statements.contents(sandboxId)).find((one) => isRecorded(one) && one.checkpoint === checkpoint)
  if (content === undefined) return yield* new CheckpointNotFound()
  yield* statements.save("contents", [{ ...content, forks: content.forks + 1 }])
})

const letGoOfStart = Effect.fnUntraced(function*({ contents, save }: Statements, { checkpoint, sandboxId }: Origin) {
  const held = (yield* contents(sandboxId)).filter((one) => isRecorded(one) && one.checkpoint === checkpoint)
  yield* save("contents", held.map((content) => ({ ...content, forks: content.forks - 1 })))
})

/** Makes the last put of the lease visible for each recorded checkpoint. Marks what may be pruned after the change. */
export const recordCheckpoints = Effect.fnUntraced(function*(
  statements: Statements,
  change: { readonly before: Sandbox; readonly sandbox: Sandbox },
  events: ReadonlyArray<SandboxEvent>,
  at: DateTime.Utc,
  fence: number | null
) {
  const { contents, save } = statements
  const { id, origin } = change.sandbox
  const recorded = events.flatMap(({ data, type }) => type === "sandbox.checkpoint" && data.checkpoint !== undefined ? [data] : [])
  let areLeft = false
  for (const { checkpoint, repos = [], turn_id: turnId = null } of fence === null ? [] : recorded) {
    const puts = (yield* contents(id)).filter((one) => !isRecorded(one) && one.checkpoint === checkpoint)
    const last = puts.findLast((one) => one.fence === fence)
    areLeft = puts.length > 1
    if (last === undefined || last.bytes === null) continue
    yield* save("contents", [{ ...last, recordedAt: at.epochMilliseconds, details: JSON.stringify({ turnId, repos } satisfies Details) }])
  }
  const free = letGo(change)
  if (origin !== null && free.includes(origin.sandboxId)) yield* letGoOfStart(statements, origin)
  yield* mark(statements, areLeft ? [...new Set([...free, id])] : free)
})
