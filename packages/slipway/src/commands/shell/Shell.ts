/** `slipway shell`: a shell in the box of a running sandbox. */
import { CLOSE, END_REASONS } from "@slipway/api/schema/TerminalMessages"
import { MAX_TERMINALS } from "@slipway/domain/sandbox/ports/Terminals"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import * as Server from "../client/server/Server.ts"
import * as ServerAccess from "../client/server/ServerAccess.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as TerminalSession from "./TerminalSession.ts"

const failed = (detail: string, exitCode: number) => new Server.CommandFailed({ detail, exitCode })

const finish = Effect.fnUntraced(function*(id: string, terminal: string, outcome: TerminalSession.Outcome) {
  const again = `slipway shell ${id}${terminal === "1" || terminal === "new" ? "" : ` --terminal ${terminal}`}`
  switch (outcome._tag) {
    case "Detached":
      return yield* Terminal.say(`\nDetached. The terminal runs on for 30 minutes; attach again with: ${again}`)
    case "Refused":
      return yield* failed(
        outcome.message,
        outcome.code === "agent_disconnected" || outcome.code === "unavailable" ? Server.ExitCode.unreachable : Server.ExitCode.refused
      )
    case "Lost":
      return yield* outcome.code === CLOSE.revoked
        ? failed("your access ended.", Server.ExitCode.unauthorized)
        : outcome.code === CLOSE.deleted
        ? failed("the sandbox was deleted.", Server.ExitCode.ended)
        : failed(`the connection broke. The terminal may run on; attach again with: ${again}`, Server.ExitCode.unreachable)
    case "Ended":
      if (outcome.reason === "lost") {
        return yield* failed(`${END_REASONS.lost} Attach again with: ${again}`, Server.ExitCode.unreachable)
      }
      if (outcome.reason !== "exited") return yield* failed(END_REASONS[outcome.reason], Server.ExitCode.ended)
      yield* Effect.sync(() => {
        process.exitCode = outcome.code ?? 1
      })
  }
})

export const shell = Command.make("shell", {
  id: Server.id,
  terminal: Flag.Int("terminal").pipe(
    Flag.withDescription(`Number of the terminal, 1 to ${MAX_TERMINALS}; default: 1. It is made if it does not exist`),
    Flag.filter((number) => number >= 1 && number <= MAX_TERMINALS, () => `--terminal is 1 to ${MAX_TERMINALS}`),
    Flag.optional
  ),
  fresh: Flag.Boolean("new").pipe(Flag.withDescription("Make another terminal"), Flag.withDefault(false)),
  url: Server.url
}, ({ fresh, id: given, terminal: number, url }) =>
  Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const terminal = fresh ? "new" : String(Option.getOrElse(number, () => 1))
    const { columns, rows } = TerminalSession.size()
    const path = `/api/public/v1/sandboxes/${id}/terminal?terminal=${terminal}&columns=${columns}&rows=${rows}`
    const access = yield* Server.failing(() => ServerAccess.connect(Option.getOrUndefined(url)))
    const socket = yield* Server.failing(() => access.webSocket(path))
    yield* finish(id, terminal, yield* TerminalSession.run(socket))
  })).pipe(
    Command.withDescription(
      "Open a shell in the box of a running sandbox, with the agent's files, programs and rights. It does not wake a resting sandbox. " +
        "Enter, then ~. detaches: the terminal runs on for 30 minutes, and the same command attaches to it again. Without a terminal, " +
        "standard input and output are piped. The exit code is that of the shell.\n\n" +
        Server.exitCodesText
    ),
    Command.withShortDescription("Open a shell in a running sandbox"),
    Command.withExamples([
      { command: "slipway shell c_abcdefgh2345", description: "Attach to its first terminal" },
      { command: "slipway shell c_abcdefgh2345 --new", description: "Open another one" }
    ])
  )
