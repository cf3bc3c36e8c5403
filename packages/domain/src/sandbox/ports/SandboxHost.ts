/** Port: runs and isolates the processes of a sandbox. Checked by `SandboxHostContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { CachePath } from "../../environment/rules/CachePath.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { LimitsMet } from "../rules/BoxLimit.ts"
import type { BoxNotRunning, ByteConnection, PortClosed, PortsUnsupported, TooManyConnections } from "./BoxConnection.ts"

export type { LimitsMet } from "../rules/BoxLimit.ts"

/** The host refused or failed. `retryable`: the same call may succeed later. */
export class HostError extends Schema.TaggedError<HostError>()("HostError", {
  operation: Schema.Literals(["provision", "visit", "spawn", "read", "write", "rest", "stop", "list"]),
  /** A sentence for people: what happened and what to do. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** The sandbox itself caused the failure by the content of its home or disk. Other sandboxes of this machine are not affected. */
  ofSandbox: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `sandbox host could not ${this.operation}: ${this.detail}`
  }
}

/** The files of a home exceed a limit of bytes or of number. A retry does not help while the files exist. */
export class HomeTooLarge extends Schema.TaggedError<HomeTooLarge>()("HomeTooLarge", { maximumBytes: Schema.Int }) {
  override get message() {
    return `the files of the home take more than ${this.maximumBytes} bytes, or are too many`
  }
}

/** The content for a home is invalid: truncated, altered, or with forbidden files. Nothing was written. */
export class HomeDamaged extends Schema.TaggedError<HomeDamaged>()("HomeDamaged", {
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return `the files of a home are damaged: ${this.detail}`
  }
}

/** A file begins with its path below the home. The pieces after it are its bytes. */
export type FilePart = { readonly path: string } | { readonly bytes: Uint8Array }

/** The programs for a repository's commands and its agent, as `SandboxHost.programs` returned them. Only for `BoxCommand.programs`. */
export interface Programs {
  /** Identifies the whole set. A setup's installed files work with any programs of the same id. */
  readonly id: string
  /** The image of the box; `null`: the host offers no images, or uses its own. */
  readonly image: string | null
  /** Whether an image was requested that the operator does not offer. */
  readonly isRefused: boolean
  /** Folders of the box that come first on the PATH. */
  readonly path: ReadonlyArray<string>
  /** Environment variables for these programs. */
  readonly env: Readonly<Record<string, string>>
}

/** A program to run in a box. */
export interface BoxCommand {
  /** An absolute path inside the box, or a name on its PATH. Never a shell string. */
  readonly command: string
  readonly args: ReadonlyArray<string>
  /**
   * The command's own variables. They override `programs.env`. The variables that the box sets override them: PATH, HOME, TMPDIR, LANG,
   * TERM, SLIPWAY_ARTIFACTS (`files/rules/ArtifactsFolder.ts`) and the proxy variables of its egress. Nothing of the service's environment
   * is inherited.
   */
  readonly env: Readonly<Record<string, string>>
  /** Files written below the home before the process starts, readable by the box only. Keys are relative paths. */
  readonly homeFiles?: Readonly<Record<string, string>>
  /** For work of the service itself: the process can read, but not write, the service's own repositories of the sandbox's trees. */
  readonly seesRepositories?: true
  /** Without the box's network egress. */
  readonly isOffline?: boolean
  /** Absent: the host's own programs, as for work of the service. */
  readonly programs?: Programs
}

/** A running program. `exited` reports its end, which is never a failure. */
export interface BoxProcess {
  readonly pid: number
  /** Writes, and waits until the pipe has taken the bytes. Does nothing if the process has ended: `exited` reports that. */
  write(bytes: Uint8Array | string): Effect.Effect<void>
  /** Closes standard input, which asks a well-behaved agent to end. */
  readonly endInput: Effect.Effect<void>
  /** A slow reader slows the process down. */
  readonly stdout: Stream.Stream<Uint8Array>
  /**
   * The complete lines within the last 8 KiB of standard error. It may contain secrets: use it for the operator's log, never for an
   * event.
   */
  readonly stderrTail: Effect.Effect<string>
  readonly exited: Effect.Effect<{ readonly code: number | null; readonly signal: string | null }>
}

