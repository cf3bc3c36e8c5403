/** `PromptFiles` in memory, over the rows of `SandboxStoreMemory`. */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import {
  CREATED_WITHIN,
  MAX_SANDBOX_BYTES,
  MAX_SANDBOX_FILES,
  MAX_UNUSED_BYTES,
  PromptFileNotFound,
  PromptFiles,
  type StoredFile,
  TooManyFiles,
  TooManyUnusedFiles,
  UNUSED_FOR
} from "../../src/sandbox/ports/PromptFiles.ts"
import { isSettled } from "../../src/sandbox/rules/Sandbox.ts"
import type { SandboxRows } from "./SandboxRows.ts"

interface Entry {
  file: StoredFile
  isStored: boolean
}

const isOlder = (at: DateTime.Utc, age: Duration.Duration, now: DateTime.Utc) =>
  now.epochMilliseconds - at.epochMilliseconds >= Duration.toMillis(age)

const bytesOf = (files: ReadonlyArray<StoredFile>) => files.reduce((sum, { size }) => sum + size, 0)

/** Over rows that other code changes too. */
export const make = ({ deleted, rows }: Pick<SandboxRows, "deleted" | "rows">): PromptFiles["Service"] => {
  const entries = new Map<string, Entry>()
  const uses = new Map<SandboxId, Map<string, DateTime.Utc>>()
  const isUsedNow = (id: string) => Array.from(uses).some(([sandbox, files]) => !deleted.has(sandbox) && files.has(id))
  const isExpired = ({ file: { createdAt, isUsed } }: Entry, now: DateTime.Utc) => !isUsed && isOlder(createdAt, UNUSED_FOR, now)
  const unusedBytes = (grantId: string, now: DateTime.Utc) => {
    const ofGrant = Array.from(entries.values()).filter((entry) => entry.file.grantId === grantId)
    return bytesOf(ofGrant.filter((entry) => !entry.file.isUsed && !isExpired(entry, now)).map(({ file }) => file))
  }
  const find = (grantId: string, id: string, now: DateTime.Utc) => {
    const entry = entries.get(id)
    const isThere = entry !== undefined && entry.isStored && entry.file.grantId === grantId &&
      (entry.file.isUsed ? isUsedNow(id) : !isExpired(entry, now))
    return isThere ? Effect.succeed(entry.file) : Effect.fail(new PromptFileNotFound({ id }))
  }
  const mark = (id: string, isUsed: boolean) => {
    const entry = entries.get(id)
    if (entry !== undefined) entry.file = { ...entry.file, isUsed }
  }
  const ofSandbox = (id: SandboxId) =>
    deleted.has(id) ? [] : Array.from(uses.get(id)?.keys() ?? []).flatMap((id) => entries.get(id)?.file ?? [])
  /** Uses end with the events of their sandbox. */
  const endUses = (now: DateTime.Utc) => {
    for (const [id, files] of uses) {
      const row = rows.get(id)
      const isOver = deleted.has(id) || row !== undefined && isSettled(row.sandbox.status) && row.purged >= row.sandbox.lastSeq
      for (const [file, at] of files) {
        if (isOver || row === undefined && isOlder(at, CREATED_WITHIN, now)) files.delete(file)
      }
      if (files.size === 0) uses.delete(id)
    }
  }

  return PromptFiles.of({
    begin: (file) =>
      Effect.suspend(() => {
        if (unusedBytes(file.grantId, file.createdAt) + file.size > MAX_UNUSED_BYTES) return Effect.fail(new TooManyUnusedFiles())
        entries.set(file.id, { file: { ...file, isUsed: false }, isStored: false })
        return Effect.void
      }),
    complete: ({ grantId, id }) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry?.file.grantId === grantId) entry.isStored = true
      }),
    discard: ({ grantId, id }) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry?.file.grantId === grantId && !entry.isStored) entries.delete(id)
      }),
    unusedBytes: (grantId, now) => Effect.sync(() => unusedBytes(grantId, now)),
    find: ({ grantId, id }, now) => Effect.suspend(() => find(grantId, id, now)),
    use: Effect.fnUntraced(function*({ grantId, id }, ids, now) {
      const files = yield* Effect.forEach(ids, (file) => find(grantId, file, now))
      const known = uses.get(id) ?? new Map<string, DateTime.Utc>()
      const added = files.filter((file) => !known.has(file.id))
      const all = [...ofSandbox(id), ...added]
      if (added.length > 0 && (all.length > MAX_SANDBOX_FILES || bytesOf(all) > MAX_SANDBOX_BYTES)) return yield* new TooManyFiles()
      for (const file of added) known.set(file.id, now)
      if (known.size > 0) uses.set(id, known)
      for (const file of ids) mark(file, true)
      return { files: files.map((file) => ({ ...file, isUsed: true })), added: added.map((file) => file.id) }
    }),
    ofSandbox: (id) => Effect.sync(() => ofSandbox(id)),
    release: (id, ids) =>
      Effect.sync(() => {
        for (const file of ids) {
          uses.get(id)?.delete(file)
          if (!isUsedNow(file)) mark(file, false)
        }
      }),
    purge: Effect.fnUntraced(function*(now, limit, remove) {
      endUses(now)
      const left = Array.from(entries.values())
        .filter((entry) => entry.file.isUsed ? !isUsedNow(entry.file.id) : isExpired(entry, now))
        .slice(0, limit)
      for (const { file: { grantId, id, sha256, size } } of left) {
        yield* remove({ grantId, id, sha256, size })
        entries.delete(id)
      }
      return left.length
    })
  })
}
