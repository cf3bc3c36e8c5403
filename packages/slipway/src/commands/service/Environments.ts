/** `slipway env`: the environment file of a repository. */
import { FILES } from "@slipway/domain/environment/rules/FindEnvironment"
import { Effect } from "effect"
import { Command } from "effect/cli"
import path from "node:path"
import * as Isolation from "../../settings/Isolation.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { type Found, look } from "./EnvironmentLook.ts"
import { environmentRun, folder, nothing, working } from "./EnvironmentRun.ts"

/** The command in the syntax of a shell. */
const shownCommand = (argv: ReadonlyArray<string>): string =>
  argv[0] === "/bin/sh" && argv[1] === "-c" && argv.length === 3
    ? argv[2] ?? ""
    : argv.map((argument) => /^[\w@%+=:,./-]+$/u.test(argument) ? argument : `'${argument.replaceAll("'", String.raw`'\''`)}'`).join(" ")

/** The first row of a subject names it. */
const rows = (subject: string, cells: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<ReadonlyArray<string>> =>
  cells.map((row, i) => [i === 0 ? subject : "", ...row])

const table = (found: Found): string =>
  columns([
    ["file", found.file],
    ...rows("setup", found.setup.flat().map(({ argv, key }) => [key, shownCommand(argv)])),
    ...rows("cache", found.cache.map((one) => [one])),
    ...(found.cache.length === 0 ? [] : rows("cache key", [
      ...found.cacheKey.files.map((one) => [one]),
      ...found.cacheKey.missing.map((one) => [one, "is not there"])
    ])),
    ...rows("env", Object.entries(found.env).map(([name, value]) => [name, value])),
    ...rows("secrets", found.secrets.map((one) => [one])),
    ...rows(
      "egress",
      found.egress.map(({ allowed, name }) => [name, allowed ? "allowed" : `not on ${Isolation.settings.egressAllow.name}`])
    ),
    ...rows("ports", found.ports.map(({ label, port }) => [`${port}`, label ?? ""])),
    ...rows("image", found.image === null ? [] : [[found.image]]),
    ["timeout", `${found.timeoutMinutes} min`],
    ["on failure", found.onFailure],
    ...rows("ignored", found.ignored.map((one) => [one]))
  ])

const check = Command.make("check", { folder, working, json }, ({ folder, json, working }) =>
  Effect.gen(function*() {
    const found = yield* look(path.resolve(folder), working ? "working" : "commit")
    yield* print(json, found, () =>
      found.file === null
        ? nothing(found)
        : table(found))
  })).pipe(
    Command.withDescription(
      `Check the environment file of a repository: ${FILES[0]}, or else its devcontainer.json.\n\n` +
        "Shows the commands in order, the caches and their key files, variables, names of secrets, and the destinations that this " +
        "service allows. The first error is shown with its key; then the command exits with 1."
    ),
    Command.withShortDescription("Check the environment file of a repository"),
    Command.withExamples([
      { command: "slipway env check", description: "HEAD of the repository in this folder" },
      { command: "slipway env check ~/src/shop --working", description: "Another repository, with uncommitted changes" }
    ])
  )

export const env = Command.make("env").pipe(
  Command.withDescription("Environment files of repositories: check, run"),
  Command.withSubcommands([check, environmentRun])
)
