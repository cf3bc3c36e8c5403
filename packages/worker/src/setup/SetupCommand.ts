/** Runs one command of a setup in the box, until it and all processes that it started have ended. */
import type { SetupCommand } from "@slipway/domain/environment/rules/Environment"
import type { Box, Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Effect, Fiber, Stream } from "effect"
import type { SetupOutput } from "./SetupOutput.ts"

/** Arguments: the folder, then the program with its own. */
const SCRIPT = `cd "$1" || exit; shift; exec "$@" 2>&1`

/** The most output per second: hiding secrets in more would slow down other sandboxes of the worker. */
const BYTES_PER_SECOND = 8 * 1024 * 1024

/** Enough to read the rest of an ended command's output. Processes that it left running could hold the pipe for ever. */
const READ_WITHIN = "1 second"

/** As a person would type it. */
export const shown = ({ argv }: Pick<SetupCommand, "argv">): string =>
  argv[0] === "/bin/sh" && argv[1] === "-c" && argv.length === 3 ? argv[2] ?? "" : argv.join(" ")

export interface Failure {
  readonly command: SetupCommand
  /** `null`: ended by a signal, or not started. */
  readonly exitCode: number | null
}

/** `null`: the command succeeded. Its output goes to `output` while it runs. */
export const run = Effect.fn("SetupCommand.run")(
  function*(
    box: Box,
    folder: string,
    command: SetupCommand,
    { env, programs }: { readonly env: Readonly<Record<string, string>>; readonly programs: Programs },
    output: SetupOutput
  ) {
    output.say(`$ ${shown(command)}`)
    const { code, signal } = yield* Effect.gen(function*() {
      const process = yield* box.spawn({
        command: "/bin/sh",
        args: ["-c", SCRIPT, "slipway-setup", folder, ...command.argv],
        env,
        programs
      })
      yield* process.endInput
      const stream = output.stream()
      const pace = RateLimiter.make(BYTES_PER_SECOND)
      const reading = yield* Effect.forkScoped(
        Effect.ensuring(
          Stream.runForEach(process.stdout, (bytes) => Effect.andThen(pace(bytes.length), Effect.sync(() => stream.push(bytes)))),
          Effect.sync(() => stream.end())
        )
      )
      const exit = yield* process.exited
      yield* Effect.raceFirst(Fiber.await(reading), Effect.sleep(READ_WITHIN))
      return exit
      // Closing the scope ends processes that the command left running.
    }).pipe(
      Effect.scoped,
      Effect.catchTag("HostError", ({ message }) =>
        Effect.sync(() => {
          output.say(message)
          return { code: null, signal: null }
        }))
    )
    if (code === 0) return null
    if (signal !== null) output.say(`It was ended by ${signal}.`)
    const failure: Failure = { command, exitCode: code }
    return failure
  }
)
