/**
 * Folders of a cache image (`CacheImages`) below a sandbox's writes: it reads them as they were kept, and its changes lie on its own disk.
 * In the folder of a sandbox, which is a disk of its own (`box/SizedFolders`):
 *
 *     overlays/<tree>/record.json       what is mounted where
 *     overlays/<tree>/0/work, upper     of the first overlay
 *     overlays/<tree>/image, mapped     empty: where the image is mounted while overlays are made
 *
 * Folders of a tree come as one overlay over the whole tree, whose upper layer is the tree itself: there they may be deleted and renamed
 * like others, and without the overlay the tree is unchanged. Folders of the home have one overlay each. Unmounting the disk unmounts them
 * all. The image is linked beside the disk of each sandbox that uses it, so deleting the cache does not take it away.
 */
import type { CachePath } from "@slipway/domain/environment/rules/CachePath"
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { Result, Schema } from "effect"
import { link, lstat, mkdir, readFile, realpath, rm, writeFile, chown } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { namesIn, textIn } from "../node/IsThere.ts"
import { direct } from "../node/spawner/Spawn.ts"
import { run } from "./DiskImages.ts"
import { SCRIPT } from "./MountScript.ts"

/** The folders that a sandbox gets from an image. */
export interface Wanted {
  /** The image, on the file system that the sandbox's disk lies on. */
  readonly image: string
  /** Folder of the tree below the sandbox's. */
  readonly tree: string
  /** The same of its home. */
  readonly home: string
  /** Where the tree has none of them, and the home has an empty folder for each of its own. */
  readonly paths: ReadonlyArray<CachePath>
}

/** The sandbox's folder, and its disk's file. */
export interface Place {
  readonly folder: string
  readonly disk: string
}

const Overlay = Schema.Struct({
  /** In the image. */
  lower: Schema.String,
  /** In the sandbox's folder, as `target`, which is this folder, told from all others, before it is mounted on. */
  upper: Schema.String,
  target: Schema.String,
  folder: Schema.String
})
const Record = Schema.fromJsonString(Schema.Struct({ overlays: Schema.Array(Overlay) }))
const decodeRecord = Schema.decodeUnknownResult(Record)

/** Numbers of the kernel's calls: unshare, setns, prctl and setfsuid. Those that are newer have one on every architecture. */
const CALLS: Readonly<Record<string, ReadonlyArray<number>>> = { x64: [272, 308, 157, 122], arm64: [97, 268, 167, 151] }

const pathsIn = (place: Place, name: string) => {
  const own = join("overlays", name)
  return {
    own,
    record: join(place.folder, own, "record.json"),
    stages: ["image", "mapped"].map((stage) => join(place.folder, own, stage)),
    image: `${place.disk}.${name}.cache`
  }
}

