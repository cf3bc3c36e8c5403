/** `slipway repos`: repositories of this machine that sandboxes may use. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { LocalRepositories } from "@slipway/adapters/local-source/LocalRepositories"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { administration, json } from "./Administration.ts"
import { columns, print } from "./Output.ts"

const name = Argument.String("owner/name").pipe(
  Argument.withDescription("Name that sandboxes use for it"),
  Argument.withSchema(RepoName)
)

const add = Command.make("add", {
  name,
  path: Argument.String("path").pipe(Argument.withDescription("Folder of the repository: a checkout or a bare one")),
  json
}, ({ json, name, path }) =>
  administration(Effect.gen(function*() {
    const repositories = yield* LocalRepositories
    const repository = yield* repositories.register(name, path)
    yield* print(json, repository, () => `${repository.fullName} is ${repository.path}. Sandboxes push branches there that start with slipway/.`)
  }))).pipe(
    Command.withDescription("Let sandboxes use a git repository of this machine"),
    Command.withExamples([{ command: "slipway repos add acme/shop ~/src/shop", description: "A checkout" }])
  )

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const repositories = yield* LocalRepositories
    const all = yield* repositories.list
    yield* print(json, all, () =>
      all.length === 0 ? "No repositories. Add one with: slipway repos add <owner/name> <path>" : columns([
        ["NAME", "PATH"],
        ...all.map(({ fullName, path }) => [fullName, path])
      ]))
  }))).pipe(Command.withDescription("List the repositories of this machine"))

const remove = Command.make("remove", { name, json }, ({ json, name }) =>
  administration(Effect.gen(function*() {
    const repositories = yield* LocalRepositories
    const removed = yield* repositories.remove(name)
    yield* print(json, { fullName: name, removed }, () =>
      removed ? `${name} is no longer known. Nothing in its folder was touched.` : `${name} was not known.`)
  }))).pipe(Command.withDescription("Forget a repository; its folder stays as it is"))

export const repos = Command.make("repos").pipe(
  Command.withDescription("Repositories of this machine: add, list, remove"),
  Command.withSubcommands([add, list, remove])
)
