/** The required parts of `--help`, for every command. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { meantBy, slipway, spelled, whole } from "../../src/commands/Slipway.ts"
import { folder, run } from "./SlipwayProcess.ts"

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
    const found = within("slipway", yield* whole)
    assert.isAbove(found.length, 70)
    const doing = found.filter(({ command }) => command.subcommands.length === 0)
    for (const { command, path } of doing) {
      assert.isNotEmpty(command.examples, path)
      for (const { command: example } of command.examples) assert.include(example, path)
    }
  })
)

const commandsOf = (args: ReadonlyArray<string>) =>
  Effect.map(slipway(args), ({ subcommands }) => subcommands.flatMap(({ commands }) => commands))

it.effect(
  "a command is loaded by itself where it is named, and none for the list of commands",
  Effect.fnUntraced(function*() {
    // The modules have the description; the list has the short one.
    const loaded = (args: ReadonlyArray<string>) =>
      Effect.map(commandsOf(args), (found) => found.filter(({ description }) => description !== undefined).map(({ name }) => name))
    const names = (yield* commandsOf([])).map(({ name }) => name)
    for (const name of names) assert.deepStrictEqual(yield* loaded([name, "--help"]), [name])
    for (const args of [[], ["--help"], ["toString"]]) assert.deepStrictEqual(yield* loaded(args), [], args.join())
    for (const args of [["--log-level", "info", "ps"], ["--completions", "bash"]]) assert.deepStrictEqual(yield* loaded(args), names)
  })
)

it.live("neither the list of commands nor ps loads the whole of effect, which takes a fifth of their start", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const hook = `import { registerHooks } from "node:module"
registerHooks({
  load: (url, context, next) => {
    if (/effect.dist.(?:http.)?index.js$/.test(url)) console.error("loads", url)
    return next(url, context)
  }
})`
    for (const args of [["--help"], ["ps", "--help"]]) {
      const { code, stderr } = yield* run(data, args, {}, ["--import", `data:text/javascript,${encodeURIComponent(hook)}`])
      assert.deepStrictEqual([code, stderr], [0, ""], args.join(" "))
    }
  }), 30_000)

it.effect(
  "every command has its line in the list",
  Effect.fnUntraced(function*() {
    for (const { name, shortDescription = "" } of yield* commandsOf([])) assert.isNotEmpty(shortDescription, name)
  })
)

it("a word that no command has leads to the nearest one, or to the command that other tools call so", () => {
  assert.deepStrictEqual(["sandboxs", "create", "atach", "deny", "kill", "zzzzzz"].map(meantBy), ["ps", "run", "attach", "approve", "stop",
    null])
})

it("help and version are words too, a list needs no word, and a former name is that of today", () => {
  const full: ReadonlyArray<readonly [typed: string, meant: string]> = [
    ["help", "--help"],
    ["help keys create", "keys create --help"],
    ["version", "--version"],
    ["ps help", "ps help"],
    ["keys", "keys list"],
    ["secrets --grant acme --json", "secrets list --grant acme --json"],
    ["repos --help", "repos --help"],
    ["keys create", "keys create"],
    ["login --user ada", "sign-in-link --user ada"],
    ["help login", "sign-in-link --help"],
    ["auth login", "auth login"]
  ]
  for (const [typed, meant] of full) assert.strictEqual(spelled(typed.split(" ")).join(" "), meant)
  assert.deepStrictEqual(spelled([]), [])
})

it.effect(
  "every command with a list lists when it is called alone",
  Effect.fnUntraced(function*() {
    const groups = (yield* whole).subcommands.flatMap(({ commands }) => commands)
    for (const { name, subcommands } of groups) {
      const hasList = subcommands.some(({ commands }) => commands.some((one) => one.name === "list"))
      // A list of checkpoints needs a sandbox, and pulls has a list of its own.
      if (hasList && !["checkpoints", "pulls"].includes(name)) assert.deepStrictEqual(spelled([name]), [name, "list"])
    }
  })
)
