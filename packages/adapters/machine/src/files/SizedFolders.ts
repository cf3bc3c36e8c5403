/**
 * Folders of sandboxes that cannot grow beyond a size: each is a file system of its own, in a file of this machine, so the kernel refuses
 * what is too much at the moment it is written. The file takes of the disk what was ever written to it.
 *
 *     <directory>/disks/<sandbox id>        the file, with an ext4
 *     <directory>/disks/making/             files that are not ready
 *     <directory>/sandboxes/<sandbox id>    the folder: where it is mounted
 *
 * A folder exists whenever its file does, so a list of folders is complete. Mounts outlive the process: the next process finds them, or
 * makes them again after a reboot.
 */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Schema, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { mkdir, realpath, rename, rm, rmdir, stat, statfs } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Limits } from "../host/Limits.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import * as DiskErrors from "../node/DiskErrors.ts"
import { isThere, namesIn } from "../node/IsThere.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import { Spawn } from "../node/spawner/Spawn.ts"
import * as DiskImages from "../overlay/DiskImages.ts"
import { type Size, sizeOf } from "../overlay/DiskImages.ts"
import { attached, isMounted, mount, unmount } from "../overlay/Mounts.ts"
import * as Overlays from "../overlay/Overlays.ts"
import * as OverlayProbe from "../overlay/Probe.ts"
import * as TreesLayout from "./TreesLayout.ts"

