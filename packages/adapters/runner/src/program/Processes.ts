/** Channels of kind `process`: each is one process in a session and group of its own, which ends with the channel. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { killGroup } from "@slipway/machine/node/spawner/Spawn"
import { StderrTail } from "@slipway/machine/node/StderrTail"
import { type ChildProcessByStdio, spawn } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import type { Json } from "../wire/ChannelWire.ts"
import type { Channel } from "../wire/OpenChannel.ts"
import type * as RunnerSettings from "../wire/RunnerSettings.ts"
import type { ProcessRecords } from "./ProcessRecords.ts"
import * as SandboxUser from "./SandboxUser.ts"
import { writer } from "./Writing.ts"

export interface Options {
  /** Where processes start that name no folder. */
  readonly tree: string
  /** The user of processes. Without it, they run as the runner's user. */
  readonly user?: RunnerSettings.SandboxUser | undefined
  readonly records: ProcessRecords
}

export interface Processes {
  readonly accept: (channel: Channel, header: Json) => void
  /** Resolves once none is there. Rejects where some stay in spite of all. */
  readonly endAll: () => Promise<void>
}

/** The bytes of standard error that are sent, so that they always fit into a note. */
const STDERR_TOLD_BYTES = 8 * 1024

/**
 * A process that is gone may have left its output open with others, which left its group. What they write is read on while it comes,
 * and until it stayed away so long.
 */
const QUIET_MILLIS = 1000

const SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGWINCH"] as const

/** Between two tries to end what survived SIGKILL. */
const RETRY_MILLIS = 10_000

/** Whether it came to its end by then. */
const within = async (ended: Promise<boolean>, millis: number): Promise<boolean> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), millis)
  })
  const isEnded = await Promise.race([ended, late])
  clearTimeout(timer)
  return isEnded
}

const isTexts = (values: ReadonlyArray<unknown>): values is ReadonlyArray<string> => values.every((value) => typeof value === "string")

const decode = ({ args, command, cwd, env }: Json) =>
  typeof command === "string" && Array.isArray(args) && isTexts(args) && typeof env === "object" && env !== null &&
    isTexts(Object.values(env)) && (cwd === undefined || typeof cwd === "string")
    ? { command, args, cwd, env: { ...env } as Readonly<Record<string, string>> }
    : undefined

type Child = ChildProcessByStdio<Writable, Readable, Readable>

const told = (stderr: StderrTail): string => Buffer.from(stderr.text).subarray(-STDERR_TOLD_BYTES).toString("base64")

/** All that comes to standard input; what a process does not take any more is dropped. */
const feed = async (channel: Channel, stdin: Writable): Promise<void> => {
  const write = writer(stdin)
  for (let bytes = await channel.read(); bytes !== null; bytes = await channel.read()) await write(bytes)
  stdin.end()
}

const passOn = (channel: Channel, child: Child) => {
  let isWriting = false
  let last = performance.now()
  const passed = (async () => {
    try {
      for await (const bytes of child.stdout) {
        isWriting = true
        await channel.write(bytes)
        isWriting = false
        last = performance.now()
      }
    } catch {
      // It was let go of, or the channel was reset.
    }
  })()
  /** Resolves once all that was written is on its way. */
  const rest = async () => {
    last = performance.now()
    const looking = setInterval(() => {
      if (!isWriting && performance.now() - last > QUIET_MILLIS) child.stdout.destroy()
    }, QUIET_MILLIS / 4)
    await passed
    clearInterval(looking)
  }
  return { rest }
}

interface State extends Options {
  /** Running processes by id, with their ends. */
  readonly there: Map<number, Promise<unknown>>
  /** Marks in use. */
  readonly marks: Set<number>
  /** Where the search for the next free mark begins. */
  marked: number
  isOver: boolean
}

/** A mark that no process has. Throws where there is none. */
const takeMark = (state: State, first: number): number => {
  const { marks } = state
  if (marks.size >= SandboxUser.MARKS) throw Object.assign(new Error("no mark is free"), { code: "EAGAIN" })
  while (marks.has(first + state.marked)) state.marked = (state.marked + 1) % SandboxUser.MARKS
  const mark = first + state.marked
  state.marked = (state.marked + 1) % SandboxUser.MARKS
  marks.add(mark)
  return mark
}

