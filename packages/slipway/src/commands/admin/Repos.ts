/** `slipway repos`: repositories of this machine for sandboxes. */
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as SampleRepository from "../../service/SampleRepository.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { alias, aliases, unalias } from "./RepoAliases.ts"
import { settings } from "./RepoSettings.ts"

const name = Argument.String("owner/name").pipe(
  Argument.withDescription("Name that sandboxes use for it"),
  Argument.withSchema(RepoName)
)

/** The arguments contradict each other. */
class WrongArguments extends Schema.TaggedError<WrongArguments>()("WrongArguments", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const SAMPLE = SampleRepository.NAME

const sample = Effect.gen(function*() {
  const { dataDir } = yield* RunningServices.findFolder(yield* Settings.load)
  return yield* SampleRepository.inFolder(dataDir)
})

const add = Command.make("add", {
  name: Argument.optional(name),
  folder: Argument.String("path").pipe(Argument.withDescription("Folder of the repository: a checkout or a bare one"), Argument.optional),
  sample: Flag.Boolean("sample").pipe(
    Flag.withDescription(`Make a small repository in the data folder and add that, as ${SAMPLE}`),
    Flag.withDefault(false)
  ),
  json
}, ({ folder, json, name, sample: isSample }) =>
  Effect.gen(function*() {
    if (isSample ? Option.isSome(name) : Option.isNone(folder)) {
      return yield* new WrongArguments({ detail: "a name and a path are needed, or --sample alone: slipway repos add <owner/name> <path>" })
    }
    yield* GitProgram.version
    yield* administration(Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const at = isSample ? yield* sample : Option.getOrElse(folder, () => "")
      const repository = yield* repositories.register(Option.getOrElse(name, () => SAMPLE), at)
      yield* print(json, repository, () =>
        `${repository.fullName} is ${repository.path}. Sandboxes push branches there that start with slipway/.`)
    }))
  })).pipe(
    Command.withDescription("Register a git repository of this machine for sandboxes"),
    Command.withExamples([
      { command: "slipway repos add acme/shop ~/src/shop", description: "A checkout" },
      { command: "slipway repos add --sample", description: `A small one to try things with, ${SAMPLE}` }
    ])
  )

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const repositories = yield* LocalRepositories
    const all = yield* repositories.list
    yield* print(json, all, () =>
      all.length === 0 ? "No repositories. Add one with: slipway repos add <owner/name> <path>, or slipway repos add --sample" : columns([
        ["NAME", "PATH"],
        ...all.map(({ fullName, path }) => [fullName, path])
      ]))
  }))).pipe(
    Command.withDescription("List the repositories of this machine"),
    Command.withExamples([{ command: "slipway repos list --json", description: "For a script" }])
  )

const remove = Command.make("remove", { name, json }, ({ json, name }) =>
  administration(Effect.gen(function*() {
    const repositories = yield* LocalRepositories
    const removed = yield* repositories.remove(name)
    yield* print(json, { fullName: name, removed }, () =>
      removed ? `${name} is removed from the list. Its folder was not changed.` : `${name} was not known.`)
  }))).pipe(
    Command.withDescription("Forget a repository; its folder stays as it is"),
    Command.withExamples([{ command: "slipway repos remove acme/shop", description: "Sandboxes of it that are there go on" }])
  )

export const repos = Command.make("repos").pipe(
  Command.withDescription(
    "Repositories of this machine: add, list, remove; of any host: settings; names for those of several hosts: alias, unalias, aliases"
  ),
  Command.withSubcommands([add, list, remove, settings, alias, unalias, aliases])
)
