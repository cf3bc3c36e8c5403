/** Runs one command of a setup in the box, until it has ended with all that it left behind. */
import type { SetupCommand } from "@slipway/domain/environment/Environment"
import * as Pace from "@slipway/domain/Pace"
import type { Box, Programs } from "@slipway/domain/sandbox/SandboxHost"
import { Effect, Fiber, Stream } from "effect"
import type { SetupOutput } from "./SetupOutput.ts"

/** Arguments: the folder, then the program with its own. */
const SCRIPT = `cd "$1" || exit; shift; exec "$@" 2>&1`

/** Bytes it may write before it has to wait: to hide secrets in more would take the worker's time from others. */
const BYTES_PER_SECOND = 8 * 1024 * 1024

/** What a command that has ended left in its pipe is read in far less; what it left running may hold the pipe for ever. */
const READ_WITHIN = "1 second"

/** As a person would type it. */
export const shown = ({ argv }: Pick<SetupCommand, "argv">): string =>
  argv[0] === "/bin/sh" && argv[1] === "-c" && argv.length === 3 ? argv[2] ?? "" : argv.join(" ")

export interface Failure {
  readonly command: SetupCommand
  /** `null`: a signal ended it, or it could not be started. */
  readonly exitCode: number | null
}

/** `null`: it succeeded. Output goes to `output` as it comes. */
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
      const pace = Pace.make(BYTES_PER_SECOND)
      const reading = yield* Effect.forkScoped(
        Effect.ensuring(
          Stream.runForEach(process.stdout, (bytes) => Effect.andThen(pace(bytes.length), Effect.sync(() => stream.push(bytes)))),
          Effect.sync(() => stream.end())
        )
      )
      const exit = yield* process.exited
      yield* Effect.raceFirst(Fiber.await(reading), Effect.sleep(READ_WITHIN))
      return exit
      // With the scope ends what it left running.
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
