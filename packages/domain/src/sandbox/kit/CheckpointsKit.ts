/** `Checkpoints` over the statements of a database. A put stores pieces, each in a transaction that checks its lease. */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { CheckpointNotFound, Checkpoints, CheckpointTooLarge, KEPT_CHECKPOINTS, MAX_CHECKPOINT_BYTES } from "../ports/Checkpoints.ts"
import { type Lease, StaleLease } from "../ports/Leases.ts"
import { isSettled } from "../rules/Sandbox.ts"
import { checkpointOf, mark } from "./CheckpointRows.ts"
import { endedBeforeOf, guard, sandboxOf } from "./Rows.ts"
import type { ContentRow, EndedBefore, StatementError, Statements } from "./Statements.ts"

/** Bytes of a row, unless a chunk of the content is larger. */
const PIECE_BYTES = 2 ** 20

const joined = (chunks: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(chunks.reduce((bytes, { length }) => bytes + length, 0))
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** Begins a put. Of several puts of a number, the last to begin counts. */
const begin = Effect.fnUntraced(function*(statements: Statements, { fence, sandboxId }: Lease, checkpoint: number) {
  const known = yield* statements.contents(sandboxId)
  const put = Math.max(0, ...known.map(({ put }) => put)) + 1
  const row: ContentRow = { sandboxId, put, checkpoint, fence, bytes: null, recordedAt: null, details: null, forks: 0 }
  yield* statements.save("contents", [row])
  const isLeftover = known.some((one) => one.recordedAt === null || one.checkpoint >= checkpoint)
  yield* mark(statements, isLeftover ? [sandboxId] : [])
  return row
})

const put = Effect.fn("Checkpoints.put")(
  function*<E, R>(statements: Statements, lease: Lease, checkpoint: number, content: Stream.Stream<Uint8Array, E, R>) {
    const { contents, leases, purgeContents, save, transaction } = statements
    const { fence, sandboxId } = lease
    const underLease = <A>(body: Effect.Effect<A, StaleLease | StatementError>) =>
      guard(statements)(transaction(Effect.flatMap(
        leases([sandboxId]),
        ([row]) => row?.fence === fence ? body : Effect.fail(new StaleLease())
      )))
    const row = yield* underLease(begin(statements, lease, checkpoint))
    /** A pruned put stores nothing more: its number may be another put's by now. */
    const write = (body: Effect.Effect<void, StatementError>) =>
      underLease(
        Effect.flatMap(contents(sandboxId), (rows): Effect.Effect<void, StaleLease | StatementError> =>
          rows.some((one) =>
              one.put === row.put && one.checkpoint === checkpoint && one.fence === fence
            )
            ? body
            : Effect.fail(new StaleLease()))
      )

    let [bytes, size, n] = [0, 0, 0]
    let chunks: Array<Uint8Array> = []
    const flush = Effect.suspend(() => {
      const piece = { sandboxId, put: row.put, n: n++, data: joined(chunks) }
      chunks = []
      size = 0
      return write(save("pieces", [piece]))
    })
    const storing = Effect.gen(function*() {
      yield* Stream.runForEach(content, (chunk): Effect.Effect<void, CheckpointTooLarge | StaleLease | StoreUnavailable> => {
        bytes += chunk.length
        size += chunk.length
        if (bytes > MAX_CHECKPOINT_BYTES) return Effect.fail(new CheckpointTooLarge())
        chunks.push(chunk.slice())
        return size < PIECE_BYTES ? Effect.void : flush
      })
      if (size > 0) yield* flush
      yield* write(save("contents", [{ ...row, bytes }]))
      return bytes
    })
    // The row stays and says that the last put stored nothing.
    const remove = write(Effect.andThen(purgeContents(sandboxId, [row.put]), save("contents", [row])))
    return yield* Effect.onError(storing, () => Effect.ignore(remove))
  }
)

/** Deletes the unused contents of a marked sandbox, and plans the next look. */
const pruneOne = Effect.fnUntraced(
  function*({ contents, purgeContents, sandboxes, save }: Statements, id: SandboxId, { all, own }: EndedBefore) {
    const [row] = yield* sandboxes([id])
    const rows = yield* contents(id)
    if (row === undefined) return
    const endedBefore = own.find(({ grantId }) => grantId === row.grantId)?.before ?? all
    const { checkpoint: newest, restoring, status } = row.deletedAt === null
      ? sandboxOf(row)
      : { checkpoint: 0, restoring: null, status: row.status }
    const isOver = isSettled(status)
    const isAfter = row.endedAt !== null && row.endedAt > endedBefore
    const isKept = ({ checkpoint, forks }: ContentRow) =>
      forks > 0 || (isOver
        ? checkpoint === newest && isAfter
        : checkpoint > newest - KEPT_CHECKPOINTS || checkpoint === restoring)
    const mayBeRecorded = ({ checkpoint, fence, put }: ContentRow) =>
      !isOver && fence === row.fence && checkpoint > newest &&
      !rows.some((later) => later.put > put && later.checkpoint === checkpoint && later.fence === fence)
    const unneeded = rows.filter((one) => !(one.recordedAt === null ? mayBeRecorded(one) : isKept(one)))
    if (unneeded.length > 0) yield* purgeContents(id, unneeded.map(({ put }) => put))
    const isDueLater = isOver && isAfter && unneeded.length < rows.length
    yield* save("prunes", [{ sandboxId: id, dueAt: isDueLater ? row.endedAt : null }])
  }
)

const read = (statements: Statements, { bytes, put, sandboxId }: ContentRow) =>
  Stream.unfold(
    { n: 0, left: bytes ?? 0 },
    Effect.fnUntraced(function*({ left, n }) {
      if (left === 0) return undefined
      const [piece] = yield* guard(statements)(statements.piece(sandboxId, put, n))
      return piece === undefined ? yield* new CheckpointNotFound() : [piece.data, { n: n + 1, left: left - piece.data.length }] as const
    })
  )

/** `Checkpoints` over these statements. */
export const make = (statements: Statements): Checkpoints["Service"] => {
  const guarded = guard(statements)
  return Checkpoints.of({
    put: (lease, checkpoint, content) => put(statements, lease, checkpoint, content),

    get: (id, checkpoint) =>
      Stream.unwrap(Effect.map(guarded(statements.contents(id)), (rows) => {
        const found = rows.find((row) => row.recordedAt !== null && row.checkpoint === checkpoint)
        return found === undefined ? Stream.fail(new CheckpointNotFound()) : read(statements, found)
      })),

    list: (id, after, limit) =>
      Effect.map(
        guarded(Effect.all([statements.contents(id), statements.sandboxes([id])])),
        ([rows, [sandbox]]) =>
          sandbox?.deletedAt !== null ? [] : rows.flatMap((row) => row.checkpoint > after ? checkpointOf(row) ?? [] : [])
            .sort((a, b) => a.checkpoint - b.checkpoint)
            .slice(0, limit)
      ),

    prune: (endedBefore: DateTime.Utc, limit, own) =>
      guarded(statements.transaction(Effect.gen(function*() {
        const before = endedBeforeOf(endedBefore, own)
        const marked = yield* statements.prunable(before, limit)
        for (const { sandboxId } of marked) yield* pruneOne(statements, sandboxId, before)
        return marked.length
      })))
  })
}
