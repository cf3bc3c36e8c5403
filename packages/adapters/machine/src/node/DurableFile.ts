/** Small files that a power loss leaves as they were or as they are to be. */
import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { dirname } from "node:path"

const written = (path: string, flags: "r" | "w", content?: string): void => {
  const fd = openSync(path, flags, 0o600)
  try {
    // All of it or an error: a single write may stop early on a disk that fills.
    if (content !== undefined) writeFileSync(fd, content)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Replaces the file, for the account of this process alone. It is on the disk when this returns. One process writes it at a time. */
export const replace = (file: string, content: string): void => {
  const draft = `${file}.making`
  written(draft, "w", content)
  renameSync(draft, file)
  // Otherwise the rename may be lost.
  written(dirname(file), "r")
}

/** Writes the content of a file, or the names in a folder, to the disk. */
export const sync = async (path: string): Promise<void> => {
  const handle = await open(path)
  await handle.sync().finally(() => handle.close())
}
