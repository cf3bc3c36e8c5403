/** `Checkpoints` in memory, over the rows of `SandboxStoreMemory`. Only this adapter holds whole checkpoints in memory. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import {
  CheckpointNotFound,
  Checkpoints,
  CheckpointTooLarge,
  KEPT_CHECKPOINTS,
  MAX_CHECKPOINT_BYTES
} from "../../src/sandbox/ports/Checkpoints.ts"
import type { Lease, StaleLease } from "../../src/sandbox/ports/Leases.ts"
import { isSettled } from "../../src/sandbox/rules/Sandbox.ts"
import type { ChangeCounts } from "../../src/source/schema/ChangeCounts.ts"
import { type CheckpointContent, isStart, leased, type Row, type SandboxRows } from "./SandboxRows.ts"

/** Whether no running put uses the content and no record can make it visible. */
const isLeftover = ({ contents, fence, sandbox }: Row, content: CheckpointContent): boolean =>
  content.fence < fence ||
  content.checkpoint <= sandbox.checkpoint ||
  isSettled(sandbox.status) ||
  contents.findLast(({ checkpoint, fence }) => checkpoint === content.checkpoint && fence === content.fence) !== content

/** `Checkpoints` over these rows. */
export const make = (state: SandboxRows): Checkpoints["Service"] => {
  const { deleted, rows } = state

  const isKept = (row: Row, checkpoint: number, endedBefore: DateTime.Utc) => {
    const { checkpoint: newest, id, restoring, status, statusAt } = row.sandbox
    if (isStart(state, id, checkpoint)) return true
    if (!isSettled(status)) return checkpoint > newest - KEPT_CHECKPOINTS || checkpoint === restoring
    return checkpoint === newest && DateTime.isGreaterThan(statusAt, endedBefore)
  }

  return Checkpoints.of({
    put: <E, R>(lease: Lease, checkpoint: number, content: Stream.Stream<Uint8Array, E, R>, changes?: ReadonlyArray<ChangeCounts>) =>
      Effect.gen(function*() {
        const row = yield* leased(state, lease)
        const put: CheckpointContent = { checkpoint, fence: lease.fence, changes, bytes: null }
        row.contents.push(put)
        const chunks: Array<Uint8Array> = []
        let bytes = 0
        yield* Stream.runForEach(content, (chunk): Effect.Effect<void, CheckpointTooLarge | StaleLease> => {
          bytes += chunk.length
          if (bytes > MAX_CHECKPOINT_BYTES) return Effect.fail(new CheckpointTooLarge())
          chunks.push(chunk.slice())
          return Effect.asVoid(leased(state, lease))
        })
        yield* leased(state, lease)
        put.bytes = chunks
        return bytes
      }),

    get: (id, checkpoint) =>
      Stream.suspend(() => {
        const found = (rows.get(id) ?? deleted.get(id))?.checkpoints.find((kept) => kept.checkpoint === checkpoint)
        return found === undefined
          ? Stream.fail(new CheckpointNotFound())
          : Stream.map(Stream.fromIterable(found.content), (it) => it.slice())
      }),

    list: (id, after, limit) =>
      Effect.sync(() =>
        (rows.get(id)?.checkpoints ?? []).filter(({ checkpoint }) => checkpoint > after).slice(0, limit)
          .map(({ changes: _changes, content: _content, ...checkpoint }) => checkpoint)
      ),

    prune: (endedBefore, limit, own = new Map()) =>
      Effect.sync(() => {
        let count = 0
        for (const tombstone of deleted.values()) {
          if (count === limit) break
          const checkpoints = tombstone.checkpoints.filter(({ checkpoint }) => isStart(state, tombstone.id, checkpoint))
          if (checkpoints.length === tombstone.checkpoints.length) continue
          tombstone.checkpoints = checkpoints
          count++
        }
        for (const row of rows.values()) {
          if (count === limit) break
          const checkpoints = row.checkpoints.filter(({ checkpoint }) =>
            isKept(row, checkpoint, own.get(row.sandbox.grantId) ?? endedBefore)
          )
          const contents = row.contents.filter((content) => !isLeftover(row, content))
          if (checkpoints.length === row.checkpoints.length && contents.length === row.contents.length) continue
          row.checkpoints = checkpoints
          row.contents = contents
          count++
        }
        return count
      })
  })
}
