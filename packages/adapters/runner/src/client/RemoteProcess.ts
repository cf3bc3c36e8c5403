/** A process in a runner's machine. */
import { Deferred, Effect, type Scope, Stream } from "effect"
import { HEADER_BYTES, isCount, Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"
import { ProcessRefused, type RunnerError, RunnerViolation } from "./RunnerErrors.ts"

export interface ProcessCommand {
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** The whole environment. With the arguments at most 256 KiB. */
  readonly env: Readonly<Record<string, string>>
  /** A folder of the runner's machine; the runner's tree by default. */
  readonly cwd?: string | undefined
}

export interface Exit {
  readonly code: number | null
  readonly signal: string | null
}

export type Signal =
  | "SIGHUP"
  | "SIGINT"
  | "SIGQUIT"
  | "SIGTERM"
  | "SIGKILL"
  | "SIGUSR1"
  | "SIGUSR2"
  | "SIGSTOP"
  | "SIGCONT"
  | "SIGWINCH"

/** A process in the runner's machine. Its state is only what the runner reports. */
export interface RemoteProcess {
  /** In the runner's machine. */
  readonly pid: number
  /** Waits until the runner accepts the bytes. Bytes that the process or the connection does not take are dropped: `exited` reports it. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void>
  /** Closes its standard input. */
  readonly endInput: Effect.Effect<void>
  /** Reading slowly slows the process down. */
  readonly stdout: Stream.Stream<Uint8Array, RunnerError>
  /** The whole lines of the last 8 KiB of standard error so far. */
  readonly stderrTail: Effect.Effect<string>
  /** Sends the signal to its whole group, ahead of pending input. Does nothing after its exit. */
  readonly signal: (signal: Signal) => Effect.Effect<void>
  /** Kills the process, drops its unread output, and waits until the runner reports the end of it and of all processes that it started. */
  readonly end: Effect.Effect<void>
  /** Succeeds after all of its output was read and its group has ended. */
  readonly exited: Effect.Effect<Exit, RunnerError>
}

const SIGNAL = /^SIG[A-Z\d+]{1,12}$/u

const decodeExit = (value: unknown): Exit => {
  if (typeof value === "object" && value !== null && "code" in value && "signal" in value) {
    const { code, signal } = value
    if (isCount(code) && code <= 255 && signal === null) return { code, signal }
    if (code === null && typeof signal === "string" && SIGNAL.test(signal)) return { code, signal }
  }
  throw new Violation("an invalid exit")
}

const decodeStderr = (value: unknown): string => {
  if (typeof value !== "string") throw new Violation("a standard error that is no text")
  return Buffer.from(value, "base64").toString("utf8")
}

const SYSTEM_WORD = /^[A-Z][A-Z\d_]{1,30}$/u

const refusedBy = ({ code }: { readonly code: string }) => new ProcessRefused({ code: SYSTEM_WORD.test(code) ? code : "UNKNOWN" })

/** Starts it. It is killed, with its group, when the scope closes. */
export const spawn = (link: ChannelEffects.Link) =>
  Effect.fn("RunnerClient.spawn")(function*({ args, command, cwd, env }: ProcessCommand): Effect.fn.Return<
    RemoteProcess,
    ProcessRefused | RunnerError,
    Scope.Scope
  > {
    const header = { command, args, env, ...cwd === undefined ? {} : { cwd } }
    // The kind of the channel takes less than a hundred bytes more.
    if (Buffer.byteLength(JSON.stringify(header)) > HEADER_BYTES - 100) return yield* new ProcessRefused({ code: "E2BIG" })
    const channel = yield* ChannelEffects.open(link, "process", header, refusedBy)
    const started = yield* Deferred.make<number>()
    const exit = yield* Deferred.make<{ readonly exit: Exit; readonly stderr: string }>()
    let asked: Deferred.Deferred<string> | undefined
    ChannelEffects.listen(link, channel, (note) => {
      if ("pid" in note) {
        const { pid } = note
        if (!isCount(pid) || pid === 0 || !Deferred.doneUnsafe(started, Effect.succeed(pid))) throw new Violation("an invalid process")
        return
      }
      const stderr = decodeStderr(note["stderr"])
      const waiting = asked
      asked = undefined
      if (waiting !== undefined) Deferred.doneUnsafe(waiting, Effect.succeed(stderr))
      if (!("exit" in note)) {
        if (waiting === undefined) throw new Violation("an unrequested standard error")
        return
      }
      if (!Deferred.doneUnsafe(exit, Effect.succeed({ exit: decodeExit(note["exit"]), stderr }))) throw new Violation("a second exit")
      channel.end()
    })
    const lost = ChannelEffects.reset(link, channel, ({ code }) => new RunnerViolation({ detail: `it gave up a process (${code})` }))
    const ended = Effect.raceFirst(Deferred.await(exit), lost)
    const pid = yield* Effect.raceFirst(Deferred.await(started), ChannelEffects.reset(link, channel, refusedBy))
    const stdout = ChannelEffects.bytesOf(
      link,
      channel,
      ({ code }) => new RunnerViolation({ detail: `it gave up a process (${code})` })
    )
    return {
      pid,
      write: (bytes) => Effect.ignore(Effect.tryPromise(() => channel.write(bytes))),
      endInput: Effect.sync(() => channel.end()),
      stdout,
      stderrTail: Effect.suspend(() => {
        if (Deferred.isDoneUnsafe(exit)) return Effect.map(Deferred.await(exit), ({ stderr }) => stderr)
        if (asked === undefined) {
          asked = Deferred.makeUnsafe<string>()
          channel.note({ ask: "stderr" })
        }
        return Effect.raceFirst(Deferred.await(asked), Effect.map(ended, ({ stderr }) => stderr))
      }).pipe(Effect.orElseSucceed(() => "")),
      signal: (signal) => Effect.sync(() => channel.note({ signal })),
      end: Effect.suspend(() => {
        channel.note({ end: true })
        return Effect.ignore(Effect.raceFirst(ended, Effect.andThen(Stream.runDrain(stdout), ended)))
      }),
      exited: Effect.map(ended, ({ exit }) => exit)
    }
  })
