import { type Plants, plantsIn } from "./Plant.ts"

const isThere = "entry.isStored && entry.file.grantId === grantId"

export const plants: Plants = {
  port: "PromptFiles",
  subject: "packages/testing/test/sandbox/PromptFiles.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/PromptFilesMemory.ts", [
    ["finds a file before its bytes are stored", isThere, "entry.file.grantId === grantId"],
    ["finds the file of another grant", isThere, "entry.isStored"],
    ["completes the file of another grant", "if (entry?.file.grantId === grantId) entry.isStored = true",
      "if (entry !== undefined) entry.isStored = true"],
    ["forgets a file that is complete", "&& !entry.isStored) entries.delete(id)", ") entries.delete(id)"],
    ["forgets the file that another grant began", "if (entry?.file.grantId === grantId && !entry.isStored)",
      "if (entry !== undefined && !entry.isStored)"],
    ["finds an unused file for ever", "!isUsed && isOlder(createdAt, UNUSED_FOR, now)", "false"],
    ["counts used files", "!entry.file.isUsed && !isExpired(entry, now)", "!isExpired(entry, now)"],
    ["counts files of all grants", "filter((entry) => entry.file.grantId === grantId)", "filter(() => true)"],
    ["counts expired files", "!entry.file.isUsed && !isExpired(entry, now)", "!entry.file.isUsed"],
    ["takes any number of unused bytes", "unusedBytes(file.grantId, file.createdAt) + file.size > MAX_UNUSED_BYTES", "false"],
    ["adds a file to a sandbox twice", "files.filter((file) => !known.has(file.id))", "[...files]"],
    ["gives a sandbox any number of files", "all.length > MAX_SANDBOX_FILES || ", ""],
    ["gives a sandbox any number of bytes", " || bytesOf(all) > MAX_SANDBOX_BYTES", ""],
    ["does not mark what is used", "for (const file of ids) mark(file, true)", ""],
    ["keeps the files of a deleted sandbox", "!deleted.has(sandbox) && files.has(id)", "files.has(id)"],
    ["lists the files of a deleted sandbox", "deleted.has(id) ? [] : ", ""],
    ["keeps files when events are purged", "row.purged >= row.sandbox.lastSeq", "false"],
    ["ends the use by a sandbox that does not exist at once", "row === undefined && isOlder(at, CREATED_WITHIN, now)", "row === undefined"],
    ["never ends the use by a sandbox that does not exist", "row === undefined && isOlder(at, CREATED_WITHIN, now)", "false"],
    ["takes no file back", "uses.get(id)?.delete(file)", ""],
    ["takes back what another sandbox uses", "if (!isUsedNow(file)) mark(file, false)", "mark(file, false)"],
    ["does not delete what was not stored", ".slice(0, limit)\n      for",
      ".filter(({ isStored }) => isStored).slice(0, limit)\n      for"],
    ["deletes all at once", ".slice(0, limit)\n      for", "\n      for"],
    ["forgets a file before its bytes are gone", "        yield* remove({ grantId, id, sha256, size })\n        entries.delete(id)",
      "        entries.delete(id)\n        yield* remove({ grantId, id, sha256, size })"],
    ["removes no bytes", "yield* remove({ grantId, id, sha256, size })", ""]
  ])
}