/** Waits until nothing has the mark; only then may another process have it. */
const giveBack = async (state: State, mark: number): Promise<void> => {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MILLIS).unref())
    if (state.isOver) return
    try {
      await SandboxUser.endMarked(mark)
      state.marks.delete(mark)
      return
    } catch {
      // It survives still.
    }
  }
}

/** Ends what the process started, and gives its mark back. */
const clearUp = async (state: State, pid: number, mark: number | undefined): Promise<void> => {
  // The group's processes end with it. A process without a mark that left the group survives.
  killGroup(pid)
  state.records.remove(pid)
  state.there.delete(pid)
  if (mark === undefined) return
  try {
    await SandboxUser.endMarked(mark)
    state.marks.delete(mark)
  } catch {
    // A child hangs in its disk, say. The end of the process is reported all the same; the end of the session waits for the child.
    void giveBack(state, mark)
  }
}

const run = (state: State, channel: Channel, child: Child, pid: number, mark: number | undefined) => {
  let ended = false
  const stderr = StderrTail.of(child.stderr)
  const output = passOn(channel, child)
  const gone = new Promise<{ readonly code: number | null; readonly signal: string | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }))
  })
  const exited = gone.then(async (exit) => {
    ended = true
    await clearUp(state, pid, mark)
    return exit
  })
  state.there.set(pid, gone)
  void feed(channel, child.stdin).catch(() => {})
  void channel.wasReset.then(() => {
    if (!ended) killGroup(pid)
    for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.destroy()
  })
  void exited.then(async (exit) => {
    await output.rest()
    channel.note({ exit, stderr: told(stderr) })
    channel.end()
    child.stderr.destroy()
  })
  channel.onNote(({ ask, end, signal }) => {
    if (ask === "stderr") channel.note({ stderr: told(stderr) })
    if (end === true) {
      if (!ended) killGroup(pid)
      // Its remaining output is dropped.
      child.stdout.destroy()
    }
    const known = SIGNALS.find((name) => name === signal)
    if (known === undefined || ended) return
    try {
      process.kill(-pid, known)
    } catch {
      // gone in this very moment
    }
  })
  channel.note({ pid })
}

const accept = (state: State, channel: Channel, header: Json) => {
  const { marks, records, tree, user } = state
  const wanted = decode(header)
  if (wanted === undefined) {
    channel.reset({ code: "EINVAL", message: "what was asked for is no process" })
    return
  }
  const refuse = (error: unknown) => {
    const code = codeOf(error)
    channel.reset({ code: typeof code === "string" ? code : "UNKNOWN", message: "the process could not be started" })
  }
  try {
    const { args, command, cwd = tree, env } = wanted
    const mark = user?.marks === undefined ? undefined : takeMark(state, user.marks)
    const [program, ...rest] = user === undefined || mark === undefined
      ? [command, ...args] as const
      : SandboxUser.marked(user, mark, [command, ...args])
    const who = user === undefined || mark !== undefined ? {} : { uid: user.uid, gid: user.gid }
    const child = spawn(program, rest, { cwd, env, ...who, detached: true, stdio: ["pipe", "pipe", "pipe"] })
    const { pid } = child
    if (pid === undefined) {
      if (mark !== undefined) marks.delete(mark)
      child.once("error", refuse)
      return
    }
    child.on("error", () => {})
    try {
      // In this tick: a runner that is killed from now on ends it when it starts again.
      records.add(pid)
    } catch (error) {
      killGroup(pid)
      throw error
    }
    run(state, channel, child, pid, mark)
  } catch (error) {
    refuse(error)
  }
}

export const make = (options: Options): Processes => {
  const state: State = { ...options, there: new Map(), marks: new Set(), marked: 0, isOver: false }
  const { there, user } = state
  return {
    accept: (channel, header) => accept(state, channel, header),
    endAll: async () => {
      for (const pid of there.keys()) killGroup(pid)
      const ended = Promise.all(there.values()).then(() => true)
      if (!(await within(ended, SandboxUser.WITHIN_MILLIS))) {
        throw new Error(`processes ${[...there.keys()].join(", ")} survive SIGKILL`)
      }
      if (user?.marks !== undefined) await SandboxUser.endAll(user)
      state.isOver = true
    }
  }
}
