/** Port: where the processes of a sandbox run, and what keeps them in. Checked by `testing/SandboxHostContract`. */
import { Context, type Effect, type Option, Schema, type Scope, type Stream } from "effect"
import type { SandboxId } from "../SandboxId.ts"

/** The host refused or failed. `retryable`: the same call may succeed later. */
export class HostError extends Schema.TaggedError<HostError>()("HostError", {
  operation: Schema.Literals(["provision", "spawn", "stop", "list"]),
  /** A sentence for people: what happened and what to do. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `sandbox host could not ${this.operation}: ${this.detail}`
  }
}

/** A program to run in a box. */
export interface BoxCommand {
  /** Absolute path inside the box, or a name on its PATH. Never a shell string. */
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** All of the environment beside PATH, HOME, TMPDIR and LANG, which the box sets. Nothing is inherited. */
  readonly env: Readonly<Record<string, string>>
  /** Written below the home before the process starts, readable by the box alone. Keys are relative paths. */
  readonly homeFiles?: Readonly<Record<string, string>>
  /** Host paths that it sees as well, where they are on the host. It cannot write to them. */
  readonly readOnly?: ReadonlyArray<string>
  /** Without the box's way out. */
  readonly isOffline?: boolean
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
}

/** Every call is safe to repeat. */
export class SandboxHost extends Context.Service<SandboxHost, {
  /** `none` gives no isolation at all: the offline agent only, unless the operator says otherwise. */
  readonly isolation: "none" | "bubblewrap" | "docker"
  /**
   * Makes the box, or returns the one that is there, its home as it was. Whatever still runs in it is ended first: the
   * agent of an earlier worker, which may not know yet that its lease is lost. `workspace` is the host folder that holds
   * the working trees, made when missing: boxes and trees are prepared side by side.
   */
  provision(options: { readonly sandboxId: SandboxId; readonly workspace: string }): Effect.Effect<Box, HostError>
  /**
   * The box of a sandbox that was provisioned by this process and not stopped since. What runs in it goes on: for work of the
   * service itself over the trees, beside the agent.
   */
  find(sandboxId: SandboxId): Effect.Effect<Option.Option<Box>>
  /** Kills every process of the sandbox and gives back what it held. Safe to repeat; an unknown sandbox is fine. */
  stop(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Sandboxes of which something is left on this host: what a reaper compares with the store. */
  readonly list: Effect.Effect<ReadonlyArray<SandboxId>, HostError>
}>()("@slipway/domain/SandboxHost") {
}
