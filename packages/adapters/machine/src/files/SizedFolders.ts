/**
 * Folders of sandboxes that cannot grow beyond a size: each is a file system of its own, in a file of this machine, so the
 * kernel refuses what is too much at the moment it is written. The file takes of the disk what was ever written to it.
 *
 *     <directory>/disks/<sandbox id>        the file, with an ext4
 *     <directory>/disks/making/             files that are not ready
 *     <directory>/sandboxes/<sandbox id>    the folder: where it is mounted
 *
 * A folder is there whenever its file is, so whoever lists folders finds both. Mounts outlive the process: the next one finds
 * them, or makes them again after a reboot.
 */
import { codeOf, ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Schema, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { chmod, mkdir, realpath, rename, rm, rmdir, stat, statfs } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Limits } from "../host/Limits.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import * as DiskTrouble from "../node/DiskTrouble.ts"
import { isThere, namesIn, textIn } from "../node/IsThere.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import { Spawn } from "../node/spawner/Spawn.ts"
import * as DiskImages from "../overlay/DiskImages.ts"
import { type Size, sizeOf } from "../overlay/DiskImages.ts"
import * as Overlays from "../overlay/Overlays.ts"
import * as OverlayProbe from "../overlay/Probe.ts"
import * as TreesLayout from "./TreesLayout.ts"