export interface SizedFolders {
  /** Holds the folders, each named by its sandbox. */
  readonly directory: string
  /** Why new folders get no size that the kernel keeps, for people, as a part of a sentence; `null`: they do. */
  readonly lacking: string | null
  /**
   * Makes and mounts the folder's file system if it is missing. Answers whether the kernel limits its size. It does not if the folder had
   * files before, or if a program or device is missing at the moment. Dies when the disk refuses a write, or when a disk that was made
   * before cannot be mounted.
   */
  open(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Mounts it where it has a file system that is not mounted. Makes nothing; answers and dies as `open`. */
  reopen(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Whether it has a size of its own: what is refused there for want of space would not fit on an empty machine either. */
  isSized(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Why cache images are not shown, for people, as a part of a sentence; `null`: they are. */
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

/** Free bytes of the machine's disk that a new folder needs: the kernel accepts writes that do not fit there, and loses them later. */
const SPARE_BYTES = 64 * 2 ** 20

/** A draft older than this was left by a killed process; making one takes milliseconds. */
const LEFT_AFTER_MILLIS = 60_000

/** Time for an interrupted trial to clean up; a whole trial takes some 200 ms. */
const TRIAL_ENDS_WITHIN = "5 seconds"

/** Mounts under way at once. */
const AT_ONCE = 4

const isSandboxId = Schema.is(SandboxId)

/** Disks and folders of sandboxes on this machine. */
interface Disks {
  readonly root: string
  readonly directory: string
  readonly disks: string
  readonly making: string
  readonly size: Size
  readonly spawn: Spawn
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Problems that are not logged yet. */
  readonly problems: Array<string>
  /** Why no disk can be made; `null`: it can. */
  lacking: string | null
  lackingOverlays: string | null
  isClosed: boolean
}

const prepareFolders = async ({ directory, disks, making, root }: Disks): Promise<void> => {
  for (const folder of [root, directory, disks, making]) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
  }
}

const roomToWrite = async ({ disks }: Disks): Promise<void> => {
  const { bavail, bsize } = await statfs(disks)
  if (bavail * bsize < SPARE_BYTES) throw Object.assign(new Error("the machine's disk is full"), { code: "ENOSPC" })
}

/** Makes a disk and passes it on when it is complete: another process never finds a half-made disk. */
const made = async ({ making, size, spawn }: Disks, take: (disk: string) => Promise<void>) => {
  const draft = join(making, randomUUID())
  try {
    await DiskImages.format(spawn, draft, size)
    await take(draft)
  } finally {
    await rm(draft, { force: true })
  }
}

const trial = async (all: Disks, refused: string | undefined, overlays: boolean): Promise<string | null> => {
  if (refused !== undefined) return refused
  if (process.platform !== "linux") return "it takes Linux"
  if (process.getuid?.() !== 0) return "mounting takes root"
  const missing = await DiskImages.missingProgram(PROGRAMS)
  if (missing !== undefined) return missing
  try {
    await prepareFolders(all)
    await roomToWrite(all)
    await made(all, async (disk) => {
      const folder = `${disk}.mounted`
      await mkdir(folder)
      try {
        await mount(all.spawn, disk, folder)
        if (!(await isMounted(folder))) throw new Error("what is mounted does not appear")
        if (overlays) all.lackingOverlays = await Effect.runPromise(OverlayProbe.lacking({ folder, disk }))
      } finally {
        await unmount(all.spawn, folder)
        await rmdir(folder)
      }
    })
    return null
  } catch (error) {
    return `this machine does not mount one: ${error instanceof Error ? error.message : error}`
  }
}
/** Repairs what a power loss left, then mounts. */
const mountAgain = async ({ problems, spawn }: Disks, disk: string, folder: string, busy: ReadonlySet<string>) => {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!busy.has(await realpath(disk))) await DiskImages.run(spawn, "e2fsck", "-y", disk)
  await mount(spawn, disk, folder)
  for (const problem of await Overlays.layAgain({ folder, disk })) problems.push(problem)
}

const reopened = async (all: Disks, sandboxId: SandboxId, busy?: ReadonlySet<string>): Promise<boolean> => {
  if (all.isClosed) throw new Error("the folders of sandboxes are unmounted already")
  const [folder, disk] = [join(all.directory, sandboxId), join(all.disks, sandboxId)]
  if (await isMounted(folder)) return true
  if (!(await isThere(disk))) return false
  await mountAgain(all, disk, folder, busy ?? await attached())
  return true
}

/** Answers the error, unless it is one of the disk. */
const opened = async (all: Disks, sandboxId: SandboxId): Promise<boolean | Error> => {
  if (await reopened(all, sandboxId)) return true
  const [folder, disk] = [join(all.directory, sandboxId), join(all.disks, sandboxId)]
  if (all.lacking !== null || (await namesIn(folder)).length > 0) return false
  try {
    await prepareFolders(all)
    await roomToWrite(all)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await made(all, (draft) => rename(draft, disk))
    await mount(all.spawn, disk, folder)
    return true
  } catch (error) {
    await rm(disk, { force: true })
    if (DiskErrors.of(error) !== undefined) throw error
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** Not interruptible: an interrupted caller must not leave a half-made folder. */
const alone = <A>({ locked }: Disks, sandboxId: SandboxId, work: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.uninterruptible(locked(sandboxId)(work))
const one = <A>(all: Disks, sandboxId: SandboxId, work: () => Promise<A>): Effect.Effect<A> =>
  alone(
    all,
    sandboxId,
    Effect.tap(Effect.promise(work), () =>
      Effect.forEach(all.problems.splice(0), (reason) =>
        Effect.logError("a sandbox is without folders that setup filled", { sandboxId, reason })))
  )

const named = async (folder: string) => (await namesIn(folder)).filter(isSandboxId)

const open = Effect.fnUntraced(function*(all: Disks, sandboxId: SandboxId) {
  const answer = yield* one(all, sandboxId, () => opened(all, sandboxId))
  if (typeof answer === "boolean") return answer
  // As where loop devices run out.
  yield* Effect.logWarning("a sandbox gets no disk of its own: what it takes is measured", { sandboxId, reason: answer.message })
  return false
})

const overlay = (all: Disks, sandboxId: SandboxId, wanted: Overlays.Wanted): Effect.Effect<string | null> =>
  one(all, sandboxId, async () => {
    const [folder, disk] = [join(all.directory, sandboxId), join(all.disks, sandboxId)]
    if (all.lackingOverlays !== null) return all.lackingOverlays
    if (all.isClosed || !(await isMounted(folder))) return "the sandbox has no disk of its own"
    return Overlays.lay({ folder, disk }, wanted).then(() => null, (error) => error instanceof Error ? error.message : String(error))
  })

const remove = (all: Disks, sandboxId: SandboxId): Effect.Effect<void> =>
  alone(
    all,
    sandboxId,
    Effect.andThen(
      Effect.promise(async () => {
        // Boxes that run have copies of the mount, in namespaces of their own. Those go when the folder is deleted: see
        // mount_namespaces(7), "Linux 3.18".
        await unmount(all.spawn, join(all.directory, sandboxId))
        await rm(join(all.disks, sandboxId), { force: true })
        await Overlays.release(join(all.disks, sandboxId))
      }),
      deleteTree(join(all.directory, sandboxId))
    )
  )

const adopt = (all: Disks): Effect.Effect<void> =>
  Effect.gen(function*() {
    const { disks, making, spawn } = all
    yield* Effect.promise(async () => {
      for (const name of await namesIn(making)) {
        const left = join(making, name)
        const touched = await stat(left).then(({ mtimeMs }) => mtimeMs, ifAbsent(Number.POSITIVE_INFINITY))
        if (Date.now() - touched < LEFT_AFTER_MILLIS) continue
        await unmount(spawn, left)
        await rm(left, { recursive: true, force: true })
      }
    })
    const [ids, busy] = yield* Effect.promise(() => Promise.all([named(disks), attached()]))
    yield* Effect.forEach(ids, (sandboxId) =>
      one(all, sandboxId, () => reopened(all, sandboxId, busy)).pipe(
        // The next request for it tries again, and fails with the reason.
        Effect.catchCause((cause) => Effect.logError("the disk of a sandbox could not be mounted", { sandboxId }, cause))
      ), { concurrency: AT_ONCE, discard: true })
  }).pipe(Effect.withSpan("SizedFolders.adopt"))

const letGo = (all: Disks) =>
  Effect.addFinalizer(() =>
    Effect.gen(function*() {
      all.isClosed = true
      yield* Effect.forEach(
        yield* Effect.promise(() => named(all.directory)),
        (sandboxId) => one(all, sandboxId, () => unmount(all.spawn, join(all.directory, sandboxId))),
        { concurrency: AT_ONCE, discard: true }
      )
    }).pipe(Effect.catchCause((cause) => Effect.logWarning("folders of sandboxes stay mounted", cause)))
  )

const trim = ({ directory, disks, spawn }: Disks): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (const sandboxId of yield* Effect.promise(() => named(disks))) {
      const folder = join(directory, sandboxId)
      yield* Effect.promise(async () => {
        // Without the program, or where the disk below knows no holes, it is as it was.
        if (await isMounted(folder)) await DiskImages.run(spawn, "fstrim", "--", folder).catch(() => {})
      })
    }
  }).pipe(Effect.withSpan("SizedFolders.trim"))

/** Tries, by making one, whether this machine can make and mount disks: some 40 ms. For as long as the scope. */
export const make = Effect.fn("SizedFolders.make")(function*({ directory, lacking: refused, limits, overlays = false }: Options) {
  const root = resolve(directory)
  const disks = join(root, "disks")
  const all: Disks = {
    root,
    directory: TreesLayout.sandboxesIn(root),
    disks,
    making: join(disks, "making"),
    size: sizeOf(limits),
    spawn: yield* Spawn,
    locked: yield* KeyedLock.make,
    problems: [],
    lacking: null,
    lackingOverlays: "it was not asked for",
    isClosed: false
  }
  const trying = yield* Effect.sync(() => trial(all, refused, overlays))
  all.lacking = yield* Effect.promise(() => trying).pipe(
    // The trial takes away what it mounted, unless a program of the machine hangs.
    Effect.onInterrupt(() => Effect.timeoutOption(Effect.promise(() => trying), TRIAL_ENDS_WITHIN))
  )
  const folders: SizedFolders = {
    directory: all.directory,
    lacking: all.lacking,
    open: (sandboxId) => open(all, sandboxId),
    reopen: (sandboxId) => one(all, sandboxId, () => reopened(all, sandboxId)),
    isSized: (sandboxId) => Effect.promise(() => isMounted(join(all.directory, sandboxId))),
    lackingOverlays: all.lackingOverlays,
    overlay: (sandboxId, wanted) => overlay(all, sandboxId, wanted),
    uncover: (sandboxId) => one(all, sandboxId, () => Overlays.takeOff(join(all.directory, sandboxId))),
    remove: (sandboxId) => remove(all, sandboxId),
    adopt: adopt(all),
    letGo: letGo(all),
    trim: trim(all)
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
