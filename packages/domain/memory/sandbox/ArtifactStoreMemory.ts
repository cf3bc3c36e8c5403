/** `ArtifactStore` in memory, over the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  ArtifactStore,
  type ArtifactPiece,
  type LeftPiece,
  type StoredArtifacts,
  UNUSED_PIECE_FOR
} from "../../src/files/ports/ArtifactStore.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { isSettled } from "../../src/sandbox/rules/Sandbox.ts"
import { leased, type SandboxRows } from "./SandboxRows.ts"

interface Entry extends LeftPiece {
  readonly sandboxId: SandboxId
  isStored: boolean
  isUsed: boolean
  at: DateTime.Utc
}

const NONE: StoredArtifacts = { artifacts: [], leftOut: null }

/** Over rows that other code changes too. */
export const make = (state: SandboxRows): ArtifactStore["Service"] => {
  const { deleted, rows } = state
  const lists = new Map<SandboxId, StoredArtifacts>()
  const entries = new Map<string, Entry>()
  const entryOf = (id: SandboxId, { sha256, size }: Pick<ArtifactPiece, "sha256" | "size">) =>
    Array.from(entries.values()).find((entry) => entry.sandboxId === id && entry.sha256 === sha256 && entry.size === size)
  const isOver = (id: SandboxId) => {
    const row = rows.get(id)
    return row === undefined || isSettled(row.sandbox.status) && row.purged >= row.sandbox.lastSeq
  }

  return ArtifactStore.of({
    begin: Effect.fnUntraced(function*(lease, { holder, sha256, size }, now) {
      const { sandbox: { grantId, id: sandboxId } } = yield* leased(state, lease)
      const known = entryOf(sandboxId, { sha256, size })
      if (known !== undefined) {
        known.at = now
        return { holder: known.holder, isStored: known.isStored }
      }
      entries.set(holder, { holder, sha256, size, grantId, sandboxId, isStored: false, isUsed: false, at: now })
      return { holder, isStored: false }
    }),
    save: Effect.fnUntraced(function*(lease, saved) {
      const { sandbox: { id } } = yield* leased(state, lease)
      const holders = new Set(saved.artifacts.flatMap(({ pieces }) => pieces.map(({ holder }) => holder)))
      lists.set(id, saved)
      for (const entry of entries.values()) {
        if (entry.sandboxId !== id) continue
        entry.isUsed = holders.has(entry.holder)
        if (entry.isUsed) entry.isStored = true
      }
    }),
    find: (id) => Effect.sync(() => deleted.has(id) ? NONE : lists.get(id) ?? NONE),
    purge: Effect.fnUntraced(function*(now, limit, remove) {
      for (const id of lists.keys()) if (isOver(id)) lists.delete(id)
      const before = DateTime.subtractDuration(now, UNUSED_PIECE_FOR)
      const left = Array.from(entries.values())
        .filter(({ at, isUsed, sandboxId }) => isUsed ? !lists.has(sandboxId) : DateTime.isLessThanOrEqualTo(at, before))
        .slice(0, limit)
      for (const { grantId, holder, sha256, size } of left) {
        yield* remove({ grantId, holder, sha256, size })
        entries.delete(holder)
      }
      return left.length
    })
  })
}
