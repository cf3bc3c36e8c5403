/** `PromptFiles` on Postgres. */
import {
  MAX_SANDBOX_BYTES,
  MAX_SANDBOX_FILES,
  MAX_UNUSED_BYTES,
  PromptFileNotFound,
  PromptFiles,
  type StoredFile,
  TooManyFiles,
  TooManyUnusedFiles
} from "@slipway/domain/sandbox/ports/PromptFiles"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import * as statements from "./statements.ts"

const bytesOf = (files: ReadonlyArray<StoredFile>) => files.reduce((sum, { size }) => sum + size, 0)

/** In the order of `ids`, or the first that is missing. */
const inOrder = Effect.fnUntraced(function*(ids: ReadonlyArray<string>, found: ReadonlyArray<StoredFile>) {
  const byId = new Map(found.map((file) => [file.id, file]))
  const files: Array<StoredFile> = []
  for (const id of ids) files.push(byId.get(id) ?? (yield* new PromptFileNotFound({ id })))
  return files
})

export const layer = Layer.effect(
  PromptFiles,
  Effect.map(SqlClient.SqlClient, (sql) =>
    PromptFiles.of({
      begin: Effect.fn("PromptFiles.begin")(
        function*(file) {
          yield* sql.withTransaction(Effect.gen(function*() {
            yield* statements.lock(sql, file.grantId)
            const { bytes } = yield* statements.sumUnused(sql, file.grantId, file.createdAt)
            if (bytes + file.size > MAX_UNUSED_BYTES) return yield* new TooManyUnusedFiles()
            yield* statements.insertFile(sql, file)
          }))
        },
        Effect.catchTag("NoSuchElementError", Effect.die),
        guard
      ),
      complete: Effect.fn("PromptFiles.complete")(function*(key) {
        yield* statements.markStored(sql, key)
      }, guard),
      discard: Effect.fn("PromptFiles.discard")(function*(key) {
        yield* statements.deleteBegun(sql, key)
      }, guard),
      unusedBytes: Effect.fn("PromptFiles.unusedBytes")(
        function*(grantId, now) {
          return (yield* statements.sumUnused(sql, grantId, now)).bytes
        },
        Effect.catchTag("NoSuchElementError", Effect.die),
        guard
      ),
      find: Effect.fn("PromptFiles.find")(function*(key, now) {
        const [file] = yield* statements.selectFile(sql, key, now)
        return file ?? (yield* new PromptFileNotFound({ id: key.id }))
      }, guard),
      use: Effect.fn("PromptFiles.use")(function*({ grantId, id }, ids, now) {
        return yield* sql.withTransaction(Effect.gen(function*() {
          yield* statements.lock(sql, id)
          yield* statements.lockFiles(sql, ids)
          const files = yield* inOrder(ids, yield* statements.selectFiles(sql, grantId, ids, now))
          const known = yield* statements.selectOfSandbox(sql, id)
          const added = files.filter((file) => !known.some((one) => one.id === file.id))
          const all = [...known, ...added]
          if (added.length > 0 && (all.length > MAX_SANDBOX_FILES || bytesOf(all) > MAX_SANDBOX_BYTES)) return yield* new TooManyFiles()
          const names = added.map((file) => file.id)
          if (names.length > 0) yield* statements.insertUses(sql, id, names, now)
          yield* statements.markUsed(sql, ids)
          return { files: files.map((file) => ({ ...file, isUsed: true })), added: names }
        }))
      }, guard),
      ofSandbox: Effect.fn("PromptFiles.ofSandbox")((id) => statements.selectOfSandbox(sql, id), guard),
      release: Effect.fn("PromptFiles.release")(function*(id, ids) {
        yield* sql.withTransaction(Effect.gen(function*() {
          yield* statements.lockFiles(sql, ids)
          yield* statements.deleteUses(sql, id, ids)
          yield* statements.markUnused(sql, ids)
        }))
      }, guard),
      purge: <E>(
        now: Parameters<PromptFiles["Service"]["purge"]>[0],
        limit: number,
        remove: Parameters<
          typeof PromptFiles.Service.purge<E>
        >[2]
      ) =>
        sql.withTransaction(Effect.gen(function*() {
          yield* statements.endUses(sql, now)
          const left = yield* statements.lockLeft(sql, now, limit)
          const files = left.length === 0 ? [] : yield* statements.deleteLeft(sql, left.map(({ id }) => id))
          // The transaction is rolled back if a removal fails, so the rest is tried again.
          yield* Effect.forEach(files, remove, { discard: true })
          return files.length
        })).pipe(Effect.withSpan("PromptFiles.purge"), guard)
    }))
)
