/** Runs a shell command that can be killed together with its child processes. */
import { type ChildProcess, spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

/** Characters kept of a command's output, from its end, where errors are. */
const OUTPUT_CHARACTERS = 16_384

const running = new Set<ChildProcess>()

/** The process and its descendants, parents first. On Linux only; elsewhere just the process. */
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
    // Without /proc only the process group is known.
  }
  return tree
}

const signal = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // The process has ended.
  }
}

/** Reads the tree before the first kill, because afterwards orphans belong to init. */
const kill = (child: ChildProcess) => {
  if (child.pid === undefined) return
  const tree = treeOf(child.pid)
  signal(-child.pid)
  tree.forEach(signal)
}

/** Kills every running command. */
export const killAll = (): void => running.forEach(kill)

/** Runs `sh -c command` until it exits. Its background processes continue, as in a terminal. */
export const run = (
  command: string,
  cwd: string,
  abort: AbortSignal
): Promise<{ readonly code: number | null; readonly output: string }> =>
  new Promise((resolve) => {
    // A process group, so that one signal reaches all members that did not leave it.
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
