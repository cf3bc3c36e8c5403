/** A server process that ends with this process, even after `kill -9`, and that does not get this process's Ctrl-C. */
import { Deferred, Effect, Option } from "effect"
import { spawn } from "node:child_process"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import type { Account } from "./ServerAccount.ts"
import { environment } from "./SystemProcess.ts"

/**
 * A shell between this process and the server, which reads a pipe of ours. It forwards the signals that we write there. When the pipe
 * closes, for any reason, it sends SIGINT, Postgres' fast shutdown. It ends with the server, and removes the socket's folder if that is
 * temporary.
 */
const WATCHDOG = `
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
trap "" HUP INT TERM
{ while read -r signal; do kill -"$signal" "$server"; done; kill -INT "$server"; } <&3 2>/dev/null &
listener=$!
wait "$server"
status=$?
kill -KILL "$listener"
[ -z "$folder" ] || rmdir "$folder"
exit "$status"
`

/** Waits for clients, then ends their sessions, then skips the checkpoint, so that the next start recovers. */
const SHUTDOWN = [["TERM", "2 seconds"], ["INT", "30 seconds"], ["QUIT", "10 seconds"]] as const

interface GuardedServer {
  /** The process id of the shell, which is the server's parent. */
  readonly pid: number | undefined
  /** Completes when the server has ended for any reason. */
  readonly exited: Effect.Effect<void>
}

export const start = Effect.fn("GuardedServer.start")(function*(options: {
  readonly command: ReadonlyArray<string>
  readonly account: Account | null
  readonly cwd: string
  /** A file open for appending, for standard output and standard error. */
  readonly log: number
  /** Removed when the server ends, if it is empty. */
  readonly temporaryFolder: string | null
  /** Whether open sessions may finish when the server is stopped. */
  readonly patient: boolean
}) {
  const exited = yield* Deferred.make<void>()
  const identity = options.account ? { uid: options.account.uid, gid: options.account.gid } : {}
  const { pid } = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof spawn>, EmbeddedPostgresError>((resume) => {
      const shell = spawn("/bin/sh", ["-c", WATCHDOG, "slipway-postgres", options.temporaryFolder ?? "", ...options.command], {
        ...identity,
        cwd: options.cwd,
        detached: true,
        stdio: ["pipe", options.log, options.log],
        env: environment
      })
      shell.once("spawn", () => resume(Effect.succeed(shell)))
      shell.once("error", (error) =>
        resume(
          new EmbeddedPostgresError({
            reason: "Failed",
            detail: `Postgres could not be started: ${error.message}.`,
            hint: "Check that /bin/sh exists and the account may run it."
          })
        ))
      shell.once("exit", () => {
        shell.stdin?.destroy()
        Deferred.doneUnsafe(exited, Effect.void)
      })
      // The server may have just ended; `exit` reports that.
      shell.stdin?.on("error", () => {})
    }),
    (shell) =>
      Effect.gen(function*() {
        for (const [signal, patience] of options.patient ? SHUTDOWN : SHUTDOWN.slice(1)) {
          if (shell.stdin?.writable) shell.stdin.write(`${signal}\n`)
          if (Option.isSome(yield* Effect.timeoutOption(Deferred.await(exited), patience))) return
        }
        shell.stdin?.destroy()
      })
  )
  return { pid, exited: Deferred.await(exited) } satisfies GuardedServer
})
