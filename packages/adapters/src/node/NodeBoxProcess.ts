/** A child process of Node as a `BoxProcess`. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { type BoxProcess, HostError } from "@slipway/domain/sandbox/SandboxHost"
import { Deferred, Effect, Exit, Stream } from "effect"
import { type ChildProcessByStdio, spawn, type SpawnOptions } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import { StderrTail } from "./StderrTail.ts"

/** After so many bytes of standard error a process has to wait a second until more are read. */
const STDERR_AT_ONCE_BYTES = 1024 * 1024

/** Kernel limits that pass; anything else (no such file, no permission) stays as it is. */
const PASSING = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"])

const refused = (command: string, error: unknown) => {
  const code = error instanceof Error && "code" in error ? String(error.code) : "UNKNOWN"
  return new HostError({
    operation: "spawn",
    detail: code === "ENOENT" ? `${command} was not found.` : `${command} could not be started (${code}).`,
    retryable: PASSING.has(code)
  })
}

const describe = (child: ChildProcessByStdio<Writable, Readable, Readable>, pid: number): BoxProcess => {
  const exit = Deferred.makeUnsafe<{ readonly code: number | null; readonly signal: string | null }>()
  child.once("exit", (code, signal) => Deferred.doneUnsafe(exit, Exit.succeed({ code, signal })))

  // Writing to a process that is gone: `exited` tells.
  child.stdin.on("error", () => {})
  // With this listener the stream stays paused: without one, Node throws away at exit what nobody has read yet.
  child.stdout.on("readable", () => {})
  const stderr = new StderrTail()
  let read = 0
  child.stderr.on("data", (bytes: Uint8Array) => {
    stderr.add(bytes)
    read += bytes.length
    if (read < STDERR_AT_ONCE_BYTES) return
    read = 0
    child.stderr.pause()
    setTimeout(() => child.stderr.resume(), 1000).unref()
  })

  return {
    pid,
    write: (bytes) =>
      Effect.callback((resume) => {
        child.stdin.write(bytes, () => resume(Effect.void))
      }),
    endInput: Effect.sync(() => {
      child.stdin.end()
    }),
    stdout: NodeStream.fromReadable({ evaluate: () => child.stdout, closeOnDone: false }).pipe(
      // A read that fails is a pipe that ended.
      Stream.catch(() => Stream.empty)
    ),
    stderrTail: Effect.sync(() => stderr.text),
    exited: Deferred.await(exit)
  }
}

/**
 * Starts a process in a session and group of its own. `release` kills that group and lets go of the pipes; what left
 * the group is up to the caller, before.
 */
export const start = (
  command: string,
  args: ReadonlyArray<string>,
  options: Pick<SpawnOptions, "cwd" | "env">
): Effect.Effect<{ readonly process: BoxProcess; readonly release: Effect.Effect<void> }, HostError> =>
  Effect.callback((resume) => {
    try {
      const child = spawn(command, args, { ...options, detached: true, stdio: ["pipe", "pipe", "pipe"] })
      child.once("error", (error) => resume(Effect.fail(refused(command, error))))
      child.once("spawn", () => {
        const pid = child.pid ?? 0
        const release = Effect.sync(() => {
          // Once it has exited, the number may name another process.
          if (child.exitCode === null && child.signalCode === null) process.kill(-pid, "SIGKILL")
          for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.destroy()
        })
        resume(Effect.succeed({ process: describe(child, pid), release }))
      })
    } catch (error) {
      resume(Effect.fail(refused(command, error)))
    }
  })
