import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "ArtifactStore",
  subject: "packages/testing/test/sandbox/ArtifactStore.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/ArtifactStoreMemory.ts", [
    ["gives the piece of another sandbox", "entry.sandboxId === id && entry.sha256 === sha256", "entry.sha256 === sha256"],
    ["forgets that bytes are stored", "isStored: known.isStored }", "isStored: false }"],
    ["does not keep a piece that is begun again", "known.at = now", ""],
    ["does not mark what is stored", "if (entry.isUsed) entry.isStored = true", ""],
    ["keeps a piece for ever once an artifact had it", "entry.isUsed = holders.has(entry.holder)",
      "entry.isUsed ||= holders.has(entry.holder)"],
    ["marks the pieces of all sandboxes", "if (entry.sandboxId !== id) continue", ""],
    ["lists the artifacts of a deleted sandbox", "deleted.has(id) ? NONE : ", ""],
    ["keeps the artifacts of a deleted sandbox", "row === undefined || isSettled", "row !== undefined && isSettled"],
    ["forgets artifacts when a sandbox ends", " && row.purged >= row.sandbox.lastSeq", ""],
    ["deletes pieces that artifacts have", "isUsed ? !lists.has(sandboxId) : ", ""],
    ["deletes all at once", ".slice(0, limit)", ""],
    ["forgets a piece before its bytes are gone",
      "        yield* remove({ grantId, holder, sha256, size })\n        entries.delete(holder)",
      "        entries.delete(holder)\n        yield* remove({ grantId, holder, sha256, size })"],
    ["removes no bytes", "yield* remove({ grantId, holder, sha256, size })", ""]
  ])
}