/** A provisioned box. Stopping the sandbox ends every process that was started in it. */
export interface Box {
  readonly sandboxId: SandboxId
  /** The folder of the working trees inside the box, with one folder per repository. */
  readonly workspace: string
  /** The agent's home inside the box, private to the sandbox and outside the workspace. */
  readonly home: string
  /** Starts a process in the workspace. It is killed with everything it started when the scope closes. */
  spawn(command: BoxCommand): Effect.Effect<BoxProcess, HostError, Scope.Scope>
  /**
   * Mounts cached folders at their paths, for processes that start later. The sandbox can change them like its own files, and no other
   * sandbox sees the changes. They stay while the sandbox rests, until the tree is made anew or the sandbox is stopped. Returns why it
   * failed, with nothing changed; `null`: mounted. Running processes do not see them.
   */
  readonly overlay?: (wanted: KeptFolders) => Effect.Effect<string | null>
  /**
   * Connects to a TCP port on the loopback interface that the sandbox's processes see, and only if a process of this sandbox listens
   * there. The connection lasts as long as the scope, and breaks with the box. Absent: the host has no way in.
   */
  readonly connect?: (
    port: number
  ) => Effect.Effect<ByteConnection, BoxNotRunning | PortClosed | PortsUnsupported | TooManyConnections, Scope.Scope>
  /** Never falls while the box exists. Absent: the host cannot count. */
  readonly limitsMet?: Effect.Effect<LimitsMet>
}

/** Folders that a setup filled, in a file that the box's host can mount. */
export interface KeptFolders {
  /** The path of the file on the worker's machine. Only boxes of that machine have `overlay`. */
  readonly image: string
  /** The tree's folder inside the box. */
  readonly tree: string
  /** The paths must not exist in the tree, and must be empty folders in the home. */
  readonly paths: ReadonlyArray<CachePath>
}

/** Every call is safe to repeat. Calls for one sandbox wait for each other, except `find`, `readHome` and work in a visit. */
export class SandboxHost extends Context.Service<SandboxHost, {
  /** `none` gives no isolation: only for the offline agent, unless the operator allows more. */
  readonly isolation: "none" | "bubblewrap" | "docker" | "gvisor" | "runner" | "kubernetes"
  /**
   * The present programs for repositories: the operator's toolchains, in the requested image if the host has it. `image`: `null`
   * requests none.
   */
  programs(image: string | null): Effect.Effect<Programs>
  /**
   * Makes the box and the folder for artifacts in its home, or returns the existing box with its home unchanged. First ends everything
   * that still runs in it, such as the agent of an earlier worker that lost its lease. The trees need not exist yet: boxes and trees are
   * prepared in parallel.
   *
   * `fence` is that of the present lease. A host with boxes on other machines permanently refuses a lower fence than the box has seen.
   * Hosts whose boxes end with their worker may ignore it.
   */
  provision(options: { readonly sandboxId: SandboxId; readonly fence: number }): Effect.Effect<Box, HostError>
  /**
   * The box, if this process provisioned the sandbox and has neither stopped it nor put it to rest. Running processes continue: for
   * work of the service itself beside the agent.
   */
  find(sandboxId: SandboxId): Effect.Effect<Option.Option<Box>>
  /**
   * A box for reading the trees of a sandbox, which may be at rest: the existing box, otherwise a temporary one without egress and with
   * read-only trees. Concurrent visits share it. `provision` does not wait for a visit: processes of the visit are ended, and later
   * ones run in the sandbox's own box. The trees must exist.
   */
  visit(options: { readonly sandboxId: SandboxId }): Effect.Effect<Box, HostError, Scope.Scope>
  /**
   * Reads these paths below the home, with the content of folders, for `writeHome` of any host of the same isolation. Only plain files
   * with one name are included: links, devices and missing paths are left out. Equal files give equal bytes. It works for a resting
   * sandbox. Processes that write to the files must end or be idle first: each file is as it was when it was read. Fails with
   * `HomeTooLarge` before it returns more than `maximumBytes`, and with a retryable `HostError` after a minute.
   */
  readHome(
    sandboxId: SandboxId,
    paths: ReadonlyArray<string>,
    options: { readonly maximumBytes: number }
  ): Stream.Stream<Uint8Array, HostError | HomeTooLarge>
  /**
   * The files of one path below the home, with the content of folders, for the service itself: in the order of names in each folder, and
   * otherwise as `readHome` reads them. It fails before the first file that exceeds `maximumBytes` together with those before it.
   */
  readFiles(
    sandboxId: SandboxId,
    path: string,
    options: { readonly maximumBytes: number }
  ): Stream.Stream<FilePart, HostError | HomeTooLarge>
  /**
   * Replaces the paths that `content` was read from. Other files of the home stay. A missing home is made, the box is not. All of
   * `content` is validated before the home is changed. A retry completes what a crash or a `HostError` left incomplete. The sandbox's
   * agent must not run.
   */
  writeHome<E>(
    sandboxId: SandboxId,
    content: Stream.Stream<Uint8Array, E>
  ): Effect.Effect<void, E | HostError | HomeDamaged>
  /**
   * Kills every process of the sandbox and frees the resources of its box. Home and trees stay for the next `provision`. Safe to
   * repeat, also for an unknown sandbox.
   */
  rest(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Kills every process of the sandbox and deletes its data on the host. Safe to repeat, also for an unknown sandbox. */
  stop(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Sandboxes with data on this host, including resting ones, for the reaper. */
  readonly list: Effect.Effect<ReadonlyArray<SandboxId>, HostError>
}>()("@slipway/domain/SandboxHost") {
}
