/** A child process of Node as a `BoxProcess`. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import type { BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Deferred, Effect, Exit, Stream } from "effect"
import { Readable } from "node:stream"
import { type Child, killGroup, type Options, Spawn } from "./spawner/Spawn.ts"
import * as SpawnFailure from "./SpawnFailure.ts"
import { StderrTail } from "./StderrTail.ts"

const describe = ({ exited, pid, stderr: errors, stdin, stdout }: Child): BoxProcess => {
  const exit = Deferred.makeUnsafe<{ readonly code: number | null; readonly signal: string | null }>()
  void exited.then((ended) => Deferred.doneUnsafe(exit, Exit.succeed(ended)))

  // With this listener the stream stays paused. Without a listener Node discards unread data at exit.
  stdout?.on("readable", () => {})
  const stderr = StderrTail.of(errors)

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
      catch: (error) => SpawnFailure.ofCommand(command, String(codeOf(error) ?? "UNKNOWN"))
    })).pipe(Effect.uninterruptible)
