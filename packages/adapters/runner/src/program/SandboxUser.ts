/**
 * The user of a sandbox's processes, and how all of them are found. A process without privileges cannot change its user or its groups, and
 * `/proc` shows both for each process.
 */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import type { SandboxUser } from "../wire/RunnerSettings.ts"

export const MARKS = 10_000

/** How long killed processes may take to end. It takes longer if a disk hangs. */
export const WITHIN_MILLIS = 5000
const PAUSE_MILLIS = 5
/** All of `/proc` is read each time. */
const MOST_PAUSE_MILLIS = 250

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => existsSync(path))

/** Throws where processes cannot be marked. */
export const check = ({ marks }: SandboxUser): void => {
  if (marks !== undefined && SETPRIV === undefined) throw new Error("marks of processes need setpriv, of util-linux")
}

/** The command line of a process that is this user, has this mark and gains no rights. */
export const marked = ({ gid, uid }: SandboxUser, mark: number, command: ReadonlyArray<string>): readonly [string, ...Array<string>] => [
  SETPRIV ?? "setpriv",
  ...[`--reuid=${uid}`, `--regid=${gid}`, `--groups=${mark}`, "--no-new-privs", "--inh-caps=-all", "--"],
  ...command
]

const numbersIn = (status: string, row: string): ReadonlyArray<number> =>
  (new RegExp(`^${row}:[ \\t]*(.*)$`, "mu").exec(status)?.[1] ?? "").split(/\s+/u).filter((word) => word !== "").map(Number)

/** Running processes whose status says so. */
const processes = (is: (status: string) => boolean): ReadonlyArray<number> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((name) => {
    try {
      const status = readFileSync(`/proc/${name}/status`, "latin1")
      return !/^State:\s*[ZX]/mu.test(status) && is(status) ? [Number(name)] : []
    } catch (error) {
      return ifEnded([])(error)
    }
  })

/** Kills until there is none. Rejects where some are left. */
const end = async (is: (status: string) => boolean): Promise<void> => {
  const until = performance.now() + WITHIN_MILLIS
  for (let pause = PAUSE_MILLIS;; pause = Math.min(2 * pause, MOST_PAUSE_MILLIS)) {
    const left = processes(is)
    if (left.length === 0) return
    if (performance.now() > until) throw new Error(`processes ${left.join(", ")} survive SIGKILL`)
    for (const pid of left) {
      try {
        process.kill(pid, "SIGKILL")
      } catch {
        // ended meanwhile
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** Resolves once nothing is left of what the process with this mark started. */
export const endMarked = (mark: number): Promise<void> => end((status) => numbersIn(status, "Groups").includes(mark))

/** Resolves once nothing of the user runs. */
export const endAll = ({ uid }: SandboxUser): Promise<void> => end((status) => numbersIn(status, "Uid").includes(uid))
