/**
 * Writes files into a home that were read of one. They are made beside the home first, where no process of the sandbox gets,
 * and change places with what is there when all of them were checked:
 *
 *     <beside>/incoming/new/<number of the path>    what is to be at the path
 *     <beside>/incoming/old/<number>                what was there, and in the way to it
 */
import { FrameError, Reader } from "@slipway/domain/files/rules/Frames"
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { constants } from "node:fs"
import { type FileHandle, lchown, mkdir, open, rename } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type HomeRecord, records } from "./HomeArchive.ts"
import { below, enterOrMake, type Folder, type Owner, walk } from "./HomeDescriptors.ts"

interface Options {
  readonly home: string
  /** A folder of ours on the same disk, through which the sandbox's user may pass and write nothing. */
  readonly beside: string
  /** The sandbox's user, `null` when it is ours. */
  readonly owner: Owner
  /** Deletes a folder, whatever is in it. */
  readonly remove: (path: string) => Promise<void>
}

/** The most bytes of all files together: far more than is ever read. */
const MAXIMUM_BYTES = 2 ** 30

/** A process in the box may put something back each time. */
const ATTEMPTS = 10

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/** The state of one call. */
interface Write extends Options {
  /** Where drafts are made. */
  readonly incoming: string
  /** Folders of drafts that are made. */
  readonly folders: Set<string>
  readonly areas: Array<string>
  /** The file whose bytes come now. */
  file: FileHandle | undefined
  bytes: number
  /** How many names were moved away. */
  replaced: number
}

/** Deletes the drafts, also those that a crash left. */
const clear = async (write: Write): Promise<void> => {
  await write.file?.close()
  write.file = undefined
  await write.remove(write.incoming)
}

const give = async ({ owner }: Write, path: string) => {
  if (owner !== null) await lchown(path, owner.uid, owner.gid)
}

const makeFolders = async (write: Write, path: string): Promise<void> => {
  const { folders } = write
  if (folders.has(path)) return
  await makeFolders(write, dirname(path))
  await mkdir(path, { mode: 0o700 })
  await give(write, path)
  folders.add(path)
}

/** Where a file that belongs to the last path is made. */
const draftOf = ({ areas, incoming }: Write, path: string): string =>
  join(incoming, "new", `${areas.length - 1}`, path.slice((areas.at(-1) ?? "").length))

const handle = async (write: Write, record: HomeRecord): Promise<void> => {
  const { areas, owner } = write
  if (record.tag === "piece") {
    write.bytes += record.bytes.length
    if (write.bytes > MAXIMUM_BYTES) throw new FrameError({ reason: "too_large", detail: "They are too many bytes." })
    await write.file?.writeFile(record.bytes)
    return
  }
  await write.file?.close()
  write.file = undefined
  if (record.tag === "area") {
    areas.push(record.path)
    return
  }
  const draft = draftOf(write, record.path)
  try {
    await makeFolders(write, dirname(draft))
    write.file = await open(draft, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
  } catch (error) {
    if (["EEXIST", "ENOTDIR", "EISDIR"].includes(String(codeOf(error)))) {
      throw new FrameError({ reason: "not_ours", detail: "Two files have one place." })
    }
    throw error
  }
  if (owner !== null) await write.file.chown(owner.uid, owner.gid)
}

/** Takes what is at the name out of the way, itself: a link's target stays where it is. */
const moveAway = (write: Write, folder: Folder, name: string): Promise<void> =>
  rename(below(folder, name), join(write.incoming, "old", `${write.replaced++}`)).catch((error: unknown) => {
    if (codeOf(error) !== "ENOENT") throw error
  })

/** The folder at the name, in the place of any other entry. */
const makeWay = async (write: Write, folder: Folder, name: string): Promise<Folder> => {
  for (let attempt = 0;; attempt++) {
    try {
      return await enterOrMake(folder, name, write.owner)
    } catch (error) {
      if (attempt === ATTEMPTS || codeOf(error) !== "ENOTDIR" && codeOf(error) !== "ELOOP") throw error
      await moveAway(write, folder, name)
    }
  }
}

const place = async (write: Write, area: string, i: number): Promise<void> => {
  const names = area.split("/")
  const folder = await walk(write.home, names.slice(0, -1), (folder, name) => makeWay(write, folder, name))
  const name = names.at(-1) ?? ""
  try {
    for (let attempt = 0;; attempt++) {
      await moveAway(write, folder, name)
      try {
        return await rename(join(write.incoming, "new", `${i}`), below(folder, name))
      } catch (error) {
        // Nothing was at this path.
        if (codeOf(error) === "ENOENT") return
        if (attempt === ATTEMPTS) throw error
      }
    }
  } finally {
    await folder.handle.close()
  }
}

/** For one call. `close` in any case, and then nothing else. */
export const make = (options: Options) => {
  const incoming = join(options.beside, "incoming")
  const reader = new Reader(records())
  const write: Write = { ...options, incoming, folders: new Set(), areas: [], file: undefined, bytes: 0, replaced: 0 }
  return {
    open: async (): Promise<void> => {
      await clear(write)
      for (const path of [incoming, join(incoming, "new"), join(incoming, "old")]) await mkdir(path, { mode: 0o700 })
      write.folders.add(join(incoming, "new"))
    },
    /** In order. Throws {@link FrameError}. */
    take: async (chunk: Uint8Array): Promise<void> => {
      for (const record of reader.take(chunk)) await handle(write, record)
    },
    /** After all was taken. Throws {@link FrameError}, before anything of the home is touched. */
    finish: async (): Promise<void> => {
      await write.file?.close()
      write.file = undefined
      reader.finish()
      for (const [i, area] of write.areas.entries()) await place(write, area, i)
    },
    close: () => clear(write)
  }
}
