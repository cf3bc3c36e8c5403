/**
 * The files that the host keeps for a sandbox beside its trees. The service owns the sockets and accounts. The sandbox owns `home` and
 * `scratch`, which live as long as the sandbox.
 *
 *     <directory>/<sandbox id>/home, scratch
 *     <directory>/<sandbox id>/incoming       files on their way into the home (`home/WriteHome`)
 *     <directory>/<sandbox id>/etc            accounts that a box sees
 *     <directory>/<sandbox id>/egress.sock    its way out
 *
 * Where the folder of the trees has a size of its own, home and scratch folder lie in it, and the size counts for all:
 *
 *     <sized folder>/box/home, scratch, incoming
 */
import { ARTIFACTS_FOLDER } from "@slipway/domain/files/rules/ArtifactsFolder"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { chmod, chown, mkdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as HomeFiles from "../home/HomeFiles.ts"
import { reason } from "../host/HostAttempt.ts"
import * as DiskErrors from "../node/DiskErrors.ts"
import { Spawn } from "../node/spawner/Spawn.ts"
import * as Ownership from "../users/Ownership.ts"

export interface SandboxFolder {
  readonly path: string
  /** Holds `home` and `scratch`. */
  readonly writable: string
  readonly home: string
  readonly scratch: string
  readonly etc: string
  readonly socket: string
  /** Path of the home inside a box. */
  readonly homeInBox: string
}

/** The part of a sized folder that is not its trees'. */
export const writableIn = (sizedFolder: string): string => join(sizedFolder, "box")

/** `sizedFolder`: that of the sandbox, `null` where it has none. */
export const of = (directory: string, sandboxId: SandboxId, sizedFolder: string | null): SandboxFolder => {
  const path = join(directory, sandboxId)
  const writable = sizedFolder === null ? path : writableIn(sizedFolder)
  return {
    path,
    writable,
    home: join(writable, "home"),
    scratch: join(writable, "scratch"),
    etc: join(path, "etc"),
    socket: join(path, "egress.sock"),
    homeInBox: `/home/${sandboxId}`
  }
}

/** Makes the home where it is missing, with the way to it, and the folder for artifacts in it. */
export const prepareHome = async (folder: SandboxFolder, user: Ownership.User | null): Promise<void> => {
  for (const [path, mode] of [[folder.path, 0o711], [folder.writable, 0o711], [folder.home, 0o700]] as const) {
    await mkdir(path, { recursive: true })
    await chmod(path, mode)
  }
  if (user !== null) await chown(folder.home, user.uid, user.gid)
  await HomeFiles.makeFolder(folder.home, ARTIFACTS_FOLDER, user)
}

/** Makes what is missing, and the workspace: the trees may still be on their way. */
export const prepare = async (folder: SandboxFolder, options: {
  readonly workspace: string
  /** The sandbox's user, `null` when it is ours. */
  readonly user: Ownership.User | null
  readonly etcFiles: Readonly<Record<string, string>>
}): Promise<void> => {
  const { etcFiles, user, workspace } = options
  await mkdir(workspace, { recursive: true, mode: 0o700 })
  if (!(await stat(workspace)).isDirectory()) throw new Error("it is no folder")
  await prepareHome(folder, user)
  const make = async (path: string, mode: number) => {
    await mkdir(path, { recursive: true })
    await chmod(path, mode)
  }
  const writeEtc = async () => {
    await make(folder.etc, 0o755)
    await Promise.all(
      Object.entries(etcFiles).map(async ([name, content]) => {
        await writeFile(join(folder.etc, name), content)
        await chmod(join(folder.etc, name), 0o644)
      })
    )
  }
  const makeScratch = async () => {
    await make(folder.scratch, 0o700)
    if (user !== null) await chown(folder.scratch, user.uid, user.gid)
  }
  await Promise.all([writeEtc(), makeScratch()])
}

/** Before a process starts: writes its home files, and gives the user the trees that the host has made since. */
export const handOver = (folder: SandboxFolder, options: {
  readonly workspace: string
  readonly user: Ownership.User | null
  readonly homeFiles: Readonly<Record<string, string>>
}): Effect.Effect<void, HostError> =>
  Effect.flatMap(Spawn, (spawn) =>
    Effect.tryPromise({
      try: async () => {
        await HomeFiles.write(folder.home, options.user, options.homeFiles)
        if (options.user !== null) await Ownership.give(spawn, options.workspace, options.user)
      },
      catch: (error) =>
        error instanceof HomeFiles.RefusedPath
          ? new HostError({ operation: "spawn", detail: error.message, retryable: false, ofSandbox: true })
          : new HostError({
            operation: "spawn",
            detail: `The home or the workspace cannot be written to (${hasFilled(folder, error) ? OWN_DISK_FULL : reason(error)}).`,
            retryable: true,
            ...(hasFilled(folder, error) ? { ofSandbox: true } : {})
          })
    }))

const OWN_DISK_FULL = "the disk of the sandbox is full"

/** There is room for the service in a sized folder, unless it is out of files. */
const hasFilled = (folder: SandboxFolder, error: unknown): boolean =>
  folder.writable !== folder.path && DiskErrors.of(error)?.isFull === true
