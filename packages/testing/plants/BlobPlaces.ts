import { type Plants, plantsIn } from "./Plant.ts"

const check = "checked(key, content, sha256, () => new BlobMismatch())"

export const plants: Plants = {
  port: "BlobPlaces",
  anew: ["packages/adapters/machine/src/blobs/", "packages/adapters/machine/src/blobs/s3/"],
  subject: "packages/adapters/machine/test/blobs/Blobs.suites.ts",
  plants: [
    ...plantsIn("packages/domain/src/files/ports/Blobs.ts", [
      ["keeps and gives bytes with another hash", "hasher.digest(\"hex\") === sha256", "true"]
    ]),
    ...plantsIn("packages/adapters/machine/src/blobs/BlobsFolder.ts", [
      ["keeps any content", check, "content"],
      ["gives a file of any content", "return checked(key, chunks, sha256, () => new BlobNotFound())", "return chunks"],
      ["keeps a blob of any size", "if (key.size > MAX_BLOB_BYTES)", "if (false)"],
      ["refuses the largest blob", "if (key.size > MAX_BLOB_BYTES)", "if (key.size >= MAX_BLOB_BYTES)"],
      ["writes all puts of a blob to one file", ".${randomUUID()}", ""],
      ["takes an unreadable name for trouble of the disk", "isGone(error) ?", "false ?"],
      ["removes no whole file", "path.join(partials, name)), file]", "path.join(partials, name))]"],
      ["gives no more than the first bytes", "bytesRead === 0 ?", "bytesRead < READ_BYTES ?"]
    ]),
    ...plantsIn("packages/adapters/machine/src/blobs/s3/BlobsS3.ts", [
      ["keeps any content in its memory", "const sound = " + check, "const sound = content"],
      ["gives an object of any content", "return checked(key, Stream.unwrap(answer), sha256, () => new BlobNotFound())",
        "return Stream.unwrap(answer)"],
      ["keeps a blob of any size", "if (key.size > MAX_BLOB_BYTES)", "if (false)"],
      ["fails for a blob that is stored already", "known: [412]", "known: []"],
      ["takes a missing object for trouble of the store", "{ method: \"GET\", name: nameOf(key), known: [404] }",
        "{ method: \"GET\", name: nameOf(key) }"],
      ["takes a missing object for an empty one", "Stream.fail(new BlobNotFound())", "Stream.empty"],
      ["removes nothing", "method: \"DELETE\"", "method: \"GET\""],
      ["tells the broken request instead of the broken content", "Exit.isFailure(exit) && broken !== null", "false"],
      ["keeps the buffer of the source", "chunks.push(chunk.length === key.size ? chunk : chunk.slice())", "chunks.push(chunk)"]
    ]),
    ...plantsIn("packages/adapters/machine/src/blobs/s3/S3Client.ts", [
      ["signs with another hash", "\"x-amz-content-sha256\": sha256", "\"x-amz-content-sha256\": NOTHING"],
      ["signs for another region", "region: address.region", "region: \"mars-1\""],
      ["sends no length of a stream", "all.set(\"content-length\", String(body.size))", ""]
    ])
  ]
}
