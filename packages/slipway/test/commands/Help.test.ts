/** The required parts of `--help`, for every command. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { slipway } from "../../src/commands/Slipway.ts"

interface Found {
  readonly path: string
  readonly command: Command.Command.Any
}

const within = (path: string, command: Command.Command.Any): ReadonlyArray<Found> =>
  command.subcommands.flatMap(({ commands }) =>
    commands.flatMap((one) => {
      const of = `${path} ${one.name}`
      return [{ path: of, command: one }, ...within(of, one)]
    })
  )

it.effect(
  "every command that does something has an example, which begins with it",
  Effect.fnUntraced(function*() {
    const found = within("slipway", yield* slipway([]))
    assert.isAbove(found.length, 70)
    const doing = found.filter(({ command }) => command.subcommands.length === 0)
    for (const { command, path } of doing) {
      assert.isNotEmpty(command.examples, path)
      for (const { command: example } of command.examples) assert.include(example, path)
    }
  })
)

it.effect(
  "a command is loaded by itself where it is named",
  Effect.fnUntraced(function*() {
    const names = (args: ReadonlyArray<string>) =>
      Effect.map(slipway(args), ({ subcommands }) => subcommands.flatMap(({ commands }) => commands.map(({ name }) => name)))
    for (const name of yield* names([])) assert.deepStrictEqual(yield* names([name, "--help"]), [name])
    assert.deepStrictEqual(yield* names(["toString"]), yield* names(["--help"]))
  })
)
