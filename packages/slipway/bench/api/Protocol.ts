/** What the processes of the benchmark tell each other. Instants are nanoseconds of the machine's monotonic clock, which they share. */
import { fork, type ChildProcess } from "node:child_process"

export const now = (): number => Number(process.hrtime.bigint())

/** What a server is started with. */
export interface ServerOptions {
  readonly databaseUrl: string
  readonly dataDir: string
  readonly publicUrl: string
  readonly requestsPerMinute: number
  /** Of one user, and of one grant. */
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
  /** Appends one event to the sandbox's log; answers with its `seq` and when its transaction was committed. */
  | { readonly _tag: "Commit"; readonly sandboxId: string }
  | { readonly _tag: "Material"; readonly material: Material }
  | { readonly _tag: "Load"; readonly port: number; readonly target: Target; readonly connections: number; readonly millis: number }
  /** Opens event streams and answers when each has its status frame. */
  | { readonly _tag: "Open"; readonly port: number; readonly sandboxId: string; readonly readers: number }
  /** Waits until every reader has the event `seq`, closes them and tells when which event came: one list a reader. */
  | { readonly _tag: "Close"; readonly seq: number }

export interface Material {
  readonly keys: ReadonlyArray<string>
  readonly unknownKeys: ReadonlyArray<string>
  /** Keys that have used their rate up. */
  readonly limitedKeys: ReadonlyArray<string>
  readonly sandboxIds: ReadonlyArray<string>
  /** Sandboxes, each with a key that may read it. */
  readonly reads: ReadonlyArray<readonly [sandboxId: string, key: string]>
  /** One sandbox, and keys that may read it. */
  readonly followed: { readonly sandboxId: string; readonly keys: ReadonlyArray<string> }
}

export interface Loaded {
  readonly requests: number
  readonly millis: number
  readonly p50: number
  readonly p99: number
}

export interface Committed {
  readonly seq: number
  readonly at: number
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

export interface Child {
  ask<A>(ask: Ask): Promise<A>
  stop(): Promise<void>
}

/** Starts a process of the benchmark; `first` is what it says when it is ready. */
export const start = async (
  module: string,
  options: unknown,
  execArgv: ReadonlyArray<string> = []
): Promise<{ child: Child; first: unknown }> => {
  const process_: ChildProcess = fork(module, [JSON.stringify(options)], {
    execArgv: [...execArgv],
    stdio: ["ignore", "inherit", "inherit", "ipc"]
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
        process_.disconnect()
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
