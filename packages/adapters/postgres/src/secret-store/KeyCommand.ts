/** A program of the operator that prints the key of stored secrets, such as the client of a secret manager or of a KMS. */
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { inOneLine } from "@slipway/domain/text/Lines"
import { cut } from "@slipway/domain/text/Utf8"
import { Duration, Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"

export interface KeyCommand {
  /** Run without a shell. */
  readonly program: string
  readonly args: ReadonlyArray<string>
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Default: 20 seconds. */
  readonly timeout?: Duration.Duration
}

const TIMEOUT = Duration.seconds(20)
/** Eight keys take less than 400 bytes. */
const MAX_OUTPUT_BYTES = 4096
/** Only the last line of standard error is shown. */
const MAX_COMPLAINT_BYTES = 200
const KEPT_COMPLAINT_BYTES = 8192
/** A key of 32 bytes in base64: it may not be shown, wherever the program prints it. */
const KEY = /[A-Za-z0-9+/]{43}=/gu

/** Ends the program with the processes that it started: one of them may hold its output open. */
const kill = ({ pid }: ChildProcess) => {
  if (pid === undefined) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The whole group has ended.
  }
}

/** The last line of standard error, bounded and without keys. */
const complaintOf = (stderr: string): string => {
  const last = stderr.trimEnd().split(/[\r\n]+/u).at(-1) ?? ""
  const line = cut(visible(inOneLine(last.replaceAll(KEY, "(a key)"))), MAX_COMPLAINT_BYTES, "…")
  return line === "" ? "" : `. It printed: ${line}`
}

/** In a process group of its own, which has no terminal to ask a person. */
const start = (program: string, args: ReadonlyArray<string>, env: KeyCommand["env"]) =>
  spawn(program, args, { env: { ...env }, detached: true, stdio: ["ignore", "pipe", "pipe"] })

/** The standard output. Fails with a sentence without what the program printed there. */
export const run = ({ args, env, program, timeout = TIMEOUT }: KeyCommand): Effect.Effect<string, string> =>
  Effect.callback<string, string>((resume) => {
    let child: ReturnType<typeof start>
    try {
      child = start(program, args, env)
    } catch (cause) {
      resume(Effect.fail(`the program cannot be started: ${cause instanceof Error ? cause.message : String(cause)}`))
      return
    }
    const output: Array<Buffer> = []
    let bytes = 0
    let complaint = ""
    let isTooLong = false
    child.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= MAX_OUTPUT_BYTES) {
        output.push(chunk)
        return
      }
      isTooLong = true
      kill(child)
    })
    child.stderr.on("data", (chunk: Buffer) => {
      complaint = (complaint + chunk.toString("utf8")).slice(-KEPT_COMPLAINT_BYTES)
    })
    child.on("error", ({ message }) => resume(Effect.fail(`the program cannot be started: ${message}`)))
    child.on("close", (code, signal) => {
      resume(
        isTooLong
          ? Effect.fail(`the program prints more than ${MAX_OUTPUT_BYTES} bytes`)
          : code === 0
          ? Effect.succeed(Buffer.concat(output).toString("utf8"))
          : Effect.fail(`the program ended with ${code === null ? `the signal ${signal}` : `exit code ${code}`}${complaintOf(complaint)}`)
      )
    })
    return Effect.sync(() => kill(child))
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => Effect.fail(`the program did not end within ${Duration.format(timeout)}`)
    })
  )
