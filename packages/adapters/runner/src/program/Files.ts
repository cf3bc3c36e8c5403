/** Channels of kind `file`: a plain file, or the names in a folder, below the tree and behind no link. */
import * as DescriptorWalk from "@slipway/machine/node/DescriptorWalk"
import * as FolderNames from "@slipway/machine/node/FolderNames"
import { close, closeSync, read as readDescriptor, type Stats } from "node:fs"
import { promisify } from "node:util"
import { CHUNK_COST, type Json, WINDOW } from "../wire/ChannelWire.ts"
import { encodeEntry, type EntryKind } from "../wire/DirectoryListing.ts"
import { type Channel, ChannelReset } from "../wire/OpenChannel.ts"
import { CHUNK_BYTES, isCount } from "../wire/Wire.ts"

const messages = {
  not_found: "it is not there",
  protected: "it is a link, behind one, or nothing that may be read",
  is_directory: "it is a folder",
  not_a_directory: "it is no folder",
  too_large: "it is larger than was asked for"
} as const

type Code = keyof typeof messages

const refuse = (channel: Channel, code: Code) => channel.reset({ code, message: messages[code] })

const read = async (channel: Channel, tree: string, path: Buffer, maximumBytes: number) => {
  const file = DescriptorWalk.openFile(tree, path)
  if (typeof file === "string") return refuse(channel, file)
  try {
    const { size } = file.stats
    if (size > maximumBytes) return refuse(channel, "too_large")
    channel.note({ size })
    for (let position = 0; position < size;) {
      const buffer = new Uint8Array(Math.min(CHUNK_BYTES, size - position))
      const { bytesRead } = await promisify(readDescriptor)(file.fd, buffer, 0, buffer.length, position)
      if (bytesRead === 0) break
      await channel.write(buffer.subarray(0, bytesRead))
      position += bytesRead
    }
    channel.end()
  } finally {
    await promisify(close)(file.fd)
  }
}

/** Names for one chunk, so that each is not paid for alone. */
const BATCH_BYTES = Math.min(CHUNK_BYTES, WINDOW / 4 - CHUNK_COST) - 512

const kindOf = (stats: Stats): EntryKind =>
  stats.isDirectory() ? "directory" : stats.isFile() ? "file" : stats.isSymbolicLink() ? "link" : "other"

const list = async (channel: Channel, tree: string, path: Buffer, most: number) => {
  const folder = DescriptorWalk.openFolder(tree, path)
  if (typeof folder === "string") return refuse(channel, folder)
  try {
    const { isCut, names } = await FolderNames.first(folder, most)
    let batch: Array<Buffer> = []
    let bytes = 0
    const flush = async () => {
      if (bytes > 0) await channel.write(Buffer.concat(batch))
      batch = []
      bytes = 0
    }
    for (const { latin1 } of names) {
      const name = Buffer.from(latin1, "latin1")
      const stats = DescriptorWalk.statEntry(folder, name)
      if (stats === "gone") continue
      const encoded = stats === "unreadable"
        ? encodeEntry({ name, kind: "other", size: 0, mtimeMs: 0 })
        : encodeEntry({ name, kind: kindOf(stats), size: stats.isFile() ? stats.size : 0, mtimeMs: stats.mtimeMs })
      batch.push(encoded)
      bytes += encoded.length
      if (bytes >= BATCH_BYTES) await flush()
    }
    await flush()
    channel.note({ isCut })
    channel.end()
  } finally {
    closeSync(folder.fd)
  }
}

/** Answers the header `{ read, maximumBytes }` or `{ list, most }`; paths are of bytes, a character for each. */
export const accept = (tree: string) => (channel: Channel, header: Json): void => {
  const { list: folder, maximumBytes, most, read: file } = header
  const done = typeof file === "string" && isCount(maximumBytes)
    ? read(channel, tree, Buffer.from(file, "latin1"), maximumBytes)
    : typeof folder === "string" && isCount(most)
    ? list(channel, tree, Buffer.from(folder, "latin1"), most)
    : Promise.reject(new Error("what was asked for is neither file nor folder"))
  void done.catch((error: unknown) => {
    // The disk, say; and a worker that has read enough resets.
    if (!(error instanceof ChannelReset)) channel.reset({ code: "unreadable", message: error instanceof Error ? error.message : "" })
  })
}
