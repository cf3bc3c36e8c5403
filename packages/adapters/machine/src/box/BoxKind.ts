/** The parts of a host that differ between kinds of boxes, and the launch options of a process in a box. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { BoxProcess, HostError, LimitsMet, Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Effect } from "effect"
import type * as SandboxFolder from "../files/SandboxFolder.ts"
import type { SizedFolders } from "../files/SizedFolders.ts"
import type { Limits } from "../host/Limits.ts"
import type * as Ownership from "../users/Ownership.ts"

export interface Options {
  /** Where the trees of each sandbox are on this machine (`TreesLayout`): what its box shows as its workspace. */
  readonly workspaceOf: (sandboxId: SandboxId) => string
  readonly limits?: Partial<Limits>
  /** Absolute paths that every box sees where they are here: programs, never secrets. */
  readonly readOnly?: ReadonlyArray<string>
  /** Absolute paths of folders as `Toolchains` has them: every box sees them. */
  readonly toolchains?: ReadonlyArray<string>
  /** Folders whose size the kernel limits. A sandbox whose workspace lies in such a folder keeps all its writable files there. */
  readonly folders?: SizedFolders
  /** Pause between looks at how much of the disk a sandbox takes whose folder has no size of its own. */
  readonly diskLookMillis?: number
  /** Between two looks at whether the disk fills up. */
  readonly diskGlanceMillis?: number
}

/** Everything that a process sees and is given. */
export interface Launch {
  readonly sandboxId: SandboxId
  /** Host folders that become the home, the scratch folder and the workspace: all that a box can write to on a disk. */
  readonly folder: SandboxFolder.SandboxFolder
  readonly workspace: string
  /** Whether the workspace is to be looked at alone. */
  readonly isReading: boolean
  /** Whose processes they are on the machine, `null` when they are ours. */
  readonly user: Ownership.User | null
  /** Host paths that appear in the box where they are on the host. Each is there. */
  readonly readOnly: ReadonlyArray<string>
  /** Names of files in the folder's `etc` that become files of `/etc`. */
  readonly etcFiles: ReadonlyArray<string>
  /** Whether the folder's socket is to be the box's way out. */
  readonly hasWayOut: boolean
  readonly limits: Limits
  /** Those of the machine that it runs on, as `Processors` gives them; `null`: all. */
  readonly processors: string | null
  readonly environment: Readonly<Record<string, string>>
  readonly command: ReadonlyArray<string>
  /** The image of the box, as chosen; `null`: the usual one. */
  readonly image: string | null
}

/** How boxes of one kind are made and ended. */
export interface Kind {
  readonly isolation: "bubblewrap" | "docker" | "gvisor"
  /** Chooses the programs of boxes for the requested `image`; `null`: no image was requested. */
  choose(image: string | null): Effect.Effect<Pick<Programs, "id" | "image" | "isRefused">>
  /** Where the programs of boxes are. `image`: as chosen. */
  path(image: string | null): string
  /** Whether a process sees what was mounted in its folders before it started. */
  readonly showsMounts: boolean
  /** Whose processes they are inside. */
  insideUser(user: Ownership.User | null): Ownership.User
  /** The user that has files of a sandbox open on the machine. Default: the sandbox's own user. */
  readonly holder?: (sandboxId: SandboxId) => Effect.Effect<Ownership.User, HostError>
  /** Makes what a sandbox needs beside its folder. */
  prepare(
    operation: HostError["operation"],
    sandboxId: SandboxId,
    folder: SandboxFolder.SandboxFolder,
    limits: Limits
  ): Effect.Effect<void, HostError>
  /** Starts a process in a box. `end` ends it with all that it started, and may be called twice. */
  start(launch: Launch): Effect.Effect<{ readonly process: BoxProcess; readonly end: Effect.Effect<void> }, HostError>
  /** Ends all that was ever started for the sandbox, by whatever worker of this service. */
  end(operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** How often the kernel kept the sandbox's box to its limits, since it was made. Absent: it does not count that. */
  readonly limitsMet?: (sandboxId: SandboxId) => Effect.Effect<LimitsMet>
  /** Gives back what a sandbox without processes holds beside its folder and its user. */
  discard(operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Names of sandboxes of which more is left than a folder and a user. */
  readonly left: Effect.Effect<ReadonlyArray<string>, HostError>
}
