/** Port: where the processes of a sandbox run, and what keeps them in. Checked by `SandboxHostContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { CachePath } from "../../environment/rules/CachePath.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { LimitsMet } from "../rules/BoxLimit.ts"

export type { LimitsMet } from "../rules/BoxLimit.ts"

/** The host refused or failed. `retryable`: the same call may succeed later. */
export class HostError extends Schema.TaggedError<HostError>()("HostError", {
  operation: Schema.Literals(["provision", "visit", "spawn", "read", "write", "rest", "stop", "list"]),
  /** A sentence for people: what happened and what to do. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** The sandbox itself brought it about, by what is in its home or on its disk: others on this machine do not meet it. */
  ofSandbox: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `sandbox host could not ${this.operation}: ${this.detail}`
  }
}

/** What was to be read of a home is more than may be, in bytes or in files. A retry does not help as long as the files are there. */
export class HomeTooLarge extends Schema.TaggedError<HomeTooLarge>()("HomeTooLarge", { maximumBytes: Schema.Int }) {
  override get message() {
    return `the files of the home take more than ${this.maximumBytes} bytes, or are too many`
  }
}

/** What was to be written into a home is not what was read of one: cut, changed, or of files that may not be. Nothing was written. */
export class HomeDamaged extends Schema.TaggedError<HomeDamaged>()("HomeDamaged", {
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return `the files of a home are damaged: ${this.detail}`
  }
}

/** What a repository's commands and its agent find of programs. As `SandboxHost.programs` gave it: for `BoxCommand.programs` alone. */
export interface Programs {
  /** Names them all: of the same name, what a setup installed with some works with the others. */
  readonly id: string
  /** Of the box; `null`: the host has none to choose from, or it is the host's own. */
  readonly image: string | null
  /** Whether another image was asked for, which the operator does not offer. */
  readonly isRefused: boolean
  /** Folders in the box that come first on the PATH. */
  readonly path: ReadonlyArray<string>
  /** What those programs have to be told. */
  readonly env: Readonly<Record<string, string>>
}

/** A program to run in a box. */
export interface BoxCommand {
  /** Absolute path inside the box, or a name on its PATH. Never a shell string. */
  readonly command: string
  readonly args: ReadonlyArray<string>
  /**
   * The command's own variables. They win over `programs.env`; PATH, HOME, TMPDIR, LANG, TERM and the proxy variables of the box's egress,
   * which the box sets itself, win over them. Nothing of the service's environment is inherited.
   */
  readonly env: Readonly<Record<string, string>>
  /** Written below the home before the process starts, readable by the box alone. Keys are relative paths. */
  readonly homeFiles?: Readonly<Record<string, string>>
  /** For work of the service itself: it sees the service's own repositories of the sandbox's trees, and cannot write to them. */
  readonly seesRepositories?: true
  /** Without the box's way out. */
  readonly isOffline?: boolean
  /** Left out: what the host has by itself, as for work of the service. */
  readonly programs?: Programs
}

/** A running program. Its end is told by `exited`, never by a failure. */
export interface BoxProcess {
  readonly pid: number
  /** Writes and waits until the pipe took it. Writing to a process that is gone does nothing: `exited` tells. */
  write(bytes: Uint8Array | string): Effect.Effect<void>
  /** Closes standard input, which asks a well-behaved agent to end. */
  readonly endInput: Effect.Effect<void>
  /** Reading slowly slows the process down. */
  readonly stdout: Stream.Stream<Uint8Array>
  /** The whole lines of the last 8 KiB of standard error so far. May hold secrets: for the operator's log, never for an event. */
  readonly stderrTail: Effect.Effect<string>
  readonly exited: Effect.Effect<{ readonly code: number | null; readonly signal: string | null }>
}

/** A provisioned box. Stopping the sandbox ends every process that was ever started in it. */
export interface Box {
  readonly sandboxId: SandboxId
  /** Where the working trees appear to processes in the box: one folder per repository. */
  readonly workspace: string
  /** The agent's home inside the box: private to the sandbox, outside the workspace. */
  readonly home: string
  /** Starts a process in the workspace. It is killed with everything it started when the scope closes. */
  spawn(command: BoxCommand): Effect.Effect<BoxProcess, HostError, Scope.Scope>
  /**
   * Shows what is kept in a file of the machine where it is wanted, from the next process on: as the sandbox's own, to be changed
   * like anything else of it and by nobody else. Stays, over every rest, until the tree is made anew or the sandbox is stopped.
   * Answers why it cannot, where nothing has changed; `null`: it is there. What runs already does not see it.
   */
  readonly overlay?: (wanted: KeptFolders) => Effect.Effect<string | null>
  /** Grows only, while the box is there. Absent: the host cannot tell. */
  readonly limitsMet?: Effect.Effect<LimitsMet>
}

