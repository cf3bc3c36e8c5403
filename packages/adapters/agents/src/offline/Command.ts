/** Runs a shell command that can be ended together with everything it started. */
import { type ChildProcess, spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

/** Output kept of one command: its end, which is where commands say what went wrong. */
const OUTPUT_CHARACTERS = 16_384

const running = new Set<ChildProcess>()

/** Parent and descendants, the parent first. Linux only; elsewhere the parent alone. */
const treeOf = (root: number): ReadonlyArray<number> => {
  const tree = [root]
  try {
    const parents = readdirSync("/proc")
      .filter((name) => /^\d+$/u.test(name))
      .flatMap((name) => {
        try {
          const stat = readFileSync(`/proc/${name}/stat`, "latin1")
          return [{ pid: Number(name), parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) }]
        } catch {
          return []
        }
      })
    for (const pid of tree) tree.push(...parents.filter(({ parent }) => parent === pid).map((process) => process.pid))
  } catch {
    // No /proc: the process group is all we can name.
  }
  return tree
}

const signal = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // Gone already.
  }
}

/** The tree is read before the first kill: afterwards its members belong to init. */
const kill = (child: ChildProcess) => {
  if (child.pid === undefined) return
  const tree = treeOf(child.pid)
  signal(-child.pid)
  tree.forEach(signal)
}

/** Ends every command that still runs. */
export const killAll = (): void => running.forEach(kill)

/** Runs `sh -c command` until it exits. What it left in the background goes on, as in a terminal. */
export const run = (
  command: string,
  cwd: string,
  abort: AbortSignal
): Promise<{ readonly code: number | null; readonly output: string }> =>
  new Promise((resolve) => {
    // A group of its own, so that one signal reaches every member that did not leave it.
    const child = spawn("/bin/sh", ["-c", command], { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    const keep = (text: string) => {
      output = (output + text).slice(-OUTPUT_CHARACTERS)
    }
    const end = (code: number | null) => {
      running.delete(child)
      abort.removeEventListener("abort", onAbort)
      resolve({ code, output })
    }
    const onAbort = () => kill(child)
    child.stdout.setEncoding("utf8").on("data", keep)
    child.stderr.setEncoding("utf8").on("data", keep)
    child.on("exit", end)
    child.on("error", (error) => {
      keep(error.message)
      end(null)
    })
    running.add(child)
    abort.addEventListener("abort", onAbort)
  })
