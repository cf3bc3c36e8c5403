import { type Plants, plantsIn } from "./Plant.ts"

const name = "`${key.grantId}/${key.sha256}.${key.holder}`"

export const plants: Plants = {
  port: "Blobs",
  subject: "packages/testing/test/files/Blobs.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/files/BlobsMemory.ts", [
      ["keeps content with another hash", " || sha256(whole) !== key.sha256", ""],
      ["keeps a blob of any size", "if (key.size > MAX_BLOB_BYTES)", "if (false)"],
      ["refuses the largest blob", "if (key.size > MAX_BLOB_BYTES)", "if (key.size >= MAX_BLOB_BYTES)"],
      ["fails for a blob that is stored already", "if (all.has(name)) return", "if (all.has(name)) return yield* new BlobMismatch()"],
      ["keeps the buffer of the source", "chunks.push(chunk.slice())", "chunks.push(chunk)"],
      ["keeps the first part alone", "chunks.push(chunk.slice())", "if (chunks.length === 0) chunks.push(chunk.slice())"],
      ["gives its own bytes to readers", "Stream.make(found.slice())", "Stream.make(found)"],
      ["gives a blob by a key of another size", " || found.length !== key.size", ""],
      ["gives nothing for a blob that is missing", "Stream.fail(new BlobNotFound())", "Stream.empty"],
      ["removes nothing", "void all.delete(nameOf(key))", "void nameOf(key)"],
      ["removes all", "void all.delete(nameOf(key))", "(nameOf(key), all.clear())"]
    ]),
    ...plantsIn("packages/domain/src/files/ports/Blobs.ts", [
      ["gives what another grant stored", name, "`${key.sha256}.${key.holder}`"],
      ["takes the blobs of other holders for one", name, "`${key.grantId}/${key.sha256}`"],
      ["takes all contents of a holder for one", name, "`${key.grantId}/${key.holder}`"],
      ["takes any key", "if (!isKey(key))", "if (false)"],
      ["takes a holder with a slash", "[0-9a-z_-]{0,119}", "[0-9a-z_/-]{0,119}"],
      ["takes a name of any length", "{0,119}$", "*$"],
      ["takes an upper-case hash", "/^[0-9a-f]{64}$/u", "/^[0-9a-fA-F]{64}$/u"]
    ])
  ]
}