/** Folders that a setup filled, in a file that the box's host can mount. */
export interface KeptFolders {
  /** The file, by its path on the machine that the worker runs on: only boxes of that machine have `overlay`. */
  readonly image: string
  /** The tree's folder in the box. */
  readonly tree: string
  /** In the tree nothing is there, in the home an empty folder. */
  readonly paths: ReadonlyArray<CachePath>
}

/** Every call is safe to repeat. Those about one sandbox wait for each other, except for `find`, `readHome` and what goes on in a visit. */
export class SandboxHost extends Context.Service<SandboxHost, {
  /** `none` gives no isolation at all: the offline agent only, unless the operator says otherwise. */
  readonly isolation: "none" | "bubblewrap" | "docker" | "gvisor" | "runner" | "kubernetes"
  /**
   * The programs for repositories as they are now: the toolchains that the operator keeps, in the image that is asked for where the
   * host has it. `image`: `null` asks for none.
   */
  programs(image: string | null): Effect.Effect<Programs>
  /**
   * Makes the box, or returns the one that is there, its home as it was. Whatever still runs in it is ended first: the
   * agent of an earlier worker, which may not know yet that its lease is lost. The trees may still be on their way: boxes and
   * trees are prepared side by side.
   *
   * `fence` is that of the lease it is made under. A host whose boxes are elsewhere refuses a lower one than the box has seen,
   * for good, and asks nobody else. One whose boxes end with their worker, or are ended here, need not look at it.
   */
  provision(options: { readonly sandboxId: SandboxId; readonly fence: number }): Effect.Effect<Box, HostError>
  /**
   * The box of a sandbox that was provisioned by this process and neither stopped nor put to rest since. What runs in it goes on:
   * for work of the service itself, beside the agent.
   */
  find(sandboxId: SandboxId): Effect.Effect<Option.Option<Box>>
  /**
   * A box to look at the trees, of a sandbox that may be at rest: the one that is there, else one without a way out, which
   * cannot write to the trees, made for as long as somebody looks. Visits at once share it. Whoever provisions the sandbox
   * meanwhile does not wait: what runs in the visit is ended, and what it starts next runs in the sandbox's own box. Made for
   * trees that are there.
   */
  visit(options: { readonly sandboxId: SandboxId }): Effect.Effect<Box, HostError, Scope.Scope>
  /**
   * What is at these paths below the home, files and folders with all that is in them, for `writeHome` of any host of the same
   * isolation. Plain files with one name only: links, devices and the like are left out, and so is what is not there. The same
   * files are the same bytes. Also of a sandbox at rest. Whoever writes to them ends first or is idle: each file is as it was
   * when it was read. Fails with `HomeTooLarge` before it has given more than `maximumBytes`, and with a retryable `HostError`
   * when it takes over a minute.
   */
  readHome(
    sandboxId: SandboxId,
    paths: ReadonlyArray<string>,
    options: { readonly maximumBytes: number }
  ): Stream.Stream<Uint8Array, HostError | HomeTooLarge>
  /**
   * Makes what is at the paths that `content` was read of as it was then: what lies there now is gone, all else of the home
   * stays. The home is made when it is missing, the box is not. All of `content` is checked before the home is touched; what a
   * crash or a `HostError` leaves half done the next call does whole. For a sandbox whose agent does not run.
   */
  writeHome<E>(
    sandboxId: SandboxId,
    content: Stream.Stream<Uint8Array, E>
  ): Effect.Effect<void, E | HostError | HomeDamaged>
  /**
   * Kills every process of the sandbox and gives back what a box costs while nothing runs in it. Home and trees stay: the next
   * `provision` goes on with them. Safe to repeat; an unknown sandbox is fine.
   */
  rest(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Kills every process of the sandbox and gives back what it held. Safe to repeat; an unknown sandbox is fine. */
  stop(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Sandboxes of which something is left on this host, those at rest among them: what a reaper compares with the store. */
  readonly list: Effect.Effect<ReadonlyArray<SandboxId>, HostError>
}>()("@slipway/domain/SandboxHost") {
}
