/** A program that a test or a benchmark runs as a process: its output, its end, and a limit on how long anything of it stays. */
import { Effect } from "effect"
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

/** Characters of each output that are kept: the last ones. */
const MOST_CHARACTERS = 2 ** 25
/** For a program on a machine that does everything else at the same time. */
const LONGEST_SECONDS = 300

export interface Options {
  readonly cwd?: string
  /** Without it, the environment of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly uid?: number
  readonly gid?: number
}

/** Both are `null` of a program that could not be started; its output says why. */
export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface SpawnedProgram {
  readonly child: ChildProcessWithoutNullStreams
  readonly pid: number
  readonly stdout: () => string
  readonly stderr: () => string
  /** Both outputs, in the order of their arrival. */
  readonly output: () => string
  readonly isRunning: () => boolean
  readonly ended: Promise<Ended>
  /** As `ended`, but not before both outputs are closed. */
  readonly closed: Promise<Ended>
  /** Fulfils with what `find` finds in the output. Rejects with the output when the program ends before, or after `seconds`. */
  readonly says: <A>(find: (output: string) => A | null | undefined, seconds?: number) => Promise<A>
  /** Sends the signal to this process alone, and waits for its end. */
  readonly stop: (signal: NodeJS.Signals) => Promise<Ended>
  /** Kills the process and all others of its group, and waits for its end. */
  readonly kill: () => Promise<Ended>
}

/** Sends a signal to a process group; `0` sends nothing. Gives whether there is such a group. */
const signalGroup = (pid: number, signal: NodeJS.Signals | 0) => {
  try {
    return process.kill(-pid, signal)
  } catch {
    return false
  }
}

/** Process groups that are killed with this process at the latest. */
const groups = new Set<number>()
process.once("exit", () => groups.forEach((pid) => signalGroup(pid, "SIGKILL")))

/** Starts a program in a process group of its own. */
export const start = (command: string, args: ReadonlyArray<string>, options: Options = {}): SpawnedProgram => {
  const child = spawn(command, args, { ...options, env: options.env ?? process.env, detached: true })
  const pid = child.pid ?? 0
  if (pid !== 0) groups.add(pid)
  let [stdout, stderr, output] = ["", "", ""]
  const append = (text: string, more: string) => (text + more).slice(-MOST_CHARACTERS)
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout = append(stdout, text)
    output = append(output, text)
  })
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = append(stderr, text)
    output = append(output, text)
  })
  // Writing to a program that has ended.
  child.stdin.on("error", () => {})
  const endOf = (event: "close" | "exit") =>
    new Promise<Ended>((resolve) => {
      child.once(event, (code: number | null, signal: NodeJS.Signals | null) => resolve({ code, signal }))
      child.once("error", (error) => {
        output = append(output, error.message)
        resolve({ code: null, signal: null })
      })
    })
  const [ended, closed] = [endOf("exit"), endOf("close")]
  let isRunning = pid !== 0
  void ended.then(() => {
    isRunning = false
    if (!signalGroup(pid, 0)) groups.delete(pid)
  })
  const stop = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return ended
  }
  return {
    child,
    pid,
    stdout: () => stdout,
    stderr: () => stderr,
    output: () => output,
    isRunning: () => isRunning,
    ended,
    closed,
    stop,
    kill: async () => {
      const end = await stop("SIGKILL")
      if (pid !== 0) signalGroup(pid, "SIGKILL")
      groups.delete(pid)
      return end
    },
    says: (find, seconds = LONGEST_SECONDS) =>
      new Promise((resolve, reject) => {
        const settle = () => {
          clearTimeout(timer)
          child.stdout.off("data", look)
          child.stderr.off("data", look)
        }
        const fail = (what: string) => {
          settle()
          reject(new Error(`${[command, ...args].join(" ").slice(0, 200)} ${what}: ${output.slice(-10_000)}`))
        }
        const look = () => {
          const found = find(output)
          if (found === null || found === undefined) return
          settle()
          resolve(found)
        }
        const timer = setTimeout(() => fail(`did not say it within ${seconds} s`), seconds * 1000)
        child.stdout.on("data", look)
        child.stderr.on("data", look)
        void ended.then(({ code, signal }) => fail(`ended early (${signal ?? code})`))
        look()
      })
  }
}

/** Starts a program that is killed with the scope. */
export const scoped = (command: string, args: ReadonlyArray<string>, options: Options = {}) =>
  Effect.acquireRelease(Effect.sync(() => start(command, args, options)), ({ kill }) => Effect.promise(kill))

/** Runs a program to its end. It is killed when its caller is interrupted. */
export const run = (command: string, args: ReadonlyArray<string>, options: Options & { readonly input?: string | Uint8Array } = {}) =>
  Effect.scoped(Effect.flatMap(scoped(command, args, options), ({ child, closed, stderr, stdout }) =>
    Effect.promise(async () => {
      if (options.input !== undefined) child.stdin.end(options.input)
      const { code } = await closed
      return { code, stdout: stdout(), stderr: stderr() }
    })))

/** A file of a process; empty if the process is gone by now. */
const ofProcess = (pid: string, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return ""
  }
}

const naming = (text: string) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name) && Number(name) !== process.pid).flatMap((pid) => {
    const state = /^State:\s+(\S)/mu.exec(ofProcess(pid, "status"))?.[1]
    if (state === undefined || state === "Z") return []
    const commandLine = ofProcess(pid, "cmdline")
    return (commandLine + ofProcess(pid, "environ")).includes(text) ? [{ pid, commandLine }] : []
  })

/** The running processes whose command line or environment has this text, as `PID NAME`. Zombies are left out. */
export const processesOf = (text: string): ReadonlyArray<string> => naming(text).map(({ pid }) => `${pid} ${ofProcess(pid, "comm").trim()}`)

/** The command lines of {@link processesOf}, with NUL between arguments. */
export const commandLinesOf = (text: string): ReadonlyArray<string> => naming(text).map(({ commandLine }) => commandLine)