/** Paths at which overlays are mounted, at `path` or below it. */
const mounted = async (path: string): Promise<ReadonlyArray<string>> => {
  const there = await realpath(dirname(path)).then((folder) => Buffer.from(join(folder, basename(path))).toString("latin1"), ifAbsent(null))
  if (there === null) return []
  // Where there is no such file, nothing was mounted either.
  const text = await readFile("/proc/self/mountinfo", "latin1").catch(ifAbsent(""))
  return text.split("\n").flatMap((line) => {
    const [mount = "", system = ""] = line.split(" - ")
    const point = (mount.split(" ")[4] ?? "").replace(/\\([0-7]{3})/gu, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
    return system.startsWith("overlay ") && (point === there || point.startsWith(`${there}/`)) ? [point] : []
  })
}

/** Unmounts the overlays at the path and below it. No process may run in the sandbox: its folders must not move meanwhile. */
export const takeOff = async (path: string): Promise<void> => {
  for (;;) {
    const [point] = (await mounted(path)).slice(-1)
    if (point === undefined) return
    await run(direct, "umount", "--lazy", "--", Buffer.from(point, "latin1").toString())
  }
}

/** Identifies a folder, even if a later folder gets its inode number. */
const identity = async (path: string): Promise<string> => {
  const { birthtimeNs, ino } = await lstat(path, { bigint: true })
  return `${ino} ${birthtimeNs}`
}

const mountAll = async (place: Place, name: string, overlays: ReadonlyArray<typeof Overlay.Type>): Promise<void> => {
  const calls = CALLS[process.arch]
  if (calls === undefined) throw new Error(`overlays are not known on ${process.arch}`)
  const { own, image, stages } = pathsIn(place, name)
  const [first] = overlays
  if (first === undefined) return
  // Before the mount the folder belongs to the sandbox's current user.
  const { uid } = await lstat(join(place.folder, first.target))
  for (const stage of stages) await mkdir(stage, { recursive: true, mode: 0o700 })
  const mounts = await Promise.all(overlays.map(async ({ lower, target, upper }, i) => {
    const work = join(own, `${i}`, "work")
    await mkdir(join(place.folder, work), { recursive: true, mode: 0o700 })
    if (upper !== target) {
      await mkdir(join(place.folder, upper), { recursive: true })
      await chown(join(place.folder, upper), uid, uid)
    }
    return [lower, upper, work, target]
  }))
  const perl = ["perl", "-e", SCRIPT, ...calls.map(String), `/proc/${process.pid}/ns/mnt`, image, ...stages, `${uid}`, place.folder]
  await run(direct, "unshare", "--mount", "--propagation", "private", "--", ...perl, ...mounts.flat())
}

/** Whether the overlays are still mounted and the tree was not made again. */
const stands = async (place: Place, overlays: ReadonlyArray<typeof Overlay.Type>) => {
  const found = await Promise.all(
    overlays.map(({ folder, target }) => identity(join(place.folder, target)).then((found) => found === folder, ifAbsent(false)))
  )
  return found.every((isSame) => isSame)
}

const forget = async (place: Place, name: string) => {
  const { image, own } = pathsIn(place, name)
  await rm(image, { force: true })
  await rm(join(place.folder, own), { recursive: true, force: true })
}

/** For a sandbox in which nothing runs. Nothing is laid when it throws. */
export const lay = async (place: Place, { home, image, paths, tree }: Wanted): Promise<void> => {
  const name = basename(tree)
  const own = pathsIn(place, name)
  if ((await mounted(join(place.folder, tree))).length > 0) throw new Error("an overlay is there already")
  await forget(place, name)
  await mkdir(join(place.folder, own.own), { recursive: true, mode: 0o700 })
  const ofHome = paths.filter(({ base }) => base === "home")
  const overlays = await Promise.all([
    ...(paths.length === ofHome.length ? [] : [{ lower: "tree", upper: tree, target: tree }]),
    ...ofHome.map(({ path }, i) => ({ lower: join("home", path), upper: join(own.own, `home-${i}`), target: join(home, path) }))
  ].map(async (overlay) => ({ ...overlay, folder: await identity(join(place.folder, overlay.target)) })))
  try {
    await link(image, own.image)
    await writeFile(own.record, JSON.stringify({ overlays }), { mode: 0o600 })
    await mountAll(place, name, overlays)
  } catch (error) {
    await forget(place, name)
    throw error
  }
}

/** Lays again what a sandbox had before its disk was unmounted. Answers what it could not, for the log. */
export const layAgain = async (place: Place): Promise<ReadonlyArray<string>> => {
  const names = await namesIn(join(place.folder, "overlays"))
  const problems: Array<string> = []
  for (const name of names) {
    try {
      const record = decodeRecord(await readFile(pathsIn(place, name).record, "utf8"))
      if (Result.isSuccess(record) && await stands(place, record.success.overlays)) await mountAll(place, name, record.success.overlays)
      else await forget(place, name)
    } catch (error) {
      problems.push(`${name}: ${error instanceof Error ? error.message : error}`)
    }
  }
  return problems
}

/** Takes away all that was shown with a tree of the sandbox whose folder this is. For one in which nothing runs. Safe to repeat. */
export const uncover = async (folder: string, tree: string): Promise<void> => {
  const own = join(folder, "overlays", basename(tree))
  const record = decodeRecord(await textIn(join(own, "record.json"), ""))
  const targets = Result.isSuccess(record) ? record.success.overlays.map(({ target }) => target) : []
  for (const target of new Set([tree, ...targets])) await takeOff(join(folder, target))
  await rm(own, { recursive: true, force: true })
}

/** Gives up the images that a sandbox had, whose disk is gone. */
export const release = async (disk: string): Promise<void> => {
  const [folder, prefix] = [dirname(disk), `${basename(disk)}.`]
  const names = await namesIn(folder)
  for (const name of names) if (name.startsWith(prefix) && name.endsWith(".cache")) await rm(join(folder, name), { force: true })
}
