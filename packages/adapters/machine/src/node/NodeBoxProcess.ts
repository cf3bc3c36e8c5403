/** A child process of Node as a `BoxProcess`. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { type BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Deferred, Effect, Exit, Stream } from "effect"
import { Readable } from "node:stream"
import { type Child, killGroup, type Options, Spawn } from "./spawner/Spawn.ts"
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

const describe = ({ exited, pid, stderr: errors, stdin, stdout }: Child): BoxProcess => {
  const exit = Deferred.makeUnsafe<{ readonly code: number | null; readonly signal: string | null }>()
  void exited.then((ended) => Deferred.doneUnsafe(exit, Exit.succeed(ended)))

  // With this listener the stream stays paused. Without a listener Node discards unread data at exit.
  stdout?.on("readable", () => {})
  const stderr = new StderrTail()
  let read = 0
  errors.on("data", (bytes: Uint8Array) => {
    stderr.add(bytes)
    read += bytes.length
    if (read < STDERR_AT_ONCE_BYTES) return
    read = 0
    errors.pause()
    setTimeout(() => errors.resume(), 1000).unref()
  })

  return {
    pid,
    write: (bytes) =>
      Effect.callback((resume) => {
        stdin?.write(bytes, () => resume(Effect.void))
      }),
    endInput: Effect.sync(() => {
      stdin?.end()
    }),
    stdout: NodeStream.fromReadable({ evaluate: () => stdout ?? Readable.from([]), closeOnDone: false }).pipe(
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
  options: Options
): Effect.Effect<{ readonly process: BoxProcess; readonly release: Effect.Effect<void> }, HostError> =>
  Effect.flatMap(Spawn, (spawn) =>
    Effect.tryPromise({
      try: () =>
        spawn(command, args, options).then((child) => {
          const release = Effect.sync(() => {
            // Once it has exited, the number may name another process.
            if (child.ended() === null) killGroup(child.pid)
            for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe?.destroy()
          })
          return { process: describe(child), release }
        }),
      catch: (error) => refused(command, error)
    })).pipe(Effect.uninterruptible)
