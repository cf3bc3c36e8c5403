/** How the programs of this machine are started: by this process itself, or by one beside it (`Spawner`). */
import { Context } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import type { Readable, Writable } from "node:stream"

export interface Options {
  readonly cwd: string
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>
  /** Descriptor of a file that is read from its start; without one there is `stdin`. */
  readonly inputFile?: number | undefined
  /** Descriptor of a file that is written from its start; without one there is `stdout`. */
  readonly outputFile?: number | undefined
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A process in a session and group of its own, whose number is also the group's. */
export interface Child {
  readonly pid: number
  /** Data written to a process that no longer reads is lost without an error. */
  readonly stdin: Writable | null
  /** Nothing is read before somebody listens, who has to begin in the tick that gave them the child. */
  readonly stdout: Readable | null
  readonly stderr: Readable
  /** `null` while it runs. Then its number may name another process soon. */
  readonly ended: () => Ended | null
  /** Never rejects. */
  readonly exited: Promise<Ended>
  /** The same, after every process has closed the output and all of it was read. */
  readonly closed: Promise<Ended>
}

/** Ends a child that is not told to have ended, with all that is in its group. */
export const killGroup = (pid: number): void => {
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // gone in this very moment
  }
}

/** Rejects with the system's error: `code` says why. */
export type Spawn = (command: string, args: ReadonlyArray<string>, options: Options) => Promise<Child>

const describe = (child: ChildProcess, pid: number, stderr: Readable): Child => ({
  pid,
  stdin: child.stdin,
  stdout: child.stdout,
  stderr,
  ended: () => child.exitCode === null && child.signalCode === null ? null : { code: child.exitCode, signal: child.signalCode },
  exited: new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal }))),
  closed: new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal })))
})

/** By this process. */
export const direct: Spawn = (command, args, { cwd, env, inputFile, outputFile }) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, detached: true, stdio: [inputFile ?? "pipe", outputFile ?? "pipe", "pipe"] })
    child.once("error", reject)
    child.stdin?.on("error", () => {})
    child.once("spawn", () => {
      if (child.pid !== undefined && child.stderr !== null) resolve(describe(child, child.pid, child.stderr))
    })
  })

export const Spawn = Context.Reference<Spawn>("@slipway/machine/Spawn", { defaultValue: () => direct })
