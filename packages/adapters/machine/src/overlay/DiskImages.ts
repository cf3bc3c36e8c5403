/** Files that are file systems: how large, and what makes them. */
import { constants } from "node:fs"
import { access, open } from "node:fs/promises"
import { join } from "node:path"
import { finish } from "../node/spawner/Finish.ts"
import type { Spawn } from "../node/spawner/Spawn.ts"

/** Where programs of the machine are: not the service's own PATH, which a checkout may have put itself into. */
export const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const BLOCK_BYTES = 4096
const INODE_BYTES = 256
/** That the file system has for itself, among them the folder of what is found lost. */
const OWN_INODES = 16
/** Bitmaps and descriptors, as a part of the whole and at least: measured, rounded up (mke2fs 1.47, 2026-11-22). */
const OVERHEAD = 1 / 4096
const LEAST_OVERHEAD_BYTES = 2 ** 20
/** The kernel keeps so much free for itself: see `ext4_calculate_resv_clusters`. */
const KERNELS = { share: 0.02, most: 4096 * BLOCK_BYTES }
/** For the service, which writes as root: the history of a full sandbox can still be published. */
const OURS = 0.1

/** Limits of the files of a sandbox. */
interface DiskLimits {
  readonly diskBytes: number
  readonly diskFiles: number
}

/** Files and folders that fit: a file takes a block, so more could not be filled. */
export const filesOf = ({ diskBytes, diskFiles }: DiskLimits): number => Math.min(diskFiles, Math.floor(diskBytes / BLOCK_BYTES))

export interface Size {
  readonly bytes: number
  readonly inodes: number
  /** The share of its blocks that only root may use. */
  readonly reservedPercent: number
}

/** Room for as much as the limits allow, and for what the service writes. */
export const sizeOf = (limits: DiskLimits): Size => {
  const inodes = filesOf(limits) + OWN_INODES
  const reserved = limits.diskBytes * OURS
  const inUse = limits.diskBytes + reserved + inodes * INODE_BYTES
  const bytes = inUse * (1 + OVERHEAD) + Math.min(inUse * KERNELS.share, KERNELS.most) + LEAST_OVERHEAD_BYTES
  const whole = Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES
  return { bytes: whole, inodes, reservedPercent: 100 * reserved / whole }
}

/** Checks programs, each with its Debian and Ubuntu package. Answers why one cannot be run, as a part of a sentence. */
export const missingProgram = async (programs: Readonly<Record<string, string>>): Promise<string | undefined> => {
  for (const [program, name] of Object.entries(programs)) {
    const found = await Promise.all(
      PATH.split(":").map((folder) => access(join(folder, program), constants.X_OK).then(() => true, () => false))
    )
    if (!found.includes(true)) return `the program ${program} is not installed: apt-get install ${name}`
  }
  return undefined
}

/** Runs a program of the machine. What it said when it fails is in `stderr`. */
export const run = async (spawn: Spawn, program: string, ...args: ReadonlyArray<string>): Promise<void> => {
  const { code, signal, stderr } = await finish(spawn, program, args, { PATH, LC_ALL: "C" })
  if (code === 0 || program === "e2fsck" && code !== null && code < UNCORRECTED) return
  throw Object.assign(new Error(`${program} failed: ${stderr.trim().split("\n").at(-1) || (code ?? signal)}`), { stderr })
}

/** See e2fsck(8): from here on errors are left. */
const UNCORRECTED = 4

/** Makes the file, of which nothing is written yet but what a file system is. `owner`: whose its first folder is, by default root. */
export const format = async (spawn: Spawn, disk: string, { bytes, inodes, reservedPercent }: Size, owner = 0): Promise<void> => {
  const file = await open(disk, "wx", 0o600)
  try {
    await file.truncate(bytes)
  } finally {
    await file.close()
  }
  await run(
    spawn,
    "mkfs.ext4",
    "-q",
    "-F",
    "-b",
    `${BLOCK_BYTES}`,
    "-I",
    `${INODE_BYTES}`,
    "-N",
    `${inodes}`,
    "-m",
    reservedPercent.toFixed(6),
    // A journal would take space and time, for files that have to outlive the machine nowhere else either.
    ...["-O", "^has_journal,^resize_inode", "-E", `lazy_itable_init=1,nodiscard,root_owner=${owner}:${owner}`, "--", disk]
  )
}