export interface SizedFolders {
  /** Holds the folders, each named by its sandbox. */
  readonly directory: string
  /** Why new folders get no size that the kernel keeps, for people, as a part of a sentence; `null`: they do. */
  readonly lacking: string | null
  /**
   * Makes the folder's file system where it has none yet, and mounts it where it is not. Answers whether the kernel keeps its
   * size: not that of a folder in which something lay before, nor where something is lacking, be it just now. Dies when the
   * disk refuses, or one that was made cannot be mounted.
   */
  open(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Mounts it where it has a file system that is not mounted. Makes nothing; answers and dies as `open`. */
  reopen(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Whether it has a size of its own: what is refused there for want of space would not fit on an empty machine either. */
  isSized(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Why nobody is shown a cache image, for people, as a part of a sentence; `null`: they are. */
  readonly lackingOverlays: string | null
  /**
   * Shows the folders of a cache image where they are wanted, for as long as the folder is there (`overlay/Overlays`). Answers why
   * it cannot, where nothing is changed; `null`: they are there. For a sandbox in which nothing runs.
   */
  overlay(sandboxId: SandboxId, wanted: Overlays.Wanted): Effect.Effect<string | null>
  /** Takes away all that `overlay` showed. For a sandbox in which nothing runs. Safe to repeat. */
  uncover(sandboxId: SandboxId): Effect.Effect<void>
  /** Deletes it with all that is in it, sized or not. Safe to repeat. */
  remove(sandboxId: SandboxId): Effect.Effect<void>
  /**
   * Mounts every file of this machine that is not, and clears up what killed processes left. For the one process that uses the
   * folders, once.
   */
  readonly adopt: Effect.Effect<void>
  /** Unmounts all when the scope closes: for the same process. Nothing can be opened from then on. */
  readonly letGo: Effect.Effect<void, never, Scope.Scope>
  /** Gives space back to the machine's disk that files took which are deleted by now. */
  readonly trim: Effect.Effect<void>
}

export interface Options {
  /** Made when missing. */
  readonly directory: string
  readonly limits: Limits
  /** Why none is to be made, in such words. What was made before is used and removed all the same. */
  readonly lacking?: string
  /** Whether to look if cache images can be shown, some 200 ms. Else they are not. */
  readonly overlays?: boolean
}

/** Programs, and the package of Debian, Ubuntu, Fedora and Arch that has them. */
const PROGRAMS: Readonly<Record<string, string>> = { "mkfs.ext4": "e2fsprogs", e2fsck: "e2fsprogs", mount: "mount", umount: "mount" }

/** Of the machine's disk, to make one: the kernel takes writes that would not fit there, and loses them later. */
const SPARE_BYTES = 64 * 2 ** 20

/** What a killed process was making is nobody's after this time; it takes milliseconds. */
const LEFT_AFTER_MILLIS = 60_000

/** Of the look whether this machine can do it, once nobody waits for it; it takes some 200 ms. */
const TRIAL_ENDS_WITHIN = "5 seconds"

/** Mounts under way at once. */
const AT_ONCE = 4

const OPTIONS = "loop,nodev,nosuid,noatime,noinit_itable,errors=remount-ro"

/** What the kernel says of the file of a device that has none, or that it gives up meanwhile. */
const UNUSED: ReadonlyArray<unknown> = ["ENXIO", "ENODEV"]

/** Files that the kernel has as disks: one that is not mounted here may be in another mount namespace. */
const attached = async (): Promise<ReadonlySet<string>> => {
  const devices = (await namesIn("/sys/block")).filter((name) => name.startsWith("loop"))
  return new Set(
    await Promise.all(devices.map((name) =>
      // A disk that the kernel has and that nobody noticed would be repaired while it is mounted.
      textIn(`/sys/block/${name}/loop/backing_file`, "").then((text) => text.trim(), (error: unknown) => {
        if (UNUSED.includes(codeOf(error))) return ""
        throw error
      })
    ))
  )
}

/** What is mounted has a number of its own. */
const isMounted = async (folder: string): Promise<boolean> => {
  const [own, above] = await Promise.all([stat(folder).catch(ifAbsent(undefined)), stat(join(folder, "..")).catch(ifAbsent(undefined))])
  return own !== undefined && own.dev !== above?.dev
}

const mounting = (spawn: Spawn) => ({
  mount: async (disk: string, folder: string): Promise<void> => {
    await DiskImages.run(spawn, "mount", "-t", "ext4", "-o", OPTIONS, "--", disk, folder)
    // Only the service gets through, wherever the folder lies.
    await chmod(folder, 0o700)
  },
  /** From here on it is gone from this folder, and from the kernel when nobody uses it any more. */
  unmount: async (folder: string): Promise<void> => {
    while (await isMounted(folder)) await DiskImages.run(spawn, "umount", "--lazy", "--", folder)
  }
})

const isSandboxId = Schema.is(SandboxId)

/** Looks whether this machine can do it, by doing it: some 40 ms. For as long as the scope. */
export const make = Effect.fn("SizedFolders.make")(function*({ directory: given, lacking: refused, limits, overlays = false }: Options) {
  const locked = yield* KeyedLock.make
  const spawn = yield* Spawn
  const { mount, unmount } = mounting(spawn)
  const paths = (root: string) => ({
    root,
    directory: TreesLayout.sandboxesIn(root),
    disks: join(root, "disks"),
    making: join(root, "disks", "making")
  })
  const { directory, disks, making } = paths(resolve(given))
  const size = sizeOf(limits)
  let isClosed = false
  let lackingOverlays: string | null = "it was not asked for"
  /** Nobody has heard of yet. */
  const problems: Array<string> = []

  const prepareFolders = async () => {
    for (const folder of [resolve(given), directory, disks, making]) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
    }
  }

  const roomToWrite = async () => {
    const { bavail, bsize } = await statfs(disks)
    if (bavail * bsize < SPARE_BYTES) throw Object.assign(new Error("the machine's disk is full"), { code: "ENOSPC" })
  }

  /** Makes a disk, and hands it on when it is ready: one that another process might find is whole. */
  const made = async (size: Size, take: (disk: string) => Promise<void>) => {
    const draft = join(making, randomUUID())
    try {
      await DiskImages.format(spawn, draft, size)
      await take(draft)
    } finally {
      await rm(draft, { force: true })
    }
  }

  const tried = async (): Promise<string | null> => {
    if (refused !== undefined) return refused
    if (process.platform !== "linux") return "it takes Linux"
    if (process.getuid?.() !== 0) return "mounting takes root"
    const missing = await DiskImages.missingProgram(PROGRAMS)
    if (missing !== undefined) return missing
    try {
      await prepareFolders()
      await roomToWrite()
      await made(size, async (disk) => {
        const folder = `${disk}.mounted`
        await mkdir(folder)
        try {
          await mount(disk, folder)
          if (!(await isMounted(folder))) throw new Error("what is mounted does not appear")
          if (overlays) lackingOverlays = await Effect.runPromise(OverlayProbe.lacking({ folder, disk }))
        } finally {
          await unmount(folder)
          await rmdir(folder)
        }
      })
      return null
    } catch (error) {
      return `this machine does not mount one: ${error instanceof Error ? error.message : error}`
    }
  }
  const trying = yield* Effect.sync(tried)
  const lacking = yield* Effect.promise(() => trying).pipe(
    // What it mounted it takes away itself, unless a program of the machine hangs.
    Effect.onInterrupt(() => Effect.timeoutOption(Effect.promise(() => trying), TRIAL_ENDS_WITHIN))
  )

  /** Puts right what a power loss left, then mounts. */
  const mountAgain = async (disk: string, folder: string, busy: ReadonlySet<string>) => {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    if (!busy.has(await realpath(disk))) await DiskImages.run(spawn, "e2fsck", "-y", disk)
    await mount(disk, folder)
    for (const problem of await Overlays.layAgain({ folder, disk })) problems.push(problem)
  }

  const reopened = async (sandboxId: SandboxId, busy?: ReadonlySet<string>): Promise<boolean> => {
    if (isClosed) throw new Error("the folders of sandboxes are unmounted already")
    const [folder, disk] = [join(directory, sandboxId), join(disks, sandboxId)]
    if (await isMounted(folder)) return true
    if (!(await isThere(disk))) return false
    await mountAgain(disk, folder, busy ?? await attached())
    return true
  }

  /** Answers what it could not do, where that is no trouble of the disk. */
  const opened = async (sandboxId: SandboxId): Promise<boolean | Error> => {
    if (await reopened(sandboxId)) return true
    const [folder, disk] = [join(directory, sandboxId), join(disks, sandboxId)]
    if (lacking !== null || (await namesIn(folder)).length > 0) return false
    try {
      await prepareFolders()
      await roomToWrite()
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await made(size, (draft) => rename(draft, disk))
      await mount(disk, folder)
      return true
    } catch (error) {
      await rm(disk, { force: true })
      if (DiskTrouble.of(error) !== undefined) throw error
      return error instanceof Error ? error : new Error(String(error))
    }
  }

  /** Whoever goes away leaves nothing half done. */
  const alone = <A>(sandboxId: SandboxId, work: Effect.Effect<A>): Effect.Effect<A> => Effect.uninterruptible(locked(sandboxId)(work))
  const one = <A>(sandboxId: SandboxId, work: () => Promise<A>): Effect.Effect<A> =>
    alone(
      sandboxId,
      Effect.tap(Effect.promise(work), () =>
        Effect.forEach(problems.splice(0), (reason) =>
          Effect.logError("a sandbox is without folders that setup filled", { sandboxId, reason })))
    )

  const named = async (folder: string) => (await namesIn(folder)).filter(isSandboxId)

  const folders: SizedFolders = {
    directory,
    lacking,
    open: Effect.fnUntraced(function*(sandboxId) {
      const answer = yield* one(sandboxId, () => opened(sandboxId))
      if (typeof answer === "boolean") return answer
      // As where loop devices run out.
      yield* Effect.logWarning("a sandbox gets no disk of its own: what it takes is measured", { sandboxId, reason: answer.message })
      return false
    }),
    reopen: (sandboxId) => one(sandboxId, () => reopened(sandboxId)),
    isSized: (sandboxId) => Effect.promise(() => isMounted(join(directory, sandboxId))),
    lackingOverlays,
    overlay: (sandboxId, wanted) =>
      one(sandboxId, async () => {
        const [folder, disk] = [join(directory, sandboxId), join(disks, sandboxId)]
        if (lackingOverlays !== null) return lackingOverlays
        if (isClosed || !(await isMounted(folder))) return "the sandbox has no disk of its own"
        return Overlays.lay({ folder, disk }, wanted).then(() => null, (error) => error instanceof Error ? error.message : String(error))
      }),
    uncover: (sandboxId) => one(sandboxId, () => Overlays.takeOff(join(directory, sandboxId))),
    remove: (sandboxId) =>
      alone(
        sandboxId,
        Effect.andThen(
          Effect.promise(async () => {
            // Boxes that run have copies of the mount, in namespaces of their own. Those go when the folder is deleted: see
            // mount_namespaces(7), "Linux 3.18".
            await unmount(join(directory, sandboxId))
            await rm(join(disks, sandboxId), { force: true })
            await Overlays.release(join(disks, sandboxId))
          }),
          deleteTree(join(directory, sandboxId))
        )
      ),
    adopt: Effect.gen(function*() {
      yield* Effect.promise(async () => {
        for (const name of await namesIn(making)) {
          const left = join(making, name)
          const touched = await stat(left).then(({ mtimeMs }) => mtimeMs, ifAbsent(Number.POSITIVE_INFINITY))
          if (Date.now() - touched < LEFT_AFTER_MILLIS) continue
          await unmount(left)
          await rm(left, { recursive: true, force: true })
        }
      })
      const [ids, busy] = yield* Effect.promise(() => Promise.all([named(disks), attached()]))
      yield* Effect.forEach(ids, (sandboxId) =>
        one(sandboxId, () => reopened(sandboxId, busy)).pipe(
          // Asked for later it is tried again, and whoever asks is told.
          Effect.catchCause((cause) => Effect.logError("the disk of a sandbox could not be mounted", { sandboxId }, cause))
        ), { concurrency: AT_ONCE, discard: true })
    }).pipe(Effect.withSpan("SizedFolders.adopt")),
    letGo: Effect.addFinalizer(() =>
      Effect.gen(function*() {
        isClosed = true
        yield* Effect.forEach(yield* Effect.promise(() => named(directory)), (sandboxId) =>
          one(sandboxId, () => unmount(join(directory, sandboxId))), { concurrency: AT_ONCE, discard: true })
      }).pipe(Effect.catchCause((cause) =>
        Effect.logWarning("folders of sandboxes stay mounted", cause)
      ))
    ),
    trim: Effect.gen(function*() {
      for (const sandboxId of yield* Effect.promise(() => named(disks))) {
        const folder = join(directory, sandboxId)
        yield* Effect.promise(async () => {
          // Without the program, or where the disk below knows no holes, it is as it was.
          if (await isMounted(folder)) await DiskImages.run(spawn, "fstrim", "--", folder).catch(() => {})
        })
      }
    }).pipe(Effect.withSpan("SizedFolders.trim"))
  }
  return folders
})

/** Folders without a size. What sized ones there are below `directory` is not looked at. */
export const plain = (directory: string): SizedFolders => {
  const folders = TreesLayout.sandboxesIn(directory)
  return {
    directory: folders,
    lacking: "it was not asked for",
    open: () => Effect.succeed(false),
    reopen: () => Effect.succeed(false),
    isSized: () => Effect.succeed(false),
    lackingOverlays: "it was not asked for",
    overlay: () => Effect.succeed("the sandbox has no disk of its own"),
    uncover: () => Effect.void,
    remove: (sandboxId) => deleteTree(join(folders, sandboxId)),
    adopt: Effect.void,
    letGo: Effect.void,
    trim: Effect.void
  }
}
