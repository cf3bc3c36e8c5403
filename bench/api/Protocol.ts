/** The messages between the processes of the benchmark. Instants are nanoseconds of the machine's monotonic clock, which they share. */
import { fork, type ChildProcess } from "node:child_process"
import type { Amounts } from "../hosts/Round.ts"

export const now = (): number => Number(process.hrtime.bigint())

/** The options with which a server is started. */
export interface ServerOptions {
  readonly databaseUrl: string
  readonly dataDir: string
  readonly publicUrl: string
  readonly requestsPerMinute: number
  /** Requests of one user, and of one grant. */
  readonly requestsPerTenant: number
  /** Where spans are sent; `null`: none are made. */
  readonly collector: string | null
  /** Not where `NoSpans` is in the place of what makes them. */
  readonly hasSpans: boolean
}

export type Target = "get" | "malformed" | "unknown" | "limited" | "list" | "create"

export type Ask =
  /** User and system time of the process so far, in µs. */
  | { readonly _tag: "Cpu" }
  /** Collects garbage and answers with the bytes of the process's memory. It must have been started with `--expose-gc`. */
  | { readonly _tag: "Memory" }
  /** Appends events to the sandbox's log, a transaction for each `perCommit` of them, one after the other; ours begins the turn first, by 0
   * events. Answers {@link Appended}. */
  | { readonly _tag: "Append"; readonly sandboxId: string; readonly commits: number; readonly perCommit: number }
  /** Creates sandboxes without HTTP, on so many connections to the database, each with one statement at a time. */
  | { readonly _tag: "Create"; readonly connections: number; readonly millis: number; readonly by: Creator }
  | { readonly _tag: "Material"; readonly material: Material }
  | { readonly _tag: "Load"; readonly port: number; readonly target: Target; readonly connections: number; readonly millis: number }
  /** Opens event streams beside those that are open, and answers when each has its first frames. Without a sandbox: of many. */
  | { readonly _tag: "Open"; readonly port: number; readonly sandboxId: string | null; readonly readers: number }
  /** Waits until every reader has so many events. Answers {@link Arrivals}. */
  | { readonly _tag: "Arrive"; readonly events: number; readonly all: boolean }
  /** Closes all streams. */
  | { readonly _tag: "Close" }
  /** Measures a host so often. Answers a `Round`. */
  | { readonly _tag: "Round"; readonly amounts: Amounts }
  /** Gives back all that the process holds. */
  | { readonly _tag: "Leave" }
  /** Reads so many events after the cursor by a stream that is opened for them. Answers how long it took, ms. */
  | { readonly _tag: "Replay"; readonly port: number; readonly sandboxId: string; readonly since: number; readonly events: number }

/** Whose the sandboxes are that are created without HTTP. */
export interface Creator {
  readonly grantId: string
  readonly userId: string
  readonly organizationId: string
}

export interface Material {
  readonly keys: ReadonlyArray<string>
  readonly unknownKeys: ReadonlyArray<string>
  /** Keys that have used their rate up. */
  readonly limitedKeys: ReadonlyArray<string>
  readonly sandboxIds: ReadonlyArray<string>
  /** Sandboxes, each with a key that may read it. */
  readonly reads: ReadonlyArray<readonly [sandboxId: string, key: string]>
  /** Sandboxes whose logs grow, one for each use, and keys that may read them. */
  readonly followed: { readonly sandboxIds: ReadonlyArray<string>; readonly keys: ReadonlyArray<string> }
}

export interface Loaded {
  readonly requests: number
  readonly millis: number
  readonly p50: number
  readonly p99: number
}

export interface Appended {
  readonly began: number
  /** When the last transaction was committed. */
  readonly at: number
  /** The number of the last event. */
  readonly seq: number
}

export interface Arrivals {
  /** When the last reader had the last event. */
  readonly last: number
  /** If `all` was asked for: one list a reader, with an instant for each event. */
  readonly all: ReadonlyArray<ReadonlyArray<number>>
}

/** Answers the parent's questions, one at a time. */
export const answer = (reply: (ask: Ask) => Promise<unknown>): void => {
  process.on("message", (ask: Ask) => {
    reply(ask).then(
      (value) => process.send?.({ value }),
      (error: unknown) => process.send?.({ error: error instanceof Error ? error.stack : String(error) })
    )
  })
  process.once("disconnect", () => process.exit(0))
}

export const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return user + system
}

/** Quantiles of nanoseconds, in ms. */
export const quantiles = (times: ReadonlyArray<number>): { readonly p50: number; readonly p99: number } => {
  const sorted = Float64Array.from(times).sort()
  const quantile = (q: number) => (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN) / 1e6
  return { p50: quantile(0.5), p99: quantile(0.99) }
}

/** Bytes. Garbage goes in several steps, some of them after callbacks. */
export const memory = async (): Promise<number> => {
  for (let i = 0; i < 4; i++) {
    if (globalThis.gc === undefined) throw new Error("not started with --expose-gc")
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return process.memoryUsage.rss()
}

export interface Child {
  ask<A>(ask: Ask): Promise<A>
  stop(): Promise<void>
}

export const PROMPT = "Add a retry with exponential back-off to the payment client and cover it with tests. ".repeat(6)
/** The text that is appended: an agent's words in its turn, as its worker would record them. */
export const SAID = "I have read the payment client. Retries belong around the request, not around the parsing of its answer. ".repeat(3)
export const TURN = "bench-turn"

/** Starts a process of the benchmark; `first` is what it says when it is ready. */
export const start = async (
  module: string,
  options: unknown,
  execArgv: ReadonlyArray<string> = []
): Promise<{ child: Child; first: unknown }> => {
  const process_: ChildProcess = fork(module, [JSON.stringify(options)], {
    execArgv: [...execArgv],
    // Standard output has the table alone.
    stdio: ["ignore", 2, 2, "ipc"]
  })
  const exited = new Promise<never>((_, reject) => process_.once("exit", (code) => reject(new Error(`${module} ended (${code})`))))
  exited.catch(() => {})
  const message = async () => {
    const told = new Promise<{ value?: unknown; error?: string }>((resolve) => process_.once("message", resolve))
    const { error, value } = await Promise.race([told, exited])
    if (error !== undefined) throw new Error(error)
    return value
  }
  const first = await message()
  return {
    first,
    child: {
      ask: async <A>(ask: Ask) => {
        const reply = message()
        process_.send(ask)
        return await reply as A
      },
      stop: async () => {
        // It may have ended by itself.
        if (process_.connected) process_.disconnect()
        await exited.catch(() => {})
      }
    }
  }
}

/** Tells the parent that this process is ready. */
export const ready = (value: unknown): void => {
  process.send?.({ value })
}

export const options = <A>(): A => JSON.parse(process.argv[2] ?? "null")
