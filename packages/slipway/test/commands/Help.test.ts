/** The required parts of `--help`, for every command. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { psOptions } from "../../src/commands/QuickCommands.ts"
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

/** Prints the addresses of the modules that a command loads, one a line, to standard error. */
const printsModules = `import { registerHooks } from "node:module"
registerHooks({
  load: (url, context, next) => {
    if (url.startsWith("file:")) console.error("loads", url)
    return next(url, context)
  }
})`

const modulesOf = Effect.fnUntraced(function*(args: ReadonlyArray<string>, settings: Readonly<Record<string, string>> = {}) {
  const { code, stderr } = yield* run(yield* folder, args, settings, ["--import",
    `data:text/javascript,${encodeURIComponent(printsModules)}`])
  const lines = stderr.split("\n").filter((line) => line !== "")
  const modules = lines.filter((line) => line.startsWith("loads "))
  return { code, modules, rest: lines.filter((line) => !modules.includes(line)).join("\n") }
})

it.live("the list of commands does not load the whole of effect, which takes a fifth of its start", () =>
  Effect.gen(function*() {
    for (const args of [["--help"], ["ps", "--help"]]) {
      const { code, modules, rest } = yield* modulesOf(args)
      assert.deepStrictEqual([code, rest], [0, ""], args.join(" "))
      assert.isEmpty(modules.filter((line) => /effect.dist.(?:http.)?index.js$/u.test(line)), args.join(" "))
    }
  }), 30_000)

it.live("ps loads nothing of effect, and few modules, because each takes part of its start", () =>
  Effect.gen(function*() {
    const { code, modules, rest } = yield* modulesOf(["ps", "--url", "http://127.0.0.1:1"], { SLIPWAY_API_KEY: "sbx_live_none" })
    assert.strictEqual(code, 7)
    assert.match(rest, /^slipway: nothing answers at http:\/\/127\.0\.0\.1:1\./u)
    assert.isEmpty(modules.filter((line) => line.includes("/node_modules/")))
    assert.isAtMost(modules.length, 32)
  }), 30_000)

it("ps leaves a command line that it does not read by itself to the whole command, which explains it", () => {
  const plain = {
    all: false,
    archived: false,
    repo: undefined,
    limit: 100,
    state: undefined,
    watch: false,
    quiet: false,
    json: false,
    url: undefined
  }
  assert.deepStrictEqual(psOptions([]), plain)
  assert.deepStrictEqual(psOptions(["-aq", "--limit=7", "--state", "asking", "--repo", "acme/shop", "--json", "--url", "http://h"]), {
    all: true,
    archived: false,
    repo: "acme/shop",
    limit: 7,
    state: "asking",
    watch: false,
    quiet: true,
    json: true,
    url: "http://h"
  })
  for (
    const args of [["--help"], ["--log-level", "info"], ["--limit", "0"], ["--limit", "1001"], ["--limit", "x"], ["--state", "toString"], [
      "--repo",
      ""
    ], ["--all", "--all"], ["--all=false"], ["c_abcdefgh2345"], ["--"], ["--repo"]]
  ) {
    assert.isNull(psOptions(args), args.join(" "))
  }
})

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
