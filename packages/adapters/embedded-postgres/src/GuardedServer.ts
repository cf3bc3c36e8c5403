/** A server process that does not outlive us, `kill -9` included, and that a Ctrl-C meant for us does not reach. */
import { Deferred, Effect, Option } from "effect"
import { spawn } from "node:child_process"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import type { Account } from "./ServerAccount.ts"
import { environment } from "./SystemProcess.ts"

/**
 * A shell between us and the server, holding the other end of a pipe of ours. It passes on the signals we name there;
 * when the pipe closes, because we closed it or because we are gone, it sends SIGINT: Postgres' fast shutdown.
 * It ends with the server and takes the folder of the socket along, if that is a temporary one.
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

/** Lets clients finish, then ends their sessions, then gives up on a checkpoint and leaves recovery to the next start. */
const SHUTDOWN = [["TERM", "2 seconds"], ["INT", "30 seconds"], ["QUIT", "10 seconds"]] as const

interface GuardedServer {
  /** Of the shell, which is the server's parent. */
  readonly pid: number | undefined
  /** Completes when the server has ended, by whatever cause. */
  readonly exited: Effect.Effect<void>
}

export const start = Effect.fn("GuardedServer.start")(function*(options: {
  readonly command: ReadonlyArray<string>
  readonly account: Account | null
  readonly cwd: string
  /** Open for appending. Gets standard output and standard error. */
  readonly log: number
  /** Removed when the server ends, if it is empty then. */
  readonly temporaryFolder: string | null
  /** Whether those who still have a session may finish when the server is stopped. */
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
      // Writing to a server that has just ended; `exit` says so.
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
