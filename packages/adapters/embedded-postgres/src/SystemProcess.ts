/** Runs programs of this machine to their end, and inspects running processes. */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFile } from "node:fs/promises"
import type { Account } from "./ServerAccount.ts"

/** The whole environment of our child programs: no secret of the service reaches Postgres or its logs. */
export const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }

interface Finished {
  readonly succeeded: boolean
  readonly stdout: string
  /** Standard error, or why it could not be started. */
  readonly complaint: string
}

export const run = (
  command: string,
  args: ReadonlyArray<string>,
  options: { readonly account?: Account | null; readonly cwd?: string; readonly input?: string } = {}
): Effect.Effect<Finished> =>
  Effect.callback((resume) => {
    const identity = options.account ? { uid: options.account.uid, gid: options.account.gid } : {}
    const child = execFile(
      command,
      args,
      { ...identity, cwd: options.cwd ?? "/", env: environment },
      (error, stdout, stderr) =>
        resume(Effect.succeed({
          succeeded: error === null,
          stdout: stdout.trim(),
          complaint: stderr.trim() || (error?.message ?? "")
        }))
    )
    if (options.input !== undefined) child.stdin?.on("error", () => {}).end(options.input)
    return Effect.sync(() => child.kill())
  })

interface Running {
  readonly parent: number
  /** Arguments joined by spaces, with one more at the end. Empty for a process that ended but was not yet reaped. */
  readonly command: string
}

/** The process with this id; null if there is none. */
export const inspect = (pid: number): Effect.Effect<Running | null> =>
  process.platform === "linux"
    ? Effect.promise(async () => {
      try {
        const stat = await readFile(`/proc/${pid}/stat`, "utf8")
        const command = await readFile(`/proc/${pid}/cmdline`, "utf8")
        // The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
        const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])
        return { parent, command: command.replaceAll("\0", " ") }
      } catch (error) {
        return ifEnded(null)(error)
      }
    })
    : Effect.map(run("ps", ["-ww", "-o", "ppid=,command=", "-p", String(pid)]), ({ stdout }) => {
      const found = /^(\d+)\s+(\S.*)?$/su.exec(stdout)
      return found === null ? null : { parent: Number(found[1]), command: `${found[2] ?? ""} ` }
    })
