/** The page docs/cli.md: the `--help` of every command. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { CliOutput, Command, type HelpDoc } from "effect/cli"
import { whole } from "./commands/Slipway.ts"
import { exitCodesText } from "./commands/terminal/ExitCodes.ts"
import * as Help from "./commands/terminal/Help.ts"

const block = (text: string) => `\`\`\`text\n${text.split("\n").map((line) => line.trimEnd()).join("\n").trim()}\n\`\`\``

/** Keeps the tables of a description, except those of the settings and the exit codes, which are on other pages. */
const prose = (description: string): string =>
  description.replace(exitCodesText, "[Exit codes](commands.md#exit-codes)").split("\n\n").map((part) =>
    part.startsWith("NAME ")
      ? "[settings.md](settings.md) has them all."
      : /^\S+ {2}/u.test(part)
      ? block(part)
      : part.replaceAll(/[<|]/gu, "\\$&")
  ).join("\n\n")

/** The help of `slipway` followed by `names`, as data. */
const helpOf = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  let found: HelpDoc.HelpDoc | undefined
  const present: CliOutput.Presenter["present"] = (event) =>
    Effect.sync(() => {
      if ("helpDoc" in event) found = event.helpDoc
    })
  yield* Command.runWith(yield* whole, { version: "" })([...names, "--help"]).pipe(
    Effect.provide(CliOutput.layerPresenter({ present }))
  )
  return found ?? (yield* Effect.die(`slipway ${names.join(" ")} has no help`))
})

const sections = (names: ReadonlyArray<string>, command: Command.Command.Any): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function*() {
    const { description, globalFlags, subcommands, ...rest } = yield* helpOf(names)
    // The first section has the flags of every command and the list of commands. Subcommands have sections of their own.
    const doc = {
      ...rest,
      description: "",
      ...(names.length > 0 || globalFlags === undefined ? {} : { globalFlags }),
      ...(names.length > 0 || subcommands === undefined ? {} : { subcommands })
    }
    const title = `${"#".repeat(names.length + 2)} ${["slipway", ...names].join(" ")}`
    const inner = command.subcommands.flatMap(({ commands }) => commands)
    const below = yield* Effect.forEach(inner, (one) => sections([...names, one.name], one))
    // A command that only has subcommands has nothing of its own to show.
    const isGroup = names.length > 0 && inner.length > 0 && rest.flags.length === 0 && (rest.examples ?? []).length === 0
    return [title, prose(description), ...(isGroup ? [] : [block(Help.format(doc, names.length === 0, false))]), ...below.flat()]
  }).pipe(Effect.orDie, Effect.provide(NodeServices.layer))

const INTRODUCTION = `# The command

For operators and users of the command. After reading a section you know the flags of a command, as its \`--help\` prints them.

[Commands](commands.md) is the guide to the commands for sandboxes, with the server and the key that they use. In a checkout the command is
\`npx slipway\`. \`npm run docs:reference\` writes this page.`

/** A section for each command, in the order of `slipway --help`. */
export const helpPage: Effect.Effect<string> = Effect.map(
  Effect.flatMap(whole, (command) => sections([], command)),
  (all) => `${[INTRODUCTION, ...all].join("\n\n")}\n`
)
